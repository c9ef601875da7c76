"""Values of pretrained towers: the section [towers] of a configuration."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from coder_core.config.setting import setting

Tuning = Literal["frozen", "lora", "full"]


@dataclass(frozen=True)
class TowersConfig:
    """Encoders that read pictures and words themselves: pretrained ones, or your own (docs/training.md, Towers)."""

    image_tower: str = setting(
        "",
        "Reads the pictures of --data, which is then any layout of pictures with captions: name or folder of a transformers "
        "model (CLIP, SigLIP, SigLIP 2, ViT, DINOv2 …), or package.module:function of your own. Empty reads region features.",
    )
    text_tower: str = setting(
        "",
        "Reads the captions instead of text-encoder: name or folder of a dual encoder (its text half) or of a text model such "
        "as BERT, or package.module:function.",
    )
    image_tuning: Tuning = setting(
        "frozen",
        "Of the image tower: frozen (LiT, Zhai et al. 2022: the best use of a strong image tower), lora (low-rank adapters, "
        "Hu et al. 2022), or full.",
    )
    text_tuning: Tuning = setting("frozen", "Of the text tower: frozen, lora, or full.")
    image_rate: float = setting(1.0, "The image tower's learning rate as a share of the others'.", "[0, inf)")
    text_rate: float = setting(1.0, "The text tower's learning rate as a share of the others'.", "[0, inf)")
    lora_rank: int = setting(
        8,
        "r: columns of an adapter's matrices, in every linear layer of a tower that is tuned by lora (peft: 8; Hu et al. "
        "2022, table 6: 1 to 64 differ little).",
        "[1, 1024]",
    )
    lora_alpha: float = setting(
        16.0,
        "α: an adapter's output is multiplied by α ÷ r (Hu et al. 2022; twice the rank is usual).",
        "(0, inf)",
    )
    lora_dropout: float = setting(
        0.0, "Dropout on what the adapters read (peft: 0; Hu et al. 2022: 0.1 for GPT-2).", "[0, 1)"
    )
    projection: Literal["linear", "none"] = setting(
        "linear",
        "Linear: a layer into the joint space on top of a tower. None: the tower's own space, whose size becomes dimension; a "
        "dual encoder then starts as it was trained.",
    )
    augment: Literal["none", "crop", "crop-flip"] = setting(
        "none",
        "Of the train pictures: a crop of 90 to 100% of the area (open_clip), and a mirror image half of the time, never "
        "where the caption says left, right or clockwise.",
    )
    workers: int = setting(
        -1,
        "Processes that decode pictures ahead of the model; -1 chooses, 0 decodes in the training process.",
        "[-1, 256]",
    )

    @property
    def both(self) -> bool:
        """True if towers read both pictures and captions."""
        return bool(self.image_tower) and bool(self.text_tower)
