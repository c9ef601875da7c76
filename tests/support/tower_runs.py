"""Configurations that train tiny towers on drawn pictures."""

import io
import json
from itertools import cycle

from PIL import Image

from coder_core.config.schema import Config
from tests.support.picture_folders import CAPTIONS, NAMES, SPLITS, draw, flickr8k
from tests.support.tiny_runs import changed
from tests.support.tiny_towers import write_tiny_clip, write_tiny_naflex, write_tiny_siglip

WORDS = sorted({*" ".join(text for texts in CAPTIONS.values() for text in texts).replace(",", " , ").split()})
EVERY_PART = {
    **{"image_tuning": "lora", "text_tuning": "frozen", "lora_dropout": 0.1, "projection": "linear"},
    **{"image_pooling": "gpo", "text_pooling": "gpo", "dimension": 8, "word_size": 6, "concepts": 3},
    **{"loss": "dcl", "bank_size": 6, "prototypes": 3, "sample_weights": "combined", "neighbours": 3},
    **{"boosting": "rm", "boosting_weight": 0.01, "boosting_momentum": 0.9, "learning_rate": 3e-3},
    **{"drop_words": 0.2, "augment": "crop-flip", "gradient_checkpointing": True},
}


def write_towers_and_data(folder):
    """Write folder/clip, folder/siglip and folder/data: 6 train, 3 dev, 3 test pictures with two captions each."""
    write_tiny_clip(folder / "clip")
    write_tiny_siglip(folder / "siglip", WORDS)
    flickr8k(folder / "data")
    return folder


def write_pictures_of_any_shape(folder):
    """Write folder/naflex, and folder/shapes: the data of `write_towers_and_data` with pictures that have shapes of
    2 × 8, 3 × 5 and 4 × 4 patches in turn in every split."""
    write_tiny_naflex(folder / "naflex", WORDS)
    flickr8k(folder / "shapes")
    turns = {split: cycle(((64, 16), (60, 40), (64, 64))) for split in set(SPLITS.values())}
    for number, name in enumerate(NAMES):
        picture = Image.open(io.BytesIO(draw(number))).resize(next(turns[SPLITS[name]]))
        picture.save(folder / "shapes" / "Flicker8k_Dataset" / name)
    return folder


def tower_config(folder, name="tuned", *, model="clip", **values):
    """Return a configuration that trains all weights of both towers in their own space: "clip" or "siglip" from
    `write_towers_and_data`, or "naflex" with its pictures from `write_pictures_of_any_shape`."""
    tower = str(folder / model)
    data = str(folder / ("shapes" if model == "naflex" else "data"))
    settings = {"data": data, "image_tower": tower, "text_tower": tower, "projection": "none"}
    settings |= dict.fromkeys(("image_tuning", "text_tuning"), "full")
    settings |= dict.fromkeys(("image_pooling", "text_pooling"), "tower")
    settings |= {"loss": "infonce", "temperature": 0.05, "drop_words": 0.0, "seed": 5, "threads": 1}
    settings |= {"epochs": 3, "batch_size": 4, "learning_rate": 1e-3, "schedule": "constant"}
    settings |= {"device": "cpu", "workers": 0, "save_every": 1000.0}
    return changed(Config(name=name), **settings | values)


def with_every_part(folder):
    """Configure SigLIP with GPO on patches and words, one LoRA and one frozen tower, and every optional part."""
    concepts = folder / "concepts.json"
    concepts.write_text(json.dumps({"objects": ["ring", "disc"], "properties": ["drawn"]}))
    return tower_config(folder, "everything", model="siglip", concept_list=str(concepts), **EVERY_PART)
