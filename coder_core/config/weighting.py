"""Values of the per-positive sample weights: the section [weighting] of a configuration."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from coder_core.config.setting import setting

SampleWeights = Literal[
    "none", "diversity", "discrepancy", "combined", "combined-stats", "random", "hal", "mithun", "amrani"
]
Modalities = Literal["difference", "sum", "image", "text"]
OF_NEIGHBOURHOODS = ("diversity", "discrepancy", "combined", "combined-stats", "random")
"""The weights that need every caption's neighbours in a fixed text space."""


@dataclass(frozen=True)
class WeightingConfig:
    """Weights of the positives: complementary samples (Thomas and Kovashka, "Emphasizing Complementary Samples for
    Non-literal Cross-modal Retrieval"), and the weightings they compare with."""

    sample_weights: SampleWeights = setting(
        "none",
        "What weighs a positive: how far apart its semantic neighbours are in the joint space (diversity, eq. 4-6), how far "
        "it is from its neighbours' neighbours (discrepancy, eq. 2-3), both (combined, eq. 7; combined-stats, eq. 8), nothing "
        "(random: each pair has the diversity of another, a control), how many queries it is a false friend of (hal), how "
        "badly it ranks (mithun), how dense its surroundings are (amrani).",
    )
    weight_modalities: Modalities = setting(
        "difference",
        "The image's and the text's α become one weight by the softmax of |α_X − α_Y| (the paper's choice) or of their sum, "
        "or one of them alone is the weight (its table 3).",
    )
    weight_direction: int = setting(
        -1,
        "Γ: -1 emphasises what is diverse or discrepant (the paper's choice), 1 the opposite, 0 weighs all alike.",
        "[-1, 1]",
    )
    weight_scale: float = setting(
        6.125,
        "λ ÷ batch size: the larger, the further apart the weights (the paper: λ of at least the batch size; with batches of "
        "32 it is 196 on COCO, 160 on GoodNews, 96 on Politics). Weights under npairs-hinge sum to λ; under any other loss "
        "their mean is 1, so that the loss keeps its size.",
        "(0, inf)",
    )
    diversity_share: float = setting(
        1.0,
        "β̂ of combined; the paper chooses (β̂, γ̂) on dev from (1, 1), (1, 2) … (1, 5) and (2, 1) … (5, 1).",
        "[0, inf)",
    )
    discrepancy_share: float = setting(1.0, "γ̂ of combined, the share of discrepancy.", "[0, inf)")
    neighbours: int = setting(
        200,
        "N, semantic neighbours of a caption; not itself nor captions of its image (the paper: 200).",
        "[1, 1_000_000]",
    )
    neighbours_of_neighbours: int = setting(
        1000,
        "Neighbours of neighbours drawn for discrepancy each epoch, equally many of every neighbour (the paper: at most 1000 "
        "at a time); 0 takes all N².",
        "[0, 1_000_000_000]",
    )
    text_space: str = setting(
        "",
        "Folder of a sentence-embedding model for transformers, in whose space neighbours are found; empty takes TF-IDF and "
        "truncated SVD of the train captions.",
    )
    text_space_size: int = setting(256, "Numbers per caption after the truncated SVD.", "[2, 65_536]")
    within_image: float = setting(
        0.0,
        "Weight of the loss that keeps images of neighbouring captions together (THOMAS in the paper's tables: Thomas and "
        "Kovashka 2020); 0 has none.",
        "[0, inf)",
    )
    within_text: float = setting(0.0, "Weight of the same loss for captions.", "[0, inf)")

    @property
    def reads_neighbours(self) -> bool:
        """True if captions need neighbours in the text space."""
        return self.sample_weights in OF_NEIGHBOURHOODS or self.within_image > 0 or self.within_text > 0
