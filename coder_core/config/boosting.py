"""Values of Deep Boosting Learning: the section [boosting] of a configuration."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from coder_core.config.setting import setting

Boosting = Literal[
    "none", "rs", "rm", "as", "am", "rs-as", "rm-am", "dr", "rkd", "dml", "dino", "dino-reversed"
]


@dataclass(frozen=True)
class BoostingConfig:
    """A second branch whose scores the model has to surpass (Diao et al. 2024)."""

    boosting: Boosting = setting(
        "none",
        "Deep Boosting Learning on top of the loss: relative (rs, rm) or absolute (as, am) margins over a teacher (the "
        "paper's anchor branch), summed over negatives or at the hardest (DBL eq. 7-10; the paper recommends rm and am), or "
        "the mean of two (rs-as, rm-am). Or imitation of the teacher, what the paper compares with: dr (ranks), rkd "
        "(relations), dml (mutual learning where branches train together), dino, dino-reversed.",
    )
    boosting_weight: float = setting(
        1.0,
        "Weight of the boosting loss, which is summed over the batch (DBL: 1, beside the summed triplet loss).",
        "[0, inf)",
    )
    boosting_start_epoch: float = setting(
        0.0,
        "Epochs before the boosting loss counts; a moving average follows from the start (DBL: 0). What the loss's own "
        "warm-up teaches needs no teacher, and a step without one is a plain step. Online it is 0, also during "
        "--warmup-epochs.",
        "[0, inf)",
    )
    boosting_margin: float = setting(
        0.2, "γ, by how much the model should surpass the teacher (DBL: 0.2).", "[0, inf)"
    )
    boosting_split: float = setting(
        0.5, "α of as and am: the positive's share of γ, the negative's is the rest (DBL: 0.5).", "[0, 1]"
    )
    boosting_soft: bool = setting(
        False,
        "Shrink γ where the teacher's score leaves less room (DBL eq. 14-20; the paper recommends the fixed one).",
    )
    boosting_scenario: Literal["offline", "online", "momentum"] = setting(
        "momentum",
        "Who the teacher is: a finished run (offline), branches from other seeds that train in the same step (online), or a "
        "moving average of the model itself (momentum).",
    )
    boosting_branches: int = setting(
        2,
        "Online: M, branches that train together; each is set against all before it, and the last is the model (DBL: 2, best "
        "with 3).",
        "[2, 64]",
    )
    boosting_momentum: float = setting(
        0.99995,
        "Share of the moving average that stays at the first step; rises to 1 on a cosine (DBL: 0.99995, which on a short run "
        "leaves the teacher near its random start).",
        "[0, 1]",
    )
    boosting_temperature: float = setting(
        0.1, "Divides the scores in the softmax of dr, dml, dino and dino-reversed (DINO: 0.1).", "(0, inf)"
    )
    boosting_teacher_temperature: float = setting(
        0.04,
        "The same for the teacher's scores in dino and dino-reversed, which makes it sharper (DINO: 0.04).",
        "(0, inf)",
    )
    boosting_teacher: str = setting("", "Folder of the finished run that is the offline teacher.")
    boosting_start: Literal["teacher", "scratch"] = setting(
        "teacher",
        "Offline: training starts from the teacher's weights, as DBL's program does, or from scratch, as its text says.",
    )
