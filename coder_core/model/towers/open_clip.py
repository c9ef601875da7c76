"""Read models of open_clip as CLIP of transformers: names and shapes of weights, configuration, image preparation.

open_clip (and OpenAI's CLIP before it) keeps the three projections of attention in one matrix, and projects by x @ P
where transformers has a linear layer. Only vision transformers with open_clip's own text transformer are CLIP models of
transformers; others are refused by what they contain.
"""

import re
from collections.abc import Mapping
from typing import Any

from torch import Tensor

from coder_core.console.faults import InputError

SETTINGS = "open_clip_config.json"
WEIGHTS = (
    "open_clip_model.safetensors",
    "open_clip_pytorch_model.safetensors",
    "open_clip_pytorch_model.bin",
)
MARK = "visual.conv1.weight"  # the patch embedding, in every model that is read
HEAD_WIDTH = 64
MEAN = (0.48145466, 0.4578275, 0.40821073)
DEVIATION = (0.26862954, 0.26130258, 0.27577711)
RESAMPLING = {"bicubic": 3, "bilinear": 2}
FIX = "wrap it (docs/training.md, Towers)"

# name in open_clip → name in transformers; {} is the tower, vision or text
TOP = {
    "logit_scale": "logit_scale",
    "visual.class_embedding": "vision_model.embeddings.class_embedding",
    "visual.positional_embedding": "vision_model.embeddings.position_embedding.weight",
    "visual.conv1.weight": "vision_model.embeddings.patch_embedding.weight",
    "visual.ln_pre.weight": "vision_model.pre_layrnorm.weight",
    "visual.ln_pre.bias": "vision_model.pre_layrnorm.bias",
    "visual.ln_post.weight": "vision_model.post_layernorm.weight",
    "visual.ln_post.bias": "vision_model.post_layernorm.bias",
    "visual.proj": "visual_projection.weight",
    "token_embedding.weight": "text_model.embeddings.token_embedding.weight",
    "positional_embedding": "text_model.embeddings.position_embedding.weight",
    "ln_final.weight": "text_model.final_layer_norm.weight",
    "ln_final.bias": "text_model.final_layer_norm.bias",
    "text_projection": "text_projection.weight",
}
TRANSPOSED = ("visual.proj", "text_projection")
LAYER = {
    "ln_1": "layer_norm1",
    "ln_2": "layer_norm2",
    "attn.out_proj": "self_attn.out_proj",
    "mlp.c_fc": "mlp.fc1",
    "mlp.c_proj": "mlp.fc2",
}
_BLOCK = re.compile(r"(visual\.)?transformer\.resblocks\.(\d+)\.(.+)\.(weight|bias)")
_JOINED = re.compile(r"(visual\.)?transformer\.resblocks\.(\d+)\.attn\.in_proj_(weight|bias)")

# settings of the two towers that transformers' CLIP can have, and keys that concern only training or downloads
_READ = {
    "vision": {"image_size", "layers", "width", "patch_size", "head_width", "mlp_ratio"},
    "text": {"context_length", "vocab_size", "width", "heads", "layers", "mlp_ratio"},
}
_HARMLESS = {"patch_dropout", "hf_model_pretrained", "hf_tokenizer_name", "tokenizer_kwargs"}
_USUAL = {"pool_type": ("tok", "argmax"), "proj_type": ("linear",), "pos_embed_type": ("learnable",)}


def prefix_of(names: Mapping[str, Tensor]) -> str | None:
    """Return what precedes open_clip's names in a state dict; None if they are not open_clip's."""
    found = [name.removesuffix(MARK) for name in names if name.endswith(MARK)]
    return found[0] if len(found) == 1 else None


def renamed(state: Mapping[str, Tensor], where: str) -> dict[str, Tensor]:
    """Return the weights under the names of transformers' CLIP. InputError: a weight that such a model lacks."""
    result: dict[str, Tensor] = {}
    unknown = []
    for name, tensor in state.items():
        plain = name.removeprefix("text.")  # open_clip's CustomTextCLIP keeps the text tower apart
        if joined := _JOINED.fullmatch(plain):
            tower, layer, kind = joined.groups()
            for part, rows in zip("qkv", tensor.chunk(3), strict=True):
                result[f"{_layer(tower, layer)}.self_attn.{part}_proj.{kind}"] = rows
        elif (block := _BLOCK.fullmatch(plain)) and block.group(3) in LAYER:
            tower, layer, part, kind = block.groups()
            result[f"{_layer(tower, layer)}.{LAYER[part]}.{kind}"] = tensor
        elif plain in TOP:
            result[TOP[plain]] = tensor.T.contiguous() if plain in TRANSPOSED else tensor
        elif plain not in ("attn_mask", "logit_bias"):
            unknown.append(name)

    if unknown:
        problem = f"has {len(unknown)} weights that CLIP of transformers lacks; the first: {min(unknown)}"
        raise InputError.at(where, problem, "a vision transformer with open_clip's text transformer", FIX)

    return result


