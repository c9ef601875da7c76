"""Table of the losses: function or module of each, the settings that it reads, and what it needs. Needs no torch.

`LOSSES` is the only place that describes a loss: the trainer, the checks, the command line, the app's form and the
ablations ask it. `register_loss` adds one of your own:

    register_loss("my-loss", my_loss, margin="margin")       # in my_losses.py

`my_loss(scores, positive_scores, negatives, *, margin)` takes (Q, C), (Q,) and (Q, C) bool and returns (Q,) losses.
Name the file in the environment, and `--loss my-loss` works in every command and in the app:

    CODER_LOSSES=my_losses.py coder-lab train coder-demo --loss my-loss

A file named there is your own code and runs when the program starts. Nothing in a run's folder can name it.
"""

import os
import re
import runpy
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

TEMPERATURE = 0.1  # μ of CODER eq. 4
MARGIN = 0.3  # γ of CODER eq. 4
EPSILON = 0.1  # ε of CODER eq. 3
LARGEST_SCALE = 100.0  # of the logits; a larger one made CLIP's training unstable
OWN_LOSSES = "CODER_LOSSES"  # environment variable: Python files of a user that register losses
NAME = re.compile(r"[a-z][a-z0-9-]{0,39}")


@dataclass(frozen=True)
class LossEntry:
    """One loss.

    Attributes:
        home: function of one direction, or subclass of `PairLoss`: itself, or "module.name" in this package.
        about: what it is, for the help of `--loss`.
        settings: keyword of the function or module → setting of a run that it takes.
        constants: further keywords, which no setting changes.
        reads_bank: compares anchors with a memory bank too.
        scaled: a function of scale · S, whose scale 1 / temperature can be learned; it takes `temperature`.
        always_learns_scale: its scale is always learned.
        summed: summed over the batch, as in VSE++. With gradient clipping, a sum and a mean train differently.
        warm_up: name of the loss that replaces it during the first `warmup_epochs`.
        weights_sum_to_lambda: sample weights sum to λ, instead of having mean 1.
    """

    home: str | Callable[..., Any]
    about: str = ""
    settings: Mapping[str, str] = field(default_factory=dict)
    constants: Mapping[str, Any] = field(default_factory=dict)
    reads_bank: bool = False
    scaled: bool = False
    always_learns_scale: bool = False
    summed: bool = False
    warm_up: str = ""
    weights_sum_to_lambda: bool = False

    def load(self) -> Any:
        """Return the function or module; those of this package import torch."""
        if not isinstance(self.home, str):
            return self.home
        module, name = self.home.split(".")
        return getattr(import_module(f"coder_core.objectives.{module}"), name)

    def reads(self, setting: str) -> bool:
        """Return True if a setting of a run, such as "gamma", changes this loss."""
        return setting in self.settings.values()


_CODER = {
    "temperature": "temperature",
    "margin": "gamma",
    "positive_scale": "positive_scale",
    "positive_clamp": "positive_clamp",
    "weight_batch": "weight_instance",
    "weight_bank": "weight_memory",
    "bank_size": "bank_size",
    "dimension": "dimension",
    "bank_anchors": "bank_anchors",
}
_DIVERSITY = {
    "diversity": "diversity",
    "epsilon": "epsilon",
    "entropy_temperature": "entropy_temperature",
    "diversity_gradient": "diversity_gradient",
    "diversity_from_bank": "diversity_from_bank",
}
_SCALE = {"temperature": "temperature", "learn_scale": "learn_scale"}
_MARGIN = {"margin": "margin"}
_CODER_LOSS = "diversity_contrastive.CoderLoss"

