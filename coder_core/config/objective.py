"""Settings of the losses and of what they remember: the sections [objective] and [memory] of a configuration."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from coder_core.config.setting import setting

Loss = Literal[
    "btr-sum", "btr-hardest", "npairs-hinge", "infonce", "sigmoid", "cmpm", "polynomial", "dcl-i", "dcl"
]
Diversity = Literal["std", "entropy"]
LARGEST_SCALE = 100.0  # of the logits; a larger one made CLIP's training unstable


@dataclass(frozen=True)
class ObjectiveConfig:
    """The loss of the instance branch (CODER eq. 3-6 and 8)."""

    loss: Loss = setting(
        "dcl",
        "btr-sum, btr-hardest (bidirectional triplet), npairs-hinge (all negatives, averaged), infonce, sigmoid (SigLIP, Zhai "
        "et al. 2023), cmpm (projection matching, Zhang and Lu 2018), polynomial (universal weighting, Wei et al. 2020), "
        "dcl-i (CODER's loss without diversity), dcl (eq. 4).",
    )
    margin: float = setting(
        0.2,
        "Margin of the triplet losses (vsepp: 0.2), and how near a negative of polynomial must come to count.",
        "[0, inf)",
    )
    npairs_margin: float = setting(0.1, "Margin of npairs-hinge (Thomas and Kovashka 2022: 0.1).", "[0, inf)")
    warmup_epochs: float = setting(
        1.0,
        "Epochs in which btr-hardest sums over all negatives before it takes the hardest (vse_infty: 1).",
        "[0, inf)",
    )
    temperature: float = setting(
        0.1,
        "μ of eq. 4 (CODER: 0.1), and the temperature of infonce and cmpm; a learned scale starts at 1 / temperature (SigLIP: "
        "10).",
        "(0, inf)",
    )
    learn_scale: bool = setting(
        False,
        "Learn the scale 1 / temperature of infonce or cmpm with the model, up to 100 (CLIP). sigmoid always does.",
    )
    logit_bias: float = setting(
        -10.0, "Where the bias that sigmoid learns starts (SigLIP: -10).", "[-100, 100]"
    )
    gamma: float = setting(0.3, "γ of eq. 4: negatives above it are pushed harder (CODER: 0.3).")
    positive_scale: Literal["one", "temperature"] = setting(
        "one", 'Scale of the positive term: "one" as HAL and USER do, "temperature" (μ) as eq. 4 is printed.'
    )
    positive_clamp: Literal["clamp", "relu"] = setting(
        "clamp",
        'Positive term: "clamp" is log1p(max(S, -1+1e-4)), "relu" is HAL\'s log(1 + relu(S)), flat below zero.',
    )
    diversity: Diversity = setting(
        "std", 'How dcl measures diversity: "std" (eq. 3) or "entropy" (supplement eq. 16).'
    )
    epsilon: float = setting(0.1, "ε of eq. 3 (CODER: 0.1).", "(0, inf)")
    entropy_temperature: float = setting(
        1.0,
        "τ of the softmax inside entropy diversity; 1 is the printed form, in which entropy varies in its 4th digit.",
        "(0, inf)",
    )
    diversity_gradient: bool = setting(
        False, "Let gradients run through the diversity (the papers leave it open; default: no)."
    )
    diversity_from_bank: bool = setting(
        True,
        "Average batch-level and bank-level diversity when a bank is kept (CODER section 3.3, table 3 row 3).",
    )
    same_image_negatives: bool = setting(
        False, "Count other captions of the anchor's image as negatives (literal reading; default: masked)."
    )
    weight_instance: float = setting(
        3.0,
        "Weight of the in-batch loss (λ of eq. 8: 3). Triplet losses are summed over the batch, the others averaged.",
        "[0, inf)",
    )
    weight_memory: float = setting(
        1.0, "Weight of the bank loss M-DCL (eq. 6, 8: 1). Needs a bank.", "[0, inf)"
    )
    weight_concept: float = setting(
        1.0,
        "Weight of the concept branch's DCL, both directions together (eq. 8: 1; the supplement counts it twice: 2).",
        "[0, inf)",
    )
    weight_prototypes: float = setting(
        1.0,
        "Weight of the prototype-guided classification, both modalities together (eq. 7, 8: 1). Needs prototypes.",
        "[0, inf)",
    )
    weight_heads: float = setting(
        0.0,
        "Weight of PVSE's diversity loss, which keeps what the K heads of a sample read apart (PVSE on MS-COCO: 0.1); summed "
        "over the batch where the loss is. Needs --embeddings above 1.",
        "[0, inf)",
    )
    weight_mmd: float = setting(
        0.0,
        "Weight of PVSE's discrepancy (MMD) between all images and all captions of the batch (PVSE on MS-COCO: 0.01), "
        "likewise.",
        "[0, inf)",
    )
    prototype_temperature: float = setting(
        1.0,
        "Divides the classification's logits (eq. 7: 1); below 1 the classifier sharpens sooner in a short run.",
        "(0, inf)",
    )

    @property
    def learns_scale(self) -> bool:
        """The scale of the logits is trained with the model."""
        return self.learn_scale or self.loss == "sigmoid"


@dataclass(frozen=True)
class MemoryConfig:
    """Momentum encoders and the two coupled banks (CODER section 3.3, MoCo)."""

    bank_size: int = setting(
        0, "Keys kept per modality; 0 keeps no bank (CODER: 4096 on Flickr30K).", "[0, 100_000_000]"
    )
    momentum: float = setting(
        0.995, "Share of the old key encoder that stays at every step (CODER: 0.995).", "[0, 1]"
    )
    twin_dropout: bool = setting(
        True,
        "The key encoders read with dropout, as the model does; off, the keys of one batch are the same twice (the paper does "
        "not say).",
    )
    bank_anchors: bool = setting(
        False,
        "M-DCL takes the bank's entries as anchors too, each against the batch, its positive being its own pair in the bank "
        "(eq. 6 read literally; default: the batch alone).",
    )
    bank_start_epoch: float = setting(
        0.0, "Epochs before the bank loss counts; keys are collected from the start.", "[0, inf)"
    )
    prototypes: int = setting(
        0,
        "K, prototypes that image-caption pairs are clustered into and classified by; 0 has none (CODER: 10000 for the "
        "145,000 pairs of Flickr30K, 20000 on MS-COCO). The concept branch is classified, or the instance branch without.",
        "[0, 10_000_000]",
    )
    prototype_recluster: int = setting(
        0,
        "Cluster all pairs at once every this many epochs, keeping the prototypes' numbers; 0 never does.",
        "[0, inf)",
    )
