"""Settings of the training loop: the section [training] of a configuration."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from coder_core.config.setting import setting


@dataclass(frozen=True)
class TrainingConfig:
    """The loop: how long, how fast, on what."""

    epochs: int = setting(30, minimum=1, help="Passes over the captions (CODER: 30).")
    batch_size: int = setting(
        128,
        minimum=2,
        reason="a contrastive loss needs negatives in the batch",
        help="Image-caption pairs in a batch, over all processes (CODER: 128).",
    )
    piece_size: int = setting(
        0,
        minimum=0,
        help="Pairs that each process takes through the encoders at a time; 0 takes its whole share of the batch. Small "
        "pieces train a large batch in little memory (gradient caching, Gao et al. 2021): the loss still compares all "
        "pairs, and every piece is encoded twice, for a third to a half more time. Region features need "
        "--image-layers 1 or 0.",
    )
    learning_rate: float = setting(
        2e-4,
        above=0,
        help="Largest learning rate of AdamW (CODER: 2e-4). Of towers tuned in full at most 1e-5 (WiSE-FT, FLIP).",
    )
    bert_rate: float = setting(
        0.1, minimum=0, help="BERT's learning rate as a share of the others' (vse_infty: 0.1)."
    )
    weight_decay: float = setting(1e-4, minimum=0, help="AdamW's weight decay (vse_infty: 1e-4).")
    schedule: Literal["step", "cosine", "constant", "plateau"] = setting(
        "step",
        help="Step: a tenth after decay-at of the steps (CODER: after 15 of 30 epochs). Cosine: falls to zero. Plateau: a "
        "tenth whenever plateau evaluations brought no better R@sum.",
    )
    decay_at: float = setting(
        0.5,
        above=0,
        maximum=1,
        help="Share of all steps after which the step schedule divides the rate by ten.",
    )
    plateau: int = setting(
        5,
        minimum=1,
        help="Evaluations in a row without a better R@sum after which the plateau schedule divides the rate by ten (Thomas "
        "and Kovashka 2022: 5 epochs, by the validation loss).",
    )
    warmup_steps: int = setting(0, minimum=0, help="Steps over which the learning rate rises from zero.")
    clip_norm: float = setting(
        2.0, above=0, infinite=True, help="Largest norm of the gradient (vse_infty: 2)."
    )
    seed: int = setting(0, minimum=0, below=2**31, help="Everything random follows from it.")
    evaluate_every: int = setting(1, minimum=1, help="Epochs between two evaluations on dev.")
    choose_on: Literal["all", "half"] = setting(
        "all",
        help="What the best epoch is chosen on: dev, or half of its images, so that the other half stays unseen by the "
        "choice. Half also writes R@sum of both halves into the history and the tables of ablate.",
    )
    patience: int = setting(
        0, minimum=0, help="Stop after this many evaluations without a better R@sum; 0 never stops early."
    )
    save_every: float = setting(
        120.0,
        above=0,
        infinite=True,
        help="Seconds between two saves of the training state; every epoch's end saves too.",
    )
    precision: Literal["auto", "float32", "bfloat16"] = setting(
        "auto", help="Auto: bfloat16 autocast on a GPU, float32 on a CPU. Losses are always float32."
    )
    twin_precision: Literal["auto", "float32", "bfloat16"] = setting(
        "auto",
        help="Of the passes without gradients: the momentum twin's, and a boosting teacher's. Auto: as precision; with "
        "that left to auto, bfloat16 on AMD processors that multiply it too.",
    )
    device: str = setting(
        "auto", suggestions=("auto", "cpu", "cuda"), help='One of "auto", "cpu", "cuda", "cuda:1" …'
    )
    threads: int = setting(
        0,
        minimum=0,
        maximum=1024,
        help="CPU threads; 0 takes all cores. Another number changes the last bits of a run.",
    )
    compile: bool = setting(
        False, help="Compile the model with torch.compile (a GPU is needed to gain from it)."
    )
    tensorboard: bool = setting(
        False,
        help="Also write TensorBoard events into the run's folder tensorboard/; they are read with tensorboard --logdir.",
    )
    gradient_checkpointing: bool = setting(
        False, help="Recompute BERT's and the towers' activations in the backward pass to save memory."
    )
