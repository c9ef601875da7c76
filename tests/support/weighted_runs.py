"""Runs trained with sample weights."""

from coder_core.training.launch import start_run
from tests.support.tiny_runs import STILL, quiet, tiny_config, write_tiny_data

KINDS = {"combined": "combined", "opposite": "diversity", "hal": "hal"}
COUNT = 4
SCALE = 4.0


def weighted(data, name="tiny", *, dropout=True, bank=0, **values):
    """Return a configuration of DIVERSITY weights with the n-pairs hinge; `values` replace settings."""
    usual = {"loss": "npairs-hinge", "npairs_margin": 0.4, "weight_instance": 1.0}
    usual |= {"sample_weights": "diversity", "weight_scale": SCALE}
    usual |= {"neighbours": COUNT, "neighbours_of_neighbours": 0}
    return tiny_config(data, name, bank_size=bank, **({} if dropout else STILL) | usual | values)


def train_weighted(base):
    """Train "combined", "opposite" (DIVERSITY, Γ = 1), "hal", "unweighted" on one data set; return their folder."""
    data = write_tiny_data(base / "data", images=30, captions=3)
    for name, kind in KINDS.items():
        more = {"weight_direction": 1} if name == "opposite" else {}
        start_run(weighted(data, name, sample_weights=kind, epochs=1, **more), base / "runs", quiet())
    start_run(tiny_config(data, "unweighted", epochs=1), base / "runs", quiet())
    return base / "runs"
