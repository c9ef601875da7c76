"""Folders of tiny dual encoders as transformers saves them, with random weights, and runs that train them."""

import io
import json
from itertools import cycle

import torch
from PIL import Image

from coder_core.config.schema import Config
from tests.support.picture_folders import CAPTIONS, NAMES, SPLITS, draw, flickr8k
from tests.support.tiny_runs import changed

SIZE = 32
WIDTH = 32
LONGEST = 16
_LAYERS = {"hidden_size": WIDTH, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}
TEXT = _LAYERS | {"max_position_embeddings": LONGEST}
VISION = _LAYERS | {"patch_size": 8}
WORDS = sorted({*" ".join(text for texts in CAPTIONS.values() for text in texts).replace(",", " , ").split()})
EVERY_PART = {
    **{"image_tuning": "lora", "text_tuning": "frozen", "lora_dropout": 0.1, "projection": "linear"},
    **{"image_pooling": "gpo", "text_pooling": "gpo", "dimension": 8, "word_size": 6, "concepts": 3},
    **{"loss": "dcl", "bank_size": 6, "prototypes": 3, "sample_weights": "combined", "neighbours": 3},
    **{"boosting": "rm", "boosting_weight": 0.01, "boosting_momentum": 0.9, "learning_rate": 3e-3},
    **{"drop_words": 0.2, "augment": "crop-flip", "gradient_checkpointing": True},
}


def write_tiny_clip(folder, *, seed=0, space=24, ends_last=False):
    """Write a CLIP folder: 32 × 32 pixels, letters as tokens, `space`-dimensional embeddings. `ends_last`: start and end
    of a text are the last two tokens, as in CLIP; otherwise the first."""
    from transformers import CLIPConfig, CLIPImageProcessorPil, CLIPModel, CLIPTokenizer

    letters = [letter + end for letter in "abcdefghijklmnopqrstuvwxyz0123456789,:" for end in ("", "</w>")]
    ends = ["<|startoftext|>", "<|endoftext|>"]
    tokens = [*letters, *ends] if ends_last else [*ends, *letters]
    vocabulary = {token: number for number, token in enumerate(tokens)}
    start, end = (vocabulary[token] for token in ends)
    special = {"bos_token_id": start, "eos_token_id": end, "pad_token_id": end, "vocab_size": len(vocabulary)}
    torch.manual_seed(seed)
    text = TEXT | special
    vision = VISION | {"image_size": SIZE}
    config = CLIPConfig(text_config=text, vision_config=vision, projection_dim=space)
    _spread(CLIPModel(config)).save_pretrained(folder)
    CLIPTokenizer(vocab=vocabulary, merges=[], model_max_length=LONGEST).save_pretrained(folder)
    crop = {"height": SIZE, "width": SIZE}
    CLIPImageProcessorPil(size={"shortest_edge": SIZE}, crop_size=crop).save_pretrained(folder)
    return folder


def write_tiny_siglip(folder, words, *, seed=0):
    """Write a SigLIP folder: 32 × 32 pixels, words as tokens."""
    from transformers import SiglipConfig, SiglipImageProcessorPil, SiglipModel

    SiglipImageProcessorPil(size={"height": SIZE, "width": SIZE}).save_pretrained(folder)
    return _write(folder, SiglipModel, SiglipConfig, {"image_size": SIZE}, words, seed)


def write_tiny_naflex(folder, words, *, seed=0):
    """Write a SigLIP 2 folder for any aspect ratio: at most 16 patches of 8 × 8 pixels; one layer, so that
    `torch.compile` has less to trace."""
    from transformers import Siglip2Config, Siglip2ImageProcessorPil, Siglip2Model

    Siglip2ImageProcessorPil(patch_size=8, max_num_patches=16).save_pretrained(folder)
    return _write(folder, Siglip2Model, Siglip2Config, {"num_patches": 16}, words, seed, layers=1)


def _write(folder, model, kind, vision, words, seed, layers=2):
    torch.manual_seed(seed)
    layered = {"num_hidden_layers": layers}
    text = TEXT | layered | {"vocab_size": len(words) + 2, "projection_size": WIDTH}
    _spread(model(kind(text_config=text, vision_config=VISION | layered | vision))).save_pretrained(folder)
    _word_tokenizer(words).save_pretrained(folder)
    return folder


def _spread(model):
    """Enlarge a model's weights, so that embeddings of different inputs differ clearly."""
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim > 1:
                parameter.mul_(4)
    return model


def _word_tokenizer(words):
    """Return a tokenizer with one token per word; like SigLIP's, it also returns a mask, which SigLIP must not use."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    vocabulary = {word: number for number, word in enumerate(["<pad>", "<unk>", *words])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    special = {"pad_token": "<pad>", "unk_token": "<unk>"}
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, model_max_length=LONGEST, **special)


def embedded_by_transformers(folder, pictures, captions, *, pad=False):
    """Embed images and captions with transformers, in one batch; `pad`: to full length without mask, as SigLIP does."""
    from transformers import AutoImageProcessor, AutoModel, AutoTokenizer

    shape = {"padding": "max_length" if pad else True, "truncation": True, "max_length": LONGEST}
    tokens = AutoTokenizer.from_pretrained(folder)(list(captions), return_tensors="pt", **shape)
    tokens = {"input_ids": tokens["input_ids"]} if pad else dict(tokens)
    images = [picture.convert("RGB") for picture in pictures]
    pixels = AutoImageProcessor.from_pretrained(folder, backend="pil")(images=images, return_tensors="pt")
    with torch.inference_mode():
        output = AutoModel.from_pretrained(folder, use_safetensors=True).eval()(**pixels, **tokens)
    return output.image_embeds.numpy(), output.text_embeds.numpy()


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
