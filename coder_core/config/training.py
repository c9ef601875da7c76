"""Settings of training: the sections [training], [objective], [memory], [boosting] and [weighting] of a configuration."""

import math
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Literal

from coder_core.config.setting import setting, with_help
from coder_core.console.faults import Fault
from coder_core.objectives.table import (
    EPSILON,
    LOSSES,
    MARGIN,
    OWN_LOSSES,
    TEMPERATURE,
    described_losses,
    load_own_losses,
    loss_names,
)

_FAILED_LOSSES = load_own_losses()
if TYPE_CHECKING:
    Loss = str
else:
    Loss = Literal[loss_names()]
Diversity = Literal["std", "entropy"]
Boosting = Literal[
    "none", "rs", "rm", "as", "am", "rs-as", "rm-am", "dr", "rkd", "dml", "dino", "dino-reversed"
]
SampleWeights = Literal[
    "none", "diversity", "discrepancy", "combined", "combined-stats", "random", "hal", "mithun", "amrani"
]
Modalities = Literal["difference", "sum", "image", "text"]
OF_NEIGHBOURHOODS = ("diversity", "discrepancy", "combined", "combined-stats", "random")
"""Weights that need every caption's neighbors in a fixed text space."""


def own_loss_faults() -> list[Fault]:
    """Return an error for each of the user's files of losses that could not be loaded."""
    fix = f"correct the file, or leave it out of {OWN_LOSSES}"
    return [
        Fault(OWN_LOSSES, f"{file} cannot be loaded ({why})", fix=fix) for file, why in _FAILED_LOSSES.items()
    ]


TENSORBOARD = "tensorboard"
WANDB = "wandb"
"""Packages that track experiments: names of the flags, and of the folders in a run folder."""


def tracker_faults(training: "TrainingConfig") -> list[Fault]:
    """Return an error for every tracker that is asked for but whose package is not installed."""
    asked = {TENSORBOARD: training.tensorboard, WANDB: training.wandb}
    return [
        Fault(f"--{name}", f"needs the package {name}, which is not installed", fix=f"pip install {name}")
        for name, wanted in asked.items()
        if wanted and find_spec(name) is None
    ]


