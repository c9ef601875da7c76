"""Random data and models of realistic sizes: region features, concepts, pictures and CLIP folders."""

import csv
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from coder_core.model.concepts.choosing import Concept, ConceptVocabulary
from coder_core.model.concepts.knowledge import Concepts
from coder_core.model.towers.pretrained import quiet

IMAGES = 512
REGIONS = 36
FEATURES = 2048
CAPTIONS_PER_IMAGE = 5
VOCABULARY = 8_000
# length of Flickr30K's training captions
MEAN_WORDS = 12.3
STD_WORDS = 5.2
SHORTEST = 3
LONGEST = 60
LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789"


def write_features(folder: Path, seed: int = 0, features: int = FEATURES) -> None:
    """Write train_ims.npy (float32, 150 MB with 2048 features) and train_caps.txt; word frequencies follow Zipf's law."""
    random = np.random.default_rng(seed)
    shape = (IMAGES, REGIONS, features)
    regions = np.lib.format.open_memmap(folder / "train_ims.npy", mode="w+", dtype=np.float32, shape=shape)
    for row in regions:
        row[:] = random.random((REGIONS, features), dtype=np.float32)
    regions.flush()
    frequencies = 1 / np.arange(1, VOCABULARY + 1)
    variance = np.log1p((STD_WORDS / MEAN_WORDS) ** 2)
    logarithms = np.log(MEAN_WORDS) - variance / 2, np.sqrt(variance)
    lengths = random.lognormal(*logarithms, IMAGES * CAPTIONS_PER_IMAGE)
    lengths = lengths.round().clip(SHORTEST, LONGEST).astype(int)
    words = [random.choice(VOCABULARY, length, p=frequencies / frequencies.sum()) for length in lengths]
    text = "".join(" ".join(f"word{number}" for number in caption) + "\n" for caption in words)
    (folder / "train_caps.txt").write_text(text, encoding="utf-8")


def random_concepts(random: np.random.Generator, count: int, width: int, connected: float) -> Concepts:
    """Create `count` concepts with random vectors; the share `connected` of their pairs occurs together in captions."""
    counts = random.integers(1, 60, (count, count))
    together = np.triu((random.random((count, count)) < connected) * counts, 1)
    vectors = random.standard_normal((count, width), dtype=np.float32)
    names = tuple(Concept(f"concept{i}", "object", 100, (f"concept{i}",)) for i in range(count))
    vocabulary = ConceptVocabulary(names, "textblob")
    return Concepts(vocabulary, together + together.T, np.full(count, 100), vectors)


def write_clip(
    folder: Path,
    *,
    width: int,
    layers: int,
    pixels: int,
    patch: int,
    embedding: int,
    text_width: int = 64,
    longest: int = 32,
    words: int = 0,
) -> Path:
    """Save a CLIP with random weights whose tokens are letters. `width`, `text_width`: of the picture and text towers,
    both with `layers` layers. `longest`: tokens in a text. `words`: size of the token table, if larger than needed."""
    from transformers import CLIPConfig, CLIPImageProcessorPil, CLIPModel, CLIPTokenizer

    letters = (letter + end for letter in LETTERS for end in ("", "</w>"))
    tokens = ["<|startoftext|>", "<|endoftext|>", *letters]

    def sizes(width: int) -> dict[str, int]:
        heads = max(1, width // 64)
        layer = {"hidden_size": width, "intermediate_size": 4 * width, "num_attention_heads": heads}
        return layer | {"num_hidden_layers": layers}

    vision = sizes(width) | {"image_size": pixels, "patch_size": patch}
    text = sizes(text_width) | {"max_position_embeddings": longest, "vocab_size": max(words, len(tokens))}
    text |= {"bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 1}
    config = CLIPConfig(text_config=text, vision_config=vision, projection_dim=embedding)
    torch.manual_seed(0)
    with quiet():
        CLIPModel(config).save_pretrained(folder)
    vocabulary = {token: number for number, token in enumerate(tokens)}
    CLIPTokenizer(vocab=vocabulary, merges=[], model_max_length=longest).save_pretrained(folder)
    crop = {"height": pixels, "width": pixels}
    CLIPImageProcessorPil(size={"shortest_edge": pixels}, crop_size=crop).save_pretrained(folder)
    return folder


def write_vit_b32(folder: Path) -> Path:
    """Save a CLIP of ViT-B/32's size with random weights."""
    shape = {"width": 768, "layers": 12, "pixels": 224, "patch": 32, "embedding": 512}
    return write_clip(folder, **shape, text_width=512, longest=77, words=49_408)


def write_pictures(folder: Path, count: int, size: tuple[int, int]) -> Path:
    """Write `count` JPEGs of (width, height) with one caption each, as an image folder."""
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