def _layer(tower: str | None, layer: str) -> str:
    return f"{'vision' if tower else 'text'}_model.encoder.layers.{layer}"


def configuration(document: Mapping[str, Any], where: str) -> Any:
    """Return the `CLIPConfig` of an open_clip_config.json. InputError: it is damaged, or not such a model."""
    from transformers import CLIPConfig

    model = document.get("model_cfg")
    vision = model.get("vision_cfg") if isinstance(model, dict) else None
    text = model.get("text_cfg") if isinstance(model, dict) else None
    if not isinstance(model, dict) or not isinstance(vision, dict) or not isinstance(text, dict):
        raise InputError.at(where, "has no model_cfg with vision_cfg and text_cfg", "a file of open_clip")
    for tower, values in (("vision", vision), ("text", text)):
        _check(values, _READ[tower], f"{where} key {tower}_cfg")
    activation = "quick_gelu" if model.get("quick_gelu") else "gelu"
    try:
        vision_settings = {
            "hidden_size": vision["width"],
            "num_hidden_layers": vision["layers"],
            "num_attention_heads": vision["width"] // vision.get("head_width", HEAD_WIDTH),
            "intermediate_size": int(vision["width"] * vision.get("mlp_ratio", 4.0)),
            "patch_size": vision["patch_size"],
            "image_size": vision["image_size"],
            "hidden_act": activation,
        }
        text_settings = {
            "hidden_size": text["width"],
            "num_hidden_layers": text["layers"],
            "num_attention_heads": text["heads"],
            "intermediate_size": int(text["width"] * text.get("mlp_ratio", 4.0)),
            "max_position_embeddings": text["context_length"],
            "vocab_size": text["vocab_size"],
            "bos_token_id": text["vocab_size"] - 2,
            "eos_token_id": text["vocab_size"] - 1,
            "hidden_act": activation,
        }
        return CLIPConfig(
            text_config=text_settings, vision_config=vision_settings, projection_dim=model["embed_dim"]
        )
    except (KeyError, TypeError, ValueError) as error:
        raise InputError.at(where, f"lacks or has a wrong value: {error}", "a file of open_clip") from None


def _check(values: Mapping[str, Any], read: set[str], where: str) -> None:
    """Raise InputError for a part that CLIP of transformers lacks."""
    for key, value in values.items():
        usual = value in (None, False) or value in _USUAL.get(key, ())
        if key not in read | _HARMLESS and not usual:
            raise InputError.at(f"{where} key {key}", f"is {value!r:.80}", "a plain vision transformer", FIX)


def processor(document: Mapping[str, Any], where: str) -> Any:
    """Return the image processor of an open_clip_config.json. InputError: transformers' CLIP prepares pictures in no
    such way."""
    from transformers import CLIPImageProcessorPil

    given = document.get("preprocess_cfg") or {}
    side = int(document["model_cfg"]["vision_cfg"]["image_size"])
    mode = given.get("resize_mode", "shortest")
    filter_name = given.get("interpolation", "bicubic")
    if mode not in ("shortest", "squash") or filter_name not in RESAMPLING:
        problem = f"resizes pictures by {mode!r:.40} and {filter_name!r:.40}"
        raise InputError.at(f"{where} key preprocess_cfg", problem, "shortest or squash, bicubic", FIX)
    square = {"height": side, "width": side}
    return CLIPImageProcessorPil(
        size={"shortest_edge": side} if mode == "shortest" else square,
        do_center_crop=mode == "shortest",
        crop_size=square,
        resample=RESAMPLING[filter_name],
        image_mean=list(given.get("mean", MEAN)),
        image_std=list(given.get("std", DEVIATION)),
    )


def architecture_of(state: Mapping[str, Tensor]) -> str:
    """Describe a model by the shapes of its weights, under open_clip's names."""
    width = state[MARK].shape[0]
    side = state[MARK].shape[-1]
    blocks = map(_BLOCK.fullmatch, state)
    layers = {block.group(2) for block in blocks if block and block.group(1)}
    return f"a vision transformer with {len(layers)} layers of width {width} and patches of {side} pixels"
