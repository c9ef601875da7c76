"""coder-lab completion SHELL: print a script that completes commands and flags in bash, zsh or fish."""

import contextlib
import io
import re
from dataclasses import dataclass
from importlib import import_module
from typing import Literal

import tyro

from coder_core.__main__ import COMMANDS, PROGRAM
from coder_core.console.runner import command

FLAG = re.compile(r"(?<![\w-])--[a-z][a-z0-9-]*")
# words before --help that print further flags
MORE_HELP = {"embed": ["pictures", "import", "import TABLE.parquet"], "reviews": ["merge", "export"]}

BASH = """# {program} completion for bash: source <({program} completion bash)
_coder_lab() {{
  local word="${{COMP_WORDS[COMP_CWORD]}}" words
  if [ "$COMP_CWORD" -eq 1 ]; then words="{commands}"; else
    case "${{COMP_WORDS[1]}}" in
{cases}
    esac
  fi
  if [ "$COMP_CWORD" -eq 1 ] || [[ "$word" == -* ]]; then COMPREPLY=($(compgen -W "$words" -- "$word")); fi
}}
complete -o default -F _coder_lab {program}
"""
ZSH = """# {program} completion for zsh: source <({program} completion zsh)
autoload -U +X bashcompinit && bashcompinit
"""
FISH = "# {program} completion for fish: {program} completion fish | source\n"


@dataclass(frozen=True)
class CompletionArguments:
    """Print a script that completes commands and flags. bash and zsh: source <(coder-lab completion bash); fish:
    coder-lab completion fish | source."""

    shell: tyro.conf.Positional[Literal["bash", "zsh", "fish"]]  # The shell.


@command
def main(arguments: list[str]) -> int:
    """Print the script of a shell."""
    shell = tyro.cli(CompletionArguments, prog=f"{PROGRAM} completion", args=arguments).shell
    flags = {name: flags_of(name) for name in COMMANDS if name != "completion"}
    if shell == "fish":
        print(_fish(flags), end="")
        return 0

    cases = "\n".join(f'      {name}) words="{" ".join(found)}" ;;' for name, found in flags.items())
    script = BASH.format(program=PROGRAM, commands=" ".join(COMMANDS), cases=cases)
    print((ZSH.format(program=PROGRAM) if shell == "zsh" else "") + script, end="")
    return 0


def flags_of(name: str) -> list[str]:
    """Return the flags that a command's help lists, sorted."""
    module = import_module(f"coder_core.{COMMANDS[name]}")
    help_texts = io.StringIO()
    for words in ["", *MORE_HELP.get(name, [])]:
        with contextlib.redirect_stdout(help_texts), contextlib.suppress(SystemExit):
            module.main([*words.split(), "--help"])
    return sorted(set(FLAG.findall(help_texts.getvalue())))


def _fish(flags: dict[str, list[str]]) -> str:
    lines = [FISH.format(program=PROGRAM)]
    first = "not __fish_seen_subcommand_from " + " ".join(COMMANDS)
    lines.append(f"complete -c {PROGRAM} -f -n '{first}' -a '{' '.join(COMMANDS)}'\n")
    for name, found in flags.items():
        condition = f"__fish_seen_subcommand_from {name}"
        lines += [f"complete -c {PROGRAM} -n '{condition}' -l {flag[2:]}\n" for flag in found]
    return "".join(lines)


if __name__ == "__main__":
    raise SystemExit(main())
