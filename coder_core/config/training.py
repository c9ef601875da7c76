"""Settings of the training loop: the section [training] of a configuration."""

import math
from dataclasses import dataclass
from typing import Literal

from coder_core.config.setting import setting, with_help


@dataclass(frozen=True)
@with_help
class TrainingConfig:
    """Training loop: length, optimiser, saves, precision and device."""

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
    gradient_checkpointing: bool = setting(
        False,
        "Recompute BERT's and the towers' activations in the backward pass to save memory.",
        may_change=True,
    )

    def steps(self, per_epoch: int) -> int:
        """Return the number of steps of the whole run, with `per_epoch` steps in an epoch."""
        steps = self.epochs * per_epoch
        return min(steps, self.max_steps) if self.max_steps else steps
