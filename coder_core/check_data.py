"""coder-lab check PATH: read a data set exactly as training would, describe it and name its faults.

Prints a table of the splits, one of the captions, the memory that training needs, and every fault with its file, its
row and how to fix it. The exit status is 1 when training or evaluation would refuse the data, otherwise 0. With --content
it also checks every picture and compares all pictures and captions with each other.
"""

import sys

import tyro

from coder_core.checking.arguments import CheckDataArguments
from coder_core.console.faults import InputError
from coder_core.console.runner import command


@command
def main(arguments: list[str]) -> int:
    """Survey the data set. Return 1 if training would refuse it, 2 for flags out of range."""
    parsed = tyro.cli(CheckDataArguments, args=arguments, prog="coder-lab check")
    if min(parsed.word_threshold, parsed.word_size, parsed.batch_size) < 1:
        print("--word-threshold, --word-size and --batch-size must be at least 1", file=sys.stderr)
        return 2

    if (parsed.path / "analysis").is_dir():
        if not parsed.content:
            fix = f"coder-lab check {parsed.path} --content"
            raise InputError.at(parsed.path, "is a run; only the content of its data can be checked", fix=fix)
        from coder_core.checking.stored_run import check_stored_run

        check_stored_run(parsed)
        return 0
    if parsed.other is not None:
        fix = "to judge captions, name two runs that trained on complementary halves"
        raise InputError.at(parsed.path, f"is not a run, but a second run, {parsed.other}, is given", fix=fix)

    from coder_core.checking.survey import check_data_set

    return 0 if check_data_set(parsed) else 1


if __name__ == "__main__":
    raise SystemExit(main())
