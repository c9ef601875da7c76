"""A run's towers as a folder that plain transformers opens: merged weights, processor, tokenizer, model card."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import torch
from torch import nn

from coder_core.config.schema import Config
from coder_core.console.faults import Fault, InputError
from coder_core.runs.analysis.read import open_analysis
from coder_core.runs.files.atomic import appearing
from coder_core.runs.load import best_save, load_model, read_config
from coder_core.towers.dual_encoder import load_image_processor, load_tokenizer, quiet
from coder_core.towers.find import find_model
from coder_core.towers.halves import TextModule, VisionModule, Wanted, load_whole
from coder_core.towers.towers import TRANSFORMERS
from coder_core.towers.tuning import TunedTower, merge_adapters

SCALE = "scale"  # file beside a best model, of runs that learn the scale of their logits


def check_run(run: Path) -> tuple[Config, dict[str, Any]]:
    """A run's configuration and what it notes, of a run that is a dual encoder of transformers with other weights.

    Raises:
        InputError: it has layers that such a model has no place for; they are named.
    """
    config, about = read_config(run)
    towers, model = config.towers, config.model
    own = [
        (not towers.both, "has no pretrained tower on both sides"),
        (towers.image_tower != towers.text_tower, "has towers of two models"),
        (towers.projection != "none", "has a projection of its own (--projection linear)"),
        ({model.image_pooling, model.text_pooling} != {"tower"}, "pools itself (--image-pooling, --text-pooling)"),
        (model.by_pair, "scores pair by pair"),
        (model.concepts > 0, "has a concept branch"),
    ]  # fmt: skip
    reasons = [reason for holds, reason in own if holds]
    if reasons:
        expected = "both towers of one dual encoder, tuned in its own space"
        fix = "its embeddings can be exported: --to parquet DIR"
        raise InputError(Fault(str(run), f"{reasons[0]}, which no transformers model has", expected, fix))
    return config, about


def write_huggingface(run: Path, folder: Path, split: str) -> None:
    """Write model.safetensors, config.json, processor, tokenizer and README.md.

    Args:
        run: with both towers of one dual encoder.
        folder: made; appears when it is complete.
        split: whose metrics the card names, where it is analysed.

    Raises:
        InputError: as for `check_run`; a tower is not here; the folder exists.
    """
    config, about = check_run(run)
    loaded = load_model(run)
    assert loaded.towers is not None
    assert loaded.towers.image is not None
    noted = loaded.towers.image.about
    if noted["kind"] != TRANSFORMERS:
        fix = "its embeddings can be exported: --to parquet DIR"
        raise InputError(Fault(str(run), f"has the own towers {noted['tower']!r}", "towers of transformers", fix))
    wanted = Wanted(noted["model"], str(run), True, True, noted["revision"], noted["fingerprint"])
    source, _ = find_model(wanted.name, wanted.revision, wanted.place)
    _, _, plain, _ = load_whole(wanted)
    with torch.no_grad():
        for encoder, kind in ((loaded.model.regions, "vision"), (loaded.model.words, "text")):
            assert isinstance(encoder, TunedTower)
            merge_adapters(encoder.tower)
            tower = encoder.tower
            assert isinstance(tower, VisionModule | TextModule)
            _copy(getattr(plain, f"{kind}_model"), tower.model)
            if tower.projection is not None:
                _copy(getattr(plain, f"{'visual' if kind == 'vision' else kind}_projection"), tower.projection)
        _set_scale(plain, run, config)
    with appearing(folder) as place, quiet():
        plain.save_pretrained(place)
        load_image_processor(source, wanted.place).save_pretrained(place)
        load_tokenizer(source, wanted.place).save_pretrained(place)
        (place / "README.md").write_text(_card(run, config, about, noted, split), encoding="utf-8")


def _copy(target: nn.Module, trained: nn.Module) -> None:
    target.load_state_dict(trained.state_dict())


def _set_scale(plain: Any, run: Path, config: Config) -> None:
    """The scale and bias that a run learned, or the temperature of InfoNCE, as the model's own."""
    save = best_save(run)
    values = save.tensors(SCALE) if f"{SCALE}.safetensors" in save.manifest["files"] else {}
    if not values and config.objective.loss == "infonce":
        values = {"log_scale": torch.tensor(-math.log(config.objective.temperature))}
    for name, key in (("logit_scale", "log_scale"), ("logit_bias", "bias")):
        parameter = getattr(plain, name, None)
        if parameter is not None and key in values:
            parameter.copy_(values[key].reshape(parameter.shape))


def _card(run: Path, config: Config, about: dict[str, Any], noted: dict[str, Any], split: str) -> str:
    """The model card: what it was, what it read, how it ranks."""
    towers, name = config.towers, run.resolve().name
    lines = [
        "---", "library_name: transformers", "pipeline_tag: zero-shot-image-classification",
        "tags: [image-text-retrieval]", "---", "", f"# {name}", "",
        f"{noted['model']} ({noted['type']}), its image tower tuned by {towers.image_tuning} and its text tower by "
        f"{towers.text_tuning}, merged.", "",
        f"- loss: {config.objective.loss}, {config.training.epochs} epochs, batches of {config.training.batch_size}",
        f"- data: {config.data.data}, {about.get('train_images', '?')} images and {about.get('train_captions', '?')} "
        "captions",
        f"- fingerprint of the model it began as: {noted['fingerprint']}",
        "", "Trained with", "", f"    {about.get('command', '')}", "",
    ]  # fmt: skip
    try:
        metrics = open_analysis(run, split).metrics
    except InputError:
        return "\n".join([*lines, f"Not evaluated on {split}.", ""])
    numbers = {key: value for key, value in metrics.items() if isinstance(value, int | float)}
    table = [f"| {key} | {value:.2f} |" for key, value in numbers.items()]
    return "\n".join([*lines, f"On {split}:", "", "| metric | value |", "|---|---|", *table, ""])
