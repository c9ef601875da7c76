"""Write a run's towers as a folder that transformers opens: merged weights, processor, tokenizer, model card."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from coder_core.config.schema import Config
from coder_core.console.faults import InputError
from coder_core.files.atomic import appearing
from coder_core.model.towers.checkpoints import ModelChoice, find_files
from coder_core.model.towers.halves import TextModule, VisionModule
from coder_core.model.towers.pretrained import (
    TRANSFORMERS,
    load_pretrained,
    load_processor,
    load_tokenizer,
    quiet,
)
from coder_core.model.towers.tuning import TunedTower, merge_adapters
from coder_core.objectives.table import LOSSES
from coder_core.runs.analysis.import_embeddings import check_trained
from coder_core.runs.analysis.read import open_analysis
from coder_core.runs.load import best_save, load_model, read_config

FLEXIBLE = "siglip2_vision_model"  # needs the pictures' shapes, which VisionTextDualEncoderModel drops
CARD_HEAD = """---
library_name: transformers
pipeline_tag: zero-shot-image-classification
tags: [image-text-retrieval]
---
"""
FIX = "its embeddings can be exported: --to parquet DIR"
SCALE = "scale"  # file beside the best model of runs that learn the scale of their logits


def check_exportable(run: Path) -> Config:
    """Read the configuration of a run that transformers can represent as a dual encoder. InputError: it has
    parts that such a model lacks; the first is named."""
    check_trained(run, FIX)
    config, _ = read_config(run)
    towers = config.towers
    model = config.model
    own_pooling = {model.image_pooling, model.text_pooling} != {"tower"}
    reasons = {
        "does not have a pretrained tower on both sides": not towers.both,
        "has its own projection (--projection linear)": towers.projection != "none",
        "replaces a tower's pooling (--image-pooling, --text-pooling)": own_pooling,
        "scores pair by pair": model.by_pair,
        "has a concept branch": model.concepts > 0,
    }
    for reason, holds in reasons.items():
        if holds:
            expected = "two pretrained towers in their own space"
            raise InputError.at(run, f"{reason}, so it is not a dual encoder of transformers", expected, FIX)

    return config


def write_huggingface(run: Path, folder: Path, split: str) -> None:
    """Write model.safetensors, config.json, processor, tokenizer and README.md, which lists the metrics of `split` if
    it was analysed. InputError: as for `check_exportable`; a tower's files are missing; the folder exists."""
    config = check_exportable(run)
    loaded = load_model(run)
    towers = loaded.towers
    assert towers is not None and towers.image is not None and towers.text is not None  # noqa: PT018
    sides = [towers.image.about, towers.text.about]
    for side in sides:
        if side["kind"] != TRANSFORMERS:
            raise InputError.at(run, f"uses your own tower {side['tower']!r}", "towers of transformers", FIX)

    images = _choice(run, towers.image.about)
    texts = _choice(run, towers.text.about)
    image = _merged(loaded.model.regions)
    text = _merged(loaded.model.words)
    assert isinstance(image, VisionModule)
    assert isinstance(text, TextModule)
    image_files = find_files(images)
    text_files = find_files(texts)
    with torch.no_grad():
        plain = _of_one_model(images, image, text) if images == texts else _of_two_models(run, image, text)
        _set_scale(plain, run, config)
    with appearing(folder) as unfinished, quiet():
        plain.save_pretrained(unfinished)
        load_processor(image_files, str(run)).save_pretrained(unfinished)
        load_tokenizer(text_files.tokenizer, str(run)).save_pretrained(unfinished)
        card = _card(run, split, sides, text.padded_to)
        (unfinished / "README.md").write_text(card, encoding="utf-8")


def _choice(run: Path, side: Mapping[str, Any]) -> ModelChoice:
    """Return the pretrained model of one side of a run."""
    return ModelChoice(side["model"], side["revision"], side.get("base", ""), str(run), side["fingerprint"])


def _merged(encoder: torch.nn.Module) -> torch.nn.Module:
    """Return an encoder's tower with its adapters merged into the weights."""
    assert isinstance(encoder, TunedTower)
    merge_adapters(encoder.tower)
    return encoder.tower