@dataclass(frozen=True)
@with_help
class ObjectiveConfig:
    """The loss of the instance branch (CODER eq. 3-6 and 8)."""

    loss: Loss = setting("dcl", f"{'; '.join(described_losses())}.")
    margin: float = setting(
        0.2,
        "Margin of the triplet losses (vsepp: 0.2); polynomial ignores negatives further below the positive.",
        ge=0,
    )
    npairs_margin: float = setting(0.1, "Margin of npairs-hinge (Thomas and Kovashka 2022: 0.1).", ge=0)
    warmup_epochs: float = setting(
        1.0, "Epochs at the start in which btr-hardest sums over all negatives (vse_infty: 1).", ge=0
    )
    temperature: float = setting(
        TEMPERATURE,
        "μ of eq. 4 (CODER: 0.1), and the temperature of infonce and cmpm; a learned scale starts at 1 / "
        "temperature (SigLIP: 10).",
        gt=0,
    )
    learn_scale: bool = setting(
        False, "Learn the scale 1 / temperature of infonce or cmpm, up to 100 (CLIP); sigmoid always does."
    )
    logit_bias: float = setting(
        -10.0, "Start of the bias that sigmoid learns (SigLIP: -10).", ge=-100, le=100
    )
    gamma: float = setting(MARGIN, "γ of eq. 4: negatives above it are pushed harder (CODER: 0.3).")
    positive_scale: Literal["one", "temperature"] = setting(
        "one",
        'Scale of the positive term: "one", as in HAL and USER, or "temperature" (μ), as in the printed '
        "eq. 4.",
    )
    positive_clamp: Literal["clamp", "relu"] = setting(
        "clamp", 'Positive term: "clamp" is log1p(max(S, -1+1e-4)), "relu" is HAL\'s log(1 + relu(S)).'
    )
    diversity: Diversity = setting("std", 'Measure of dcl: "std" (eq. 3) or "entropy" (supplement eq. 16).')
    epsilon: float = setting(EPSILON, "ε of eq. 3 (CODER: 0.1).", gt=0)
    entropy_temperature: float = setting(
        1.0,
        "τ of the softmax inside entropy diversity; 1 is the printed form, with which entropy varies only "
        "in its 4th digit.",
        gt=0,
    )
    diversity_gradient: bool = setting(
        False, "Propagate gradients through the diversity (the papers leave it open; default: no)."
    )
    diversity_from_bank: bool = setting(
        True, "Average batch-level and bank-level diversity when a bank is kept (CODER 3.3, table 3 row 3)."
    )
    same_image_negatives: bool = setting(
        False,
        "Count other captions of the anchor's image as negatives (the paper read literally; default: "
        "masked).",
    )
    weight_instance: float = setting(
        3.0,
        "Weight of the in-batch loss (λ of eq. 8: 3). Triplet losses are summed over the batch, the "
        "others averaged.",
        ge=0,
    )
    weight_memory: float = setting(1.0, "Weight of the bank loss M-DCL (eq. 8: 1). Needs a bank.", ge=0)
    weight_concept: float = setting(
        1.0,
        "Weight of the concept branch's DCL, both directions together (eq. 8: 1; the supplement counts it "
        "twice: 2).",
        ge=0,
    )
    weight_prototypes: float = setting(
        1.0,
        "Weight of the prototype-guided classification, both modalities together (eq. 7, 8: 1). Needs "
        "prototypes.",
        ge=0,
    )
    weight_heads: float = setting(
        0.0,
        "Weight of PVSE's diversity loss, which makes the K heads of a sample attend to different parts (PVSE "
        "on MS-COCO: 0.1); summed over the batch if --loss is. Needs --embeddings above 1.",
        ge=0,
    )
    weight_mmd: float = setting(
        0.0,
        "Weight of PVSE's discrepancy (MMD) between all images and all captions of the batch (PVSE on "
        "MS-COCO: 0.01); summed over the batch if --loss is. Needs --embeddings above 1.",
        ge=0,
    )
    prototype_temperature: float = setting(
        1.0,
        "Divides the classification's logits (eq. 7: 1); below 1 the classifier sharpens sooner in a "
        "short run.",
        gt=0,
    )

    @property
    def learns_scale(self) -> bool:
        """True if the scale of the logits is trained with the model."""
        return self.learn_scale or LOSSES[self.loss].always_learns_scale


@dataclass(frozen=True)
@with_help
class MemoryConfig:
    """Momentum encoders and the two coupled banks (CODER section 3.3, MoCo)."""

    bank_size: int = setting(
        0, "Keys per modality; 0: no bank (CODER, Flickr30K: 4096).", ge=0, le=100_000_000
    )
    momentum: float = setting(
        0.995, "Share of the key encoder kept at every step (CODER: 0.995).", ge=0, le=1
    )
    twin_dropout: bool = setting(
        True,
        "Use dropout in the key encoders, as in the model; without it, encoding a batch twice gives the "
        "same keys (the paper leaves this open).",
    )
    bank_anchors: bool = setting(
        False,
        "Use the bank's entries as anchors of M-DCL too, each compared with the batch and with its own "
        "pair in the bank as positive (eq. 6 read literally; default: only the batch has anchors).",
    )
    bank_start_epoch: float = setting(
        0.0, "Epochs before the bank loss counts; keys are collected from the start.", ge=0
    )
    prototypes: int = setting(
        0,
        "K, number of prototypes that image-caption pairs are clustered into; 0: none (CODER: 10000 for "
        "the 145,000 pairs of Flickr30K, 20000 on MS-COCO). The concept branch learns to predict them; "
        "without one, the instance branch does.",
        ge=0,
        le=10_000_000,
    )
    prototype_recluster: int = setting(
        0,
        "Epochs between full clusterings of all pairs, in which prototypes keep their numbers; 0: never.",
        ge=0,
    )


