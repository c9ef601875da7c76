"""A run folder becomes its model again, or says which file is damaged."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from coder_core.config.objective import MemoryConfig
from coder_core.console.faults import InputError
from coder_core.data.dataset import read_split
from coder_core.model.encode import encode_split
from coder_core.runs.analysis.read import open_analysis
from coder_core.runs.load import load_model, load_weights, read_config, read_vocabulary
from coder_core.runs.saves import SaveStore
from coder_core.training.launch import start_run
from tests.support.run_folders import cut, flip
from tests.support.tiny_runs import quiet, tiny_config, write_tiny_data


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("trained")
    threads = torch.get_num_threads()
    config = replace(
        tiny_config(write_tiny_data(folder / "data"), epochs=2), memory=MemoryConfig(bank_size=8)
    )
    yield start_run(config, folder, quiet())
    torch.set_num_threads(threads)


@pytest.fixture
def run(trained: Path, tmp_path: Path) -> Path:
    return shutil.copytree(trained, tmp_path / "run")


def test_the_best_model_gives_the_embeddings_of_the_analysis(trained: Path) -> None:
    loaded = load_model(trained)
    assert loaded.save == SaveStore(trained / "best", keep=1).names()[0]
    assert loaded.faults == []
    assert loaded.feature_size == 6
    config, _ = read_config(trained)
    dev = read_split(config.data.data, "dev")
    images, texts = encode_split(loaded.model, dev, loaded.reader.encode(dev.captions), device=loaded.device)[
        :2
    ]
    written = open_analysis(trained, "dev", verify=True)
    np.testing.assert_allclose(images, written.image_embeddings, atol=1e-6)
    np.testing.assert_allclose(texts, written.text_embeddings, atol=1e-6)
    np.testing.assert_allclose(loaded.encode_text(dev.captions), texts, atol=1e-6)


def test_before_the_first_evaluation_the_last_state_serves(run: Path) -> None:
    shutil.rmtree(run / "best")
    assert load_model(run).save == "10"


@pytest.mark.parametrize("damage", [flip, cut])
@pytest.mark.parametrize("file", ["model.safetensors", "metrics.json", "manifest.json"])
def test_a_damaged_best_save_is_named(run: Path, damage: object, file: str) -> None:
    (name,) = SaveStore(run / "best", keep=1).names()
    place = run / "best" / name / file
    damage(place)  # type: ignore[operator]
    with pytest.raises(InputError) as refused:
        load_model(run)
    assert str(place) in str(refused.value)


@pytest.mark.parametrize("damage", [flip, cut])
def test_a_damaged_state_falls_back_to_the_one_before(run: Path, damage: object) -> None:
    shutil.rmtree(run / "best")
    place = run / "state" / "10" / "model.safetensors"
    damage(place)  # type: ignore[operator]
    loaded = load_model(run)
    assert loaded.save == "5"
    assert [fault.place for fault in loaded.faults] == [str(place)]


@pytest.mark.parametrize("damage", [flip, cut])
@pytest.mark.parametrize("file", ["config.toml", "words.json", "manifest.json"])
def test_a_damaged_file_of_the_run_is_named(run: Path, damage: object, file: str) -> None:
    damage(run / file)  # type: ignore[operator]
    with pytest.raises(InputError) as refused:
        load_model(run)
    assert str(run / file) in str(refused.value)


def test_no_weights_yet(run: Path) -> None:
    for kind in ("best", "state"):
        shutil.rmtree(run / kind)
    with pytest.raises(InputError, match="holds no saved weights yet"):
        load_model(run)


def test_weights_of_another_model_are_refused_by_name_and_shape() -> None:
    module = torch.nn.Linear(2, 3)
    with pytest.raises(InputError) as refused:
        load_weights(module, {"weight": torch.zeros(3, 4), "scale": torch.ones(1)}, "x.safetensors")
    assert str(refused.value).splitlines() == [
        "x.safetensors: lacks bias",
        "x.safetensors: holds scale, which the model does not have",
        "x.safetensors: weight has shape (3, 4); expected (3, 2)",
    ]


def test_the_vocabulary_is_that_of_the_train_captions(trained: Path) -> None:
    config, _ = read_config(trained)
    vocabulary = read_vocabulary(trained, config)
    assert vocabulary is not None
    train = read_split(config.data.data, "train")
    assert set(vocabulary.words[2:]) == {word for caption in train.captions for word in caption.split()}
