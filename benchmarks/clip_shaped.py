"""A CLIP folder of any size with random weights, and folders of pictures: what embedding is measured on."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from coder_core.model.towers.dual_encoder import quiet

LONGEST = 32  # tokens of a text
LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789"


def write_clip(
    folder: Path,
    *,
    width: int,
    layers: int,
    pixels: int,
    patch: int,
    embedding: int,
    text_width: int = 64,
    longest: int = LONGEST,
    words: int = 0,
) -> Path:
    """Both towers of `layers` layers; the pictures' of `width`, the texts' of `text_width`, letters as tokens.

    Args:
        longest: tokens of a text. words: rows of the table of tokens, where they are more than letters need.
    """
    from transformers import CLIPConfig, CLIPImageProcessorPil, CLIPModel, CLIPTokenizer

    tokens = [
        "<|startoftext|>",
        "<|endoftext|>",
        *(letter + end for letter in LETTERS for end in ("", "</w>")),
    ]
    shape = {"num_hidden_layers": layers, "num_attention_heads": max(1, width // 64)}
    vision = shape | {
        "hidden_size": width,
        "intermediate_size": 4 * width,
        "image_size": pixels,
        "patch_size": patch,
    }
    text = {
        "hidden_size": text_width,
        "intermediate_size": 4 * text_width,
        "num_hidden_layers": layers,
        "num_attention_heads": text_width // 64,
        "max_position_embeddings": longest,
        "bos_token_id": 0,
        "eos_token_id": 1,
        "pad_token_id": 1,
        "vocab_size": max(words, len(tokens)),
    }
    config = CLIPConfig(text_config=text, vision_config=vision, projection_dim=embedding)
    torch.manual_seed(0)
    with quiet():
        CLIPModel(config).save_pretrained(folder)
    vocabulary = {token: number for number, token in enumerate(tokens)}
    CLIPTokenizer(vocab=vocabulary, merges=[], model_max_length=longest).save_pretrained(folder)
    crop = {"height": pixels, "width": pixels}
    CLIPImageProcessorPil(size={"shortest_edge": pixels}, crop_size=crop).save_pretrained(folder)
    return folder


def write_pictures(folder: Path, count: int, size: tuple[int, int]) -> Path:
    """`count` JPEGs of (width, height) with a caption each."""
    random = np.random.default_rng(0)
    (folder / "train").mkdir(parents=True)
    files = [folder / "train" / f"{number:06d}.jpg" for number in range(count)]
    for file in files:
        coarse = Image.fromarray(random.integers(0, 256, (12, 16, 3), dtype=np.uint8))
        smooth = np.asarray(coarse.resize(size, Image.Resampling.BICUBIC), dtype=np.int16)
        grain = random.integers(-12, 13, smooth.shape, dtype=np.int16)
        Image.fromarray((smooth + grain).clip(0, 255).astype(np.uint8)).save(file, quality=90)
    with (folder / "train" / "metadata.csv").open("w", encoding="utf-8", newline="") as table:
        rows = csv.writer(table)
        rows.writerow(["file_name", "text"])
        rows.writerows([file.name, f"picture {number} of {count}"] for number, file in enumerate(files))
    return folder