@dataclass(frozen=True)
@with_help
class BoostingConfig:
    """A second branch whose scores the model has to surpass (Diao et al. 2024)."""

    boosting: Boosting = setting(
        "none",
        "Deep Boosting Learning on top of the loss: relative (rs, rm) or absolute (as, am) margins over a "
        "teacher (the paper's anchor branch), summed over negatives or at the hardest (DBL eq. 7-10; the "
        "paper recommends rm and am), or the mean of two (rs-as, rm-am). Or imitation of the teacher, "
        "which the paper compares with: dr (ranks), rkd (relations), dml (mutual learning if branches "
        "train together), dino, dino-reversed.",
    )
    boosting_weight: float = setting(
        1.0, "Weight of the boosting loss, summed over the batch (DBL: 1, beside summed triplets).", ge=0
    )
    boosting_start_epoch: float = setting(
        0.0,
        "Epochs before the boosting loss counts; a moving average follows the model from the start (DBL: "
        "0). The warm-up of the loss itself needs no teacher, and a step without one costs no more than a "
        "plain step. Online it must be 0, even with --warmup-epochs.",
        ge=0,
    )
    boosting_margin: float = setting(0.2, "γ, margin over the teacher (DBL: 0.2).", ge=0)
    boosting_split: float = setting(
        0.5, "α of as and am: the positive's share of γ; the negative gets the rest (DBL: 0.5).", ge=0, le=1
    )
    boosting_soft: bool = setting(
        False, "Shrink γ if the teacher's score leaves less room (DBL eq. 14-20; its paper keeps γ fixed)."
    )
    boosting_scenario: Literal["offline", "online", "momentum"] = setting(
        "momentum",
        "The teacher: a finished run (offline), branches from other seeds that train in the same step "
        "(online), or a moving average of the model itself (momentum).",
    )
    boosting_branches: int = setting(
        2,
        "Online: M, number of branches that train together; each has all before it as teachers, and the "
        "last is the model (DBL: 2, best with 3).",
        ge=2,
        le=64,
    )
    boosting_momentum: float = setting(
        0.99995,
        "Share of the moving average kept at the first step; it rises to 1 along a cosine (DBL: 0.99995, "
        "which on a short run leaves the teacher near its random start).",
        ge=0,
        le=1,
    )
    boosting_temperature: float = setting(
        0.1, "Divides the scores in the softmax of dr, dml, dino and dino-reversed (DINO: 0.1).", gt=0
    )
    boosting_teacher_temperature: float = setting(
        0.04,
        "Divides the teacher's scores in the softmax of dino and dino-reversed; smaller is sharper (DINO: "
        "0.04).",
        gt=0,
    )
    boosting_teacher: str = setting(
        "", "Folder of the finished run that is the offline teacher.", may_change=True
    )
    boosting_start: Literal["teacher", "scratch"] = setting(
        "teacher",
        "Offline: training starts from the teacher's weights, as in DBL's program, or from scratch, as in "
        "its text.",
    )

    @property
    def online(self) -> bool:
        """True if branches train together."""
        return self.boosting != "none" and self.boosting_scenario == "online"

    @property
    def offline(self) -> bool:
        """True if the teacher is a finished run."""
        return self.boosting != "none" and self.boosting_scenario == "offline"


