"""One of several processes: a few training steps of towers on pictures, everything they came to in one file.

python -m tests.support.tower_worker FOLDER OUT.safetensors
"""

from __future__ import annotations

import sys
from pathlib import Path

from torch import Tensor

from tests.support.ddp_worker import trained
from tests.support.several_processes import run_as_one_of_several
from tests.support.tower_runs import tower_config

RATE = 1e-3  # a large one would grow the last bits of a step into the next
CASES: dict[str, dict[str, object]] = {
    "full": {"image_pooling": "gpo", "augment": "crop-flip", "dimension": 24, "temperature": 0.2},
    "lora": {
        "model": "siglip",
        "image_tuning": "lora",
        "text_tuning": "frozen",
        "projection": "linear",
        "dimension": 8,
        "loss": "dcl",
        "bank_size": 7,
        "twin_precision": "float32",
    },
    "any shape": {
        "model": "naflex",
        "image_tuning": "lora",
        "text_tuning": "lora",
        "loss": "dcl",
        "temperature": 0.2,
    },
}


def everything(folder: Path) -> dict[str, Tensor]:
    """All cases."""
    found: dict[str, Tensor] = {}
    for case, values in CASES.items():
        config = tower_config(folder, **values)  # type: ignore[arg-type]
        found |= {f"{case} {name}": value for name, value in trained(config, rate=RATE).items()}
    return found


if __name__ == "__main__":
    run_as_one_of_several(lambda: everything(Path(sys.argv[1])), sys.argv[2])