LOSSES = {
    "btr-sum": LossEntry(
        "triplet.triplet_sum", "bidirectional triplet, all negatives summed (VSE)", _MARGIN, summed=True
    ),
    "btr-hardest": LossEntry(
        "triplet.triplet_hardest",
        "bidirectional triplet, hardest negative (VSE++)",
        _MARGIN,
        summed=True,
        warm_up="btr-sum",
    ),
    "npairs-hinge": LossEntry(
        "triplet.npairs_hinge",
        "triplet averaged over all negatives (Thomas and Kovashka 2022)",
        {"margin": "npairs_margin"},
        weights_sum_to_lambda=True,
    ),
    "infonce": LossEntry("contrastive.info_nce", "InfoNCE, the loss of CLIP", _SCALE, scaled=True),
    "sigmoid": LossEntry(
        "modules.SigmoidLoss",
        "the loss of SigLIP (Zhai et al. 2023)",
        {"temperature": "temperature", "bias": "logit_bias"},
        scaled=True,
        always_learns_scale=True,
    ),
    "cmpm": LossEntry(
        "contrastive.projection_matching", "projection matching (Zhang and Lu 2018)", _SCALE, scaled=True
    ),
    "polynomial": LossEntry(
        "triplet.polynomial_hardest", "universal weighting, hardest negative (Wei et al. 2020)", _MARGIN
    ),
    "dcl-i": LossEntry(
        _CODER_LOSS, "CODER's loss without diversity", _CODER, {"diversity": None}, reads_bank=True
    ),
    "dcl": LossEntry(
        _CODER_LOSS, "CODER's diversity-sensitive loss, eq. 4", _CODER | _DIVERSITY, reads_bank=True
    ),
}
"""Every loss by its name, the value of `--loss`."""


_read = False  # True once `loss_names` was called


def loss_names() -> tuple[str, ...]:
    """Return the names of all losses, including those of the user's files; later `register_loss` raises an error.

    >>> "dcl" in loss_names()
    True
    """
    global _read
    _read = True
    return tuple(LOSSES)


def described_losses() -> list[str]:
    """Return every loss with what it is.

    >>> described_losses()[-1]
    "dcl: CODER's diversity-sensitive loss, eq. 4"
    """
    return [f"{name}: {entry.about}" if entry.about else name for name, entry in LOSSES.items()]


def register_loss(
    name: str,
    loss: Callable[..., Any],
    *,
    about: str = "",
    scaled: bool = False,
    summed: bool = False,
    **settings: str,
) -> None:
    """Add a loss to `LOSSES`, before settings are read (`coder_core.config` is imported).

    Args:
        name: lower-case letters, digits and hyphens.
        loss: function of one direction (the module's docstring shows one), or a subclass of
            `coder_core.objectives.PairLoss`.
        about: what it is, for the help of `--loss`.
        scaled: the loss takes `temperature`, and `--learn-scale` may train 1 / temperature.
        summed: sum it over the batch instead of averaging it.
        settings: keyword of the loss → key of the setting that it takes, such as margin="margin".

    Raises:
        ValueError: the name is malformed or taken.
        RuntimeError: the settings have been read already.

    >>> register_loss("dcl", print)
    Traceback (most recent call last):
    ValueError: 'dcl' already names a loss: choose another name
    """
    if not NAME.fullmatch(name):
        raise ValueError(f"{name!r} cannot name a loss: use lower-case letters, digits and hyphens")
    if name in LOSSES:
        raise ValueError(f"{name!r} already names a loss: choose another name")
    if _read:
        fix = f"name its file in {OWN_LOSSES}, or import it before coder_core.config"
        raise RuntimeError(f"{name!r} is registered too late: {fix}")
    if scaled:
        settings = _SCALE | settings
    LOSSES[name] = LossEntry(loss, about, settings, scaled=scaled, summed=summed)


def load_own_losses() -> dict[str, str]:
    """Run the user's files named in the environment variable CODER_LOSSES, which register their losses. Return the
    files that failed, and why.

    >>> load_own_losses()
    {}
    """
    failed = {}
    for file in filter(None, os.environ.get(OWN_LOSSES, "").split(os.pathsep)):
        try:
            runpy.run_path(file, run_name=Path(file).stem)
        except Exception as error:  # a user's code may raise anything
            failed[file] = f"{type(error).__name__}: {str(error)[:300]}"
    return failed
