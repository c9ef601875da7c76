"""coder-lab features DATA --model NAME_OR_FOLDER --grid 7 --out FOLDER: region features for training.

Patch tokens or feature-map cells of a pretrained tower, in the precomp layout that every preset trains on.
"""

import tyro

from coder_core.console.faults import stop_on_errors
from coder_core.console.plain_files import check_folder
from coder_core.console.runner import command
from coder_core.embedding.arguments import FeaturesArguments


@command
def main(arguments: list[str]) -> int:
    """Write the features of the splits."""
    parsed = tyro.cli(FeaturesArguments, prog="coder-lab features", args=arguments)
    stop_on_errors([*check_folder(f"--out {parsed.out}", parsed.out), *parsed.towers.faults()])

    from coder_core.embedding.extraction import extract_features

    extract_features(parsed)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
