"""coder-lab COMMAND …: all commands under one name (python -m coder_core COMMAND … is the same)."""

import difflib
import sys
from collections.abc import Sequence
from importlib import import_module

from coder_core.console.runner import command

PROGRAM = "coder-lab"
# task → command → (module, what it does); the order is that of the help
TASKS = {
    "See why a model fails": {
        "look": ("look", "check, embed and open your own pictures or vectors in the app, in one step"),
        "app": ("serve", "serve the app on this machine; trains the demo if there is no run yet"),
        "report": ("report", "write one HTML file on how two runs differ"),
    },
    "Bring in a model or its vectors": {
        "embed": ("embed", "embed pictures with CLIP or SigLIP, or import embeddings, as a run"),
        "export": ("export", "write faiss indices, Parquet files, transformers models or hard negatives"),
    },
    "Prepare and fix data": {
        "check": ("check_data", "read a data set as training would, and name its faults"),
        "reviews": ("reviews", "merge verdicts, or write a data set with their corrections"),
        "features": ("features", "turn pictures into region features"),
    },
    "Train and measure": {
        "train": ("train", "train or continue a run"),
        "evaluate": ("evaluate", "measure retrieval of runs, ensembles and folds"),
        "ablate": ("ablate", "train and compare the rows of a table, with seeds"),
    },
    "Compute ahead what the app shows": {
        "project": ("project", "lay images and captions out on a map"),
        "cluster": ("cluster", "group images and captions by k-means"),
    },
    "Shell": {"completion": ("completion", "print a completion script for bash, zsh or fish")},
}
COMMANDS = {name: module for commands in TASKS.values() for name, (module, _) in commands.items()}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command that the first argument names. Return 2 for an unknown command."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if words and words[0] in COMMANDS:
        module = import_module(f"coder_core.{COMMANDS[words[0]]}")
        return int(module.main(words[1:]))
    return _answer(words)


@command
def _answer(words: list[str]) -> int:
    """Print the version, the list of commands, or that there is no such command."""
    if words == ["--version"]:
        from coder_core import __version__

        print(f"{PROGRAM} {__version__}")
        return 0
    if not words or words[0] in ("-h", "--help", "help"):
        print(help_text())
        return 0

    similar = difflib.get_close_matches(words[0], COMMANDS, n=1)
    hint = f" Did you mean {PROGRAM} {similar[0]}?" if similar else ""
    print(f"{PROGRAM}: there is no command {words[0]!r}.{hint}\n\n{help_text()}", file=sys.stderr)
    return 2


def help_text() -> str:
    """Return the list of commands, grouped by task."""
    lines = [f"usage: {PROGRAM} COMMAND …", f"       {PROGRAM} COMMAND --help", ""]
    width = max(map(len, COMMANDS))
    for task, commands in TASKS.items():
        lines.append(f"{task}:")
        lines += [f"  {name:<{width}}  {purpose}" for name, (_, purpose) in commands.items()]
        lines.append("")
    lines.append(f"Start with: {PROGRAM} look PICTURES --model NAME")
    return "\n".join(lines)


if __name__ == "__main__":
    raise SystemExit(main())
