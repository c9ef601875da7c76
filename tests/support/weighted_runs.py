"""Runs that were trained with sample weights, as training leaves them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from coder_core.training.launch import start_run
from tests.support.tiny_runs import quiet, tiny_config, write_tiny_data
from tests.training.test_neighbourhoods import weighted

KINDS = {"combined": "combined", "opposite": "diversity", "hal": "hal"}


def train_weighted(base: Path) -> Path:
    """Runs on one small data set: both measures, DIVERSITY with Γ = 1, HAL (no neighbours), and one without weights."""
    data = write_tiny_data(base / "data", images=30, captions=3)
    for name, kind in KINDS.items():
        more = {"weight_direction": 1} if name == "opposite" else {}
        start_run(weighted(data, name, sample_weights=kind, epochs=1, **more), base / "runs", quiet())
    unweighted = tiny_config(data, "unweighted")
    start_run(replace(unweighted, training=replace(unweighted.training, epochs=1)), base / "runs", quiet())
    return base / "runs"