def _of_one_model(choice: ModelChoice, image: VisionModule, text: TextModule) -> Any:
    """Load the dual encoder that both towers come from, and copy their weights into it."""
    plain = load_pretrained(choice).model
    if hasattr(plain, "peft_config"):  # an adapter in the model's own folder
        merge_adapters(plain)
        merged = plain.state_dict()
        plain = type(plain)(plain.config)  # the one with the adapter would save it under peft's names
        plain.load_state_dict(merged)
    for tower, kind in ((image, "vision"), (text, "text")):
        getattr(plain, f"{kind}_model").load_state_dict(tower.model.state_dict())
        if tower.projection is not None:
            projection = getattr(plain, f"{'visual' if kind == 'vision' else kind}_projection")
            projection.load_state_dict(tower.projection.state_dict())
    return plain


def _of_two_models(run: Path, image: VisionModule, text: TextModule) -> Any:
    """Combine the towers of two models in a VisionTextDualEncoderModel; one without a projection gets the identity.
    InputError: such a model cannot hold one of them."""
    from transformers import MODEL_MAPPING, VisionTextDualEncoderConfig, VisionTextDualEncoderModel

    for tower, side in ((image, "image"), (text, "text")):
        kind = type(tower.model).__name__
        last = tower.projection
        hidden = int(tower.model.config.hidden_size)
        reason = ""
        if getattr(MODEL_MAPPING.get(type(tower.model.config), None), "__name__", "") != kind:
            reason = "cannot be opened on its own"
        elif tower.model.config.model_type == FLEXIBLE:
            reason = "reads pictures of any shape (NaFlex)"
        elif hidden != (text.size if last is None else getattr(last, "in_features", 0)) or (
            getattr(last, "bias", None) is not None
        ):
            reason = "has no projection that is a plain matrix"
        if reason:
            problem = f"has towers of two models, and the {side} tower, a {kind}, {reason}"
            expected = "towers that VisionTextDualEncoderModel of transformers can hold"
            raise InputError.at(run, problem, expected, FIX)
    settings = VisionTextDualEncoderConfig.from_vision_text_configs(
        image.model.config, text.model.config, projection_dim=text.size
    )
    with quiet():
        plain = VisionTextDualEncoderModel(settings, vision_model=image.model, text_model=text.model)
    for linear, tower in ((plain.visual_projection, image), (plain.text_projection, text)):
        weight = torch.eye(text.size) if tower.projection is None else tower.projection.weight
        linear.weight.copy_(torch.as_tensor(weight))
    return plain


def _set_scale(plain: Any, run: Path, config: Config) -> None:
    """Set the model's scale and bias to those that the run learned, or its scale to 1 / temperature if its loss divides
    scores by a fixed one."""
    save = best_save(run)
    values = save.tensors(SCALE) if f"{SCALE}.safetensors" in save.manifest["files"] else {}
    if not values and LOSSES[config.objective.loss].scaled:
        values = {"log_scale": torch.tensor(-math.log(config.objective.temperature))}
    for name, key in (("logit_scale", "log_scale"), ("logit_bias", "bias")):
        parameter = getattr(plain, name, None)
        if parameter is not None and key in values:
            parameter.copy_(values[key].reshape(parameter.shape))


def _card(run: Path, split: str, sides: list[dict[str, Any]], padded_to: int) -> str:
    """Format the model card: origin, data, and metrics of `split`. `padded_to`: tokens that texts are padded to; 0 uses
    a mask."""
    config, notes = read_config(run)
    towers = config.towers
    name = run.resolve().name
    models = " and ".join(dict.fromkeys(f"{side['model']} ({side['type']})" for side in sides))
    texts = f"padded to {padded_to} tokens, without a mask" if padded_to else "with their mask"
    lines = [
        CARD_HEAD,
        f"# {name}",
        "",
        f"{models}: image tower {towers.image_tuning}, text tower {towers.text_tuning}, any adapters merged.",
        f"Texts are encoded {texts}.",
        "",
        f"- loss: {config.objective.loss}, {config.training.epochs} epochs, batches of {config.training.batch_size}",
        f"- data: {config.data.data}, {notes.get('train_images', '?')} images and {notes.get('train_captions', '?')} "
        "captions",
        f"- fingerprint of the pretrained model: {', '.join(dict.fromkeys(side['fingerprint'] for side in sides))}",
        "",
        "Trained with",
        "",
        f"    {notes.get('command', '')}",
        "",
    ]
    try:
        metrics = open_analysis(run, split).metrics
    except InputError:
        return "\n".join([*lines, f"Not evaluated on {split}.", ""])

    numbers = {key: value for key, value in metrics.items() if isinstance(value, int | float)}
    table = [f"| {key} | {value:.2f} |" for key, value in numbers.items()]
    return "\n".join([*lines, f"On {split}:", "", "| metric | value |", "|---|---|", *table, ""])