@dataclass(frozen=True)
@with_help
class WeightingConfig:
    """Weights of the positives: complementary samples (Thomas and Kovashka, "Emphasizing Complementary Samples for
    Non-literal Cross-modal Retrieval"), and the weightings they compare with."""

    sample_weights: SampleWeights = setting(
        "none",
        "Weight of a positive: how far apart its semantic neighbors are in the joint space (diversity, "
        "eq. 4-6), how far it is from its neighbors' neighbors (discrepancy, eq. 2-3), both (combined, "
        "eq. 7; combined-stats, eq. 8), chance (random: each pair has the diversity of another, a "
        "control), how many queries it misleads (hal), how badly it ranks (mithun), or how dense its "
        "surroundings are (amrani).",
    )
    weight_modalities: Modalities = setting(
        "difference",
        "The image's and the text's α become one weight by the softmax of |α_X − α_Y| (the paper's "
        "choice) or of their sum, or one of them alone is the weight (its table 3).",
    )
    weight_direction: int = setting(
        -1,
        "Γ: -1 emphasizes diverse or discrepant pairs (the paper's choice), 1 the opposite, 0 weighs all "
        "equally.",
        ge=-1,
        le=1,
    )
    weight_scale: float = setting(
        6.125,
        "λ ÷ batch size: the larger, the further apart the weights (the paper: λ of at least the batch "
        "size; with batches of 32 it is 196 on COCO, 160 on GoodNews, 96 on Politics). Weights under "
        "npairs-hinge sum to λ; under any other loss their mean is 1, so that the loss keeps its size.",
        gt=0,
    )
    diversity_share: float = setting(
        1.0, "β̂ of combined; the paper chooses (β̂, γ̂) on dev from (1, 1 … 5) and (2 … 5, 1).", ge=0
    )
    discrepancy_share: float = setting(1.0, "γ̂ of combined, the share of discrepancy.", ge=0)
    neighbours: int = setting(
        200,
        "N, number of semantic neighbors of a caption, not counting its own image's captions (the paper: "
        "200).",
        ge=1,
        le=1_000_000,
    )
    neighbours_of_neighbours: int = setting(
        1000,
        "Neighbors of neighbors drawn for discrepancy each epoch, the same number per neighbor (the "
        "paper: at most 1000 at a time); 0 takes all N².",
        ge=0,
        le=1_000_000_000,
    )
    text_space: str = setting(
        "",
        "Folder of a sentence-embedding model for transformers, in whose space neighbors are found; "
        "empty: TF-IDF with truncated SVD of the train captions.",
        may_change=True,
    )
    text_space_size: int = setting(256, "Dimension of the truncated SVD after TF-IDF.", ge=2, le=65_536)
    within_image: float = setting(
        0.0,
        "Weight of the loss that keeps images of neighboring captions together (THOMAS in the paper's "
        "tables: Thomas and Kovashka 2020); 0: none.",
        ge=0,
    )
    within_text: float = setting(0.0, "As within-image, for the captions; 0: none.", ge=0)

    @property
    def reads_neighbours(self) -> bool:
        """True if captions need neighbors in the text space."""
        return self.sample_weights in OF_NEIGHBOURHOODS or self.within_image > 0 or self.within_text > 0


