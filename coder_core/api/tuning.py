"""What tuning changed: whether a run tuned its towers, and the metrics of blends with the weights before training."""

import shlex

import pandas as pd

from coder_core.api.listing import numbers_from
from coder_core.api.run import Run
from coder_core.runs.derived.blends import read_blends

ALPHAS = (0.0, 0.25, 0.5, 0.75, 1.0)


def is_tuned(run: Run) -> bool:
    """True if the run trained weights of a pretrained tower."""
    return numbers_from(run.summary) == "tuned towers"


def is_zero_shot(run: Run) -> bool:
    """True if pretrained towers embedded the run, without training."""
    return run.noted_towers is not None


def blends(run: Run, split: str) -> pd.DataFrame:
    """Return one row per stored blend α · tuned + (1 − α) · before training: alpha, ascending, and the metrics of
    `evaluate`. InputError: what is stored is damaged."""
    found = read_blends(run.path, split, run.analysis(split))
    return pd.DataFrame([{"alpha": alpha, **metrics} for alpha, metrics in found.items()])


def blend_command(run: Run, split: str) -> str:
    """Return the command that computes the blends of a run."""
    alphas = " ".join(f"{alpha:g}" for alpha in ALPHAS)
    return f"coder-lab evaluate {shlex.quote(str(run.path))} --split {split} --blend {alphas}"
