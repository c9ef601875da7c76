"""A BERT run by folder: it trains BERT itself and encodes free text; a folder that is gone is named."""

import shutil

import numpy as np
import pytest
import torch

from coder_core.console.faults import InputError
from coder_core.runs.load import load_model
from coder_core.training.launch import start_run
from coder_core.training.prepare import prepare
from tests.support.tiny_bert import write_tiny_bert
from tests.support.tiny_runs import WORDS, quiet, tiny_config


def test_a_run_keeps_no_word_list_trains_bert_and_encodes_free_text(data, tmp_path):
    bert = write_tiny_bert(tmp_path / "bert", WORDS)
    config = tiny_config(data, epochs=1, text_encoder="bert", bert=str(bert))
    run = start_run(config, tmp_path, quiet())
    assert not (run / "words.json").exists()
    loaded = load_model(run)
    actual = loaded.encode_text(["a red star", "A RED STAR", "zebra"])
    assert np.linalg.norm(actual, axis=1) == pytest.approx(1.0, abs=1e-5)
    np.testing.assert_allclose(actual[0], actual[1], atol=1e-6)
    assert not loaded.model.training
    name = "words.bert.encoder.layer.0.attention.self.query.weight"
    start, trained = (model.state_dict()[name] for model in (prepare(config).model, loaded.model))
    assert not torch.equal(start, trained)
    shutil.rmtree(bert)
    with pytest.raises(InputError, match="is not on this machine"):
        load_model(run)
