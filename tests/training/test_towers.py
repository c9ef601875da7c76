"""Towers trained on pictures: they start as transformers has them, learn, are stored as what changed, and resume."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from coder_core.config.schema import Config
from coder_core.evaluate import main as evaluate
from coder_core.model.encode import encode_split
from coder_core.model.towers import open_towers, with_size_of_towers
from coder_core.runs.analysis.read import open_analysis
from coder_core.runs.files.history import HISTORY, read_history
from coder_core.runs.files.lock import RunLock
from coder_core.runs.files.sealed import read_checked, write_sealed
from coder_core.runs.load import load_model
from coder_core.training.launch import continue_run, start_run
from coder_core.training.prepare import Prepared, prepare
from coder_core.training.trainer import Trainer
from tests.support.picture_folders import CAPTIONS, NAMES, SPLITS, draw
from tests.support.tiny_runs import StoppingBatches, assert_same_run, quiet
from tests.support.tower_runs import tower_config, write_towers_and_data

CPU = torch.device("cpu")
DEV = [name for name in NAMES if SPLITS[name] == "dev"]
TEXTS = [caption for name in DEV for caption in CAPTIONS[name]]


@pytest.fixture(scope="module", autouse=True)
def _one_thread(own_threads: None) -> None:
    torch.set_num_threads(1)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_towers_and_data(tmp_path_factory.mktemp("towers"))


@pytest.fixture(scope="module")
def full(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return start_run(tower_config(folder), tmp_path_factory.mktemp("runs"), quiet())


def prepared(config: Config) -> tuple[Config, Prepared]:
    towers = open_towers(config)
    config, _ = with_size_of_towers(config, towers)
    return config, prepare(config, towers=towers)


def losses(run: Path) -> list[float]:
    return [event["loss"] for event in read_history(run / HISTORY) if event["event"] == "epoch"]


def stopped_and_continued(config: Config, run: Path, parent: Path) -> Path:
    """The same run, stopped after its second step and continued."""
    files = [name for name in ("config.toml", "words.json", "towers.json") if (run / name).exists()]
    folder = write_sealed(parent / config.name, {name: read_checked(run, name) for name in files})
    config, ready = prepared(config)
    ready = replace(ready, batches=StoppingBatches.of(ready.batches, 2))
    with RunLock(folder):
        assert Trainer(config, folder, ready, CPU, quiet()).run() == "stopped"
    return continue_run(folder, None, quiet())


@pytest.mark.parametrize("model", ["clip", "siglip"])
def test_the_first_step_starts_from_transformers_own_cosines(folder: Path, model: str) -> None:
    from transformers import AutoModel, AutoProcessor, AutoTokenizer

    _, ready = prepared(tower_config(folder, model=model))
    assert ready.dev is not None
    assert ready.dev_tokens is not None
    found = encode_split(ready.model, ready.dev, ready.dev_tokens, device=CPU)
    plain = AutoModel.from_pretrained(folder / model).eval()
    tokenizer = AutoTokenizer.from_pretrained(folder / model)
    pictures = [Image.open(io.BytesIO(draw(NAMES.index(name)))) for name in DEV]
    pixels = AutoProcessor.from_pretrained(folder / model, backend="pil")(images=pictures, return_tensors="pt")
    padding = {"padding": "max_length"} if model == "siglip" else {"padding": True}
    tokens = tokenizer(TEXTS, return_tensors="pt", truncation=True, max_length=16, **padding)
    tokens = {"input_ids": tokens["input_ids"]} if model == "siglip" else dict(tokens)
    with torch.no_grad():
        output = plain(pixel_values=pixels["pixel_values"], **tokens)
    expected = (output.image_embeds @ output.text_embeds.T).numpy()
    assert expected.std() > 0.01  # something was compared
    np.testing.assert_allclose(found.images @ found.texts.T, expected, atol=1e-6)


def test_full_tuning_lowers_the_loss(full: Path) -> None:
    assert losses(full)[-1] < losses(full)[0]


def test_a_stopped_run_that_is_continued_equals_one_that_never_stopped(
    full: Path, folder: Path, tmp_path: Path
) -> None:
    assert_same_run(stopped_and_continued(tower_config(folder), full, tmp_path), full)


def test_another_split_is_evaluated_through_the_tuned_towers(full: Path) -> None:
    assert evaluate([str(full), "--split", "test"]) == 0
    analysis = open_analysis(full, "test")
    assert analysis.image_embeddings.shape == (3, 24)
    loaded = load_model(full)
    np.testing.assert_allclose(
        loaded.encode_text(list(analysis.captions)), analysis.text_embeddings, atol=1e-5
    )  # fmt: skip
    picture = Image.open(io.BytesIO(draw(NAMES.index(analysis.image_names[0])))).convert("RGB")
    np.testing.assert_allclose(loaded.encode_picture(picture), analysis.image_embeddings[0], atol=1e-5)
    assert analysis.document("tuned").keys() == {"image", "text"}
