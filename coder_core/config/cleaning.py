"""Settings of the search for wrong captions before training: the section [cleaning] of a configuration."""

from dataclasses import dataclass
from typing import Literal

from coder_core.config.objective import Loss
from coder_core.config.setting import setting


@dataclass(frozen=True)
class CleaningConfig:
    """Judge the train pairs, and train without those that probably belong to another image."""

    clean: bool = setting(
        False,
        "Train two judges on complementary halves of the train images first. Each judges the other's pairs, and those that "
        "probably belong to another image are left out (docs/training.md, Wrong captions).",
    )
    clean_by: Literal["halves", "small-loss"] = setting(
        "halves",
        "Judges: two runs on complementary halves, or one run on all pairs for a quarter of the epochs and a mixture of two "
        "Gaussians over its losses (small-loss selection: DivideMix, Li et al. 2020; NCR, Huang et al. 2021).",
    )
    clean_loss: Loss = setting("infonce", "Loss of the judges, which have no banks, concepts or prototypes.")
    clean_above: float = setting(
        0.5, "A pair is left out from this estimated probability of belonging to another image on.", "(0, 1]"
    )
    clean_rounds: int = setting(
        1,
        "Rounds; in every further one the judges learn from what the last one kept and judge all.",
        "[1, 5]",
    )
    clean_judges: str = setting(
        "", "Path of another cleaned run, whose judges and reviews this run shares; empty: its own."
    )
    keep_judges: bool = setting(
        True,
        "Keep the judges' runs, with which the app's Data page lists the pairs; their reviews stay anyway.",
    )
