"""A BERT run by folder: trains, continues exactly, encodes free text; a damaged or missing folder is named."""

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from coder_core.config.schema import Config
from coder_core.console.faults import InputError
from coder_core.runs.load import load_model
from coder_core.training.launch import start_run
from coder_core.training.prepare import prepare
from tests.support.tiny_bert import write_tiny_bert
from tests.support.tiny_runs import WORDS, quiet, tiny_config, write_tiny_data


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Config:
    folder = tmp_path_factory.mktemp("bert")
    data = write_tiny_data(folder / "data")
    bert = write_tiny_bert(folder / "bert", WORDS)
    plain = tiny_config(data, epochs=1, threads=1)
    return replace(plain, model=replace(plain.model, text_encoder="bert", bert=str(bert)))


@pytest.fixture(scope="module")
def whole(config: Config, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return start_run(config, tmp_path_factory.mktemp("runs"), quiet())


def test_a_run_keeps_no_word_list_and_encodes_free_text(whole: Path) -> None:
    assert not (whole / "words.json").exists()
    loaded = load_model(whole)
    actual = loaded.encode_text(["a red star", "A RED STAR", "zebra"])
    assert np.linalg.norm(actual, axis=1) == pytest.approx(1.0, abs=1e-5)
    np.testing.assert_allclose(actual[0], actual[1], atol=1e-6)
    assert not loaded.model.training


def test_bert_itself_was_trained_unless_frozen(whole: Path, config: Config, tmp_path: Path) -> None:
    start = prepare(config).model.words.bert.state_dict()
    trained = load_model(whole).model.words.bert.state_dict()
    name = "encoder.layer.0.attention.self.query.weight"
    assert not torch.equal(start[name], trained[name])
    frozen = replace(config, model=replace(config.model, freeze_bert=True))
    left_alone = load_model(start_run(frozen, tmp_path, quiet())).model.words.bert.state_dict()
    assert all(torch.equal(start[key], left_alone[key]) for key in start)


def test_a_bert_folder_that_is_gone_is_named(whole: Path, config: Config, tmp_path: Path) -> None:
    moved = tmp_path / "moved"
    shutil.move(config.model.bert, moved)
    try:
        with pytest.raises(InputError, match="is not on this machine"):
            load_model(whole)
    finally:
        shutil.move(moved, config.model.bert)