@dataclass(frozen=True)
@with_help
class TrainingConfig:
    """Training loop: length, optimizer, saves, precision and device."""

    epochs: int = setting(30, "Passes over the captions (CODER: 30).", ge=1)
    max_steps: int = setting(
        0,
        "Steps after which training ends, even within an epoch: the schedule of the learning rate ends "
        "there, dev is evaluated and the run is finished. 0: after all epochs.",
        ge=0,
    )
    batch_size: int = setting(
        128,
        "Image-caption pairs in a batch, over all processes (CODER: 128).",
        ge=2,
        reason="a contrastive loss needs negatives in the batch",
    )
    piece_size: int = setting(
        0,
        "Pairs that each process takes through the encoders at a time; 0: its whole share of the batch. "
        "Small pieces train a large batch in little memory (gradient caching, Gao et al. 2021): the loss "
        "still compares all pairs, and every piece is encoded twice, which takes a third to a half "
        "longer. Region features need --image-layers 1 or 0.",
        ge=0,
        may_change=True,
    )
    learning_rate: float = setting(
        2e-4,
        "Peak learning rate of AdamW (CODER: 2e-4). For towers tuned in full, at most 1e-5 (WiSE-FT, FLIP).",
        gt=0,
    )
    bert_rate: float = setting(0.1, "BERT's share of the learning rate (vse_infty: 0.1).", ge=0)
    weight_decay: float = setting(1e-4, "AdamW's weight decay (vse_infty: 1e-4).", ge=0)
    schedule: Literal["step", "cosine", "constant", "plateau"] = setting(
        "step",
        "Step: divide the rate by ten after the share decay-at of all steps (CODER: after 15 of 30 "
        "epochs). Cosine: let it fall to zero. Plateau: divide it by ten whenever R@sum has not improved "
        "for the evaluations given by plateau.",
    )
    decay_at: float = setting(0.5, "Share of all steps after which step divides the rate by ten.", gt=0, le=1)
    plateau: int = setting(
        5,
        "Evaluations in a row without a better R@sum after which the plateau schedule divides the rate by "
        "ten (Thomas and Kovashka 2022: 5 epochs, by the validation loss).",
        ge=1,
    )
    warmup_steps: int = setting(
        0,
        "Steps over which the learning rate rises from zero. A preset's warm-up of more than an eighth of "
        "the run is shortened to a tenth.",
        ge=0,
    )
    clip_norm: float = setting(2.0, "Largest norm of the gradient (vse_infty: 2).", gt=0, le=math.inf)
    seed: int = setting(0, "Seed of all random numbers.", ge=0, le=2_147_483_647)
    evaluate_every: int = setting(1, "Epochs between two evaluations on dev.", ge=1)
    choose_on: Literal["all", "half"] = setting(
        "all",
        "Images on which the best epoch is chosen: all of dev, or half of its images, so that the other "
        "half stays unseen. Half also writes R@sum of both halves into the history and the tables of "
        "ablate.",
    )
    patience: int = setting(0, "Evaluations without a better R@sum before stopping; 0: never.", ge=0)
    save_every: float = setting(
        120.0,
        "Seconds between two saves of the training state; every epoch's end saves too.",
        gt=0,
        le=math.inf,
        may_change=True,
    )
    precision: Literal["auto", "float32", "bfloat16"] = setting(
        "auto",
        "Auto: bfloat16 autocast on a GPU, float32 on a CPU. Losses are always float32.",
        may_change=True,
    )
    twin_precision: Literal["auto", "float32", "bfloat16"] = setting(
        "auto",
        "Precision of the passes without gradients: the momentum encoder's and a boosting teacher's. "
        "Auto: as precision; if that is auto too, bfloat16 on AMD processors that can multiply it.",
        may_change=True,
    )
    device: str = setting(
        "auto", '"auto", "cpu", "cuda", "cuda:1" …', suggestions=("auto", "cpu", "cuda"), may_change=True
    )
    threads: int = setting(
        0, "CPU threads; 0: all cores. It affects the last bits of results.", ge=0, le=1024, may_change=True
    )
    compile: bool = setting(
        False, "Compile the model with torch.compile (faster only on a GPU).", may_change=True
    )
    tensorboard: bool = setting(
        False, "Also write TensorBoard events into the run's folder tensorboard/, for tensorboard --logdir."
    )
    wandb: bool = setting(
        False,
        "Also write the history for Weights & Biases into the run's folder wandb/, offline; wandb sync uploads it.",
    )
    gradient_checkpointing: bool = setting(
        False,
        "Recompute BERT's and the towers' activations in the backward pass to save memory.",
        may_change=True,
    )

    def steps(self, per_epoch: int) -> int:
        """Return the number of steps of the whole run, with `per_epoch` steps in an epoch."""
        steps = self.epochs * per_epoch
        return min(steps, self.max_steps) if self.max_steps else steps
