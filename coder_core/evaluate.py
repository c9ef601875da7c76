"""coder-lab evaluate RUN [RUN …] --split test: retrieval metrics, and the folder that the app reads."""

import tyro

from coder_core.console.output import open_console
from coder_core.console.runner import command
from coder_core.evaluating.arguments import EvaluateArguments


@command
def main(arguments: list[str]) -> int:
    """Evaluate the runs, write their analyses, print the tables."""
    parsed = tyro.cli(EvaluateArguments, prog="coder-lab evaluate", args=arguments)

    from coder_core.evaluating.inputs import read_given

    given = read_given(parsed)

    from coder_core.evaluating.runs import evaluate_runs  # imports torch

    evaluate_runs(parsed, given, open_console())
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
