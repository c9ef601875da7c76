"""The text space of a sentence-embedding model."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from coder_core.console.faults import InputError
from coder_core.model.sentence_space import sentence_space
from coder_core.model.towers.pretrained import fingerprint
from tests.support.tiny_bert import write_tiny_bert

CAPTIONS = ["a red dog runs", "one blue star and a blue ring", "the dog sits"]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    words = " ".join(CAPTIONS).split()
    return write_tiny_bert(tmp_path_factory.mktemp("sentences") / "model", words)


def test_a_sentence_model_gives_the_mean_of_its_word_pieces_whatever_else_is_encoded(model: Path) -> None:
    from transformers import AutoModel, AutoTokenizer

    space = sentence_space(str(model))
    rows = space.encode(CAPTIONS)
    tokenizer, network = AutoTokenizer.from_pretrained(model), AutoModel.from_pretrained(model).eval()
    for caption, row in zip(CAPTIONS, rows, strict=True):
        states = network(**tokenizer(caption, return_tensors="pt")).last_hidden_state[0].detach().numpy()
        mean = states.mean(0)
        np.testing.assert_allclose(row, mean / np.linalg.norm(mean), atol=1e-5)
    assert space.name == "sentence embeddings of model"
    assert space.to_files() == {}
    cut = space.encode(["dog " * 60, "dog " * 70])  # longer than the model reads
    np.testing.assert_allclose(cut[0], cut[1], atol=1e-6)


def test_a_folder_without_a_model_is_refused(tmp_path: Path, model: Path) -> None:
    with pytest.raises(InputError, match=r"config\.json"):
        sentence_space(str(tmp_path))
    with pytest.raises(InputError, match="--text-space"):
        sentence_space(str(tmp_path / "nowhere"))
    broken = shutil.copytree(model, tmp_path / "broken")
    (broken / "config.json").write_text("{}")
    with pytest.raises(InputError, match=f"--text-space {broken}"):
        sentence_space(str(broken)).encode(CAPTIONS)


@pytest.mark.parametrize("rows", [0, 4])
def test_a_sentence_model_whose_weights_do_not_fit_is_refused(tmp_path: Path, model: Path, rows: int) -> None:
    """transformers fills what is missing, or of another size, with random numbers."""
    broken = shutil.copytree(model, tmp_path / "broken")
    weights = load_file(broken / "model.safetensors")
    name = next(name for name in weights if name.endswith("query.weight"))
    weights[name] = weights[name][:rows].copy()
    save_file({key: value for key, value in weights.items() if len(value)}, broken / "model.safetensors")
    with pytest.raises(InputError, match=rf"{broken}: lacks 1 .*{name}"):
        sentence_space(str(broken)).encode(CAPTIONS)


def test_the_fingerprint_of_a_folder_changes_with_its_contents_and_not_with_its_place(
    tmp_path: Path, model: Path
) -> None:
    moved = shutil.copytree(model, tmp_path / "moved")
    assert fingerprint(moved) == fingerprint(model)
    with (moved / "config.json").open("a") as file:
        file.write("\n")
    assert fingerprint(moved) != fingerprint(model)
