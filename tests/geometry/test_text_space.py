"""The fixed text space: TF-IDF with truncated SVD, or a sentence-embedding model."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save, save_file

from coder_core.console.faults import InputError
from coder_core.geometry.text_space import (
    ARRAYS,
    NAMES,
    TfidfSpace,
    fit_tfidf,
    folder_fingerprint,
    sentence_space,
)
from tests.support.tiny_bert import write_tiny_bert

CAPTIONS = [
    "a red dog runs",
    "the red dog runs fast",
    "a blue star",
    "one blue star and a blue ring",
    "a red ring",
    "the dog sits",
    "a cat sits near the dog",
    "the cat runs",
    "a star",
    "a ring near a star",
]


def test_captions_that_share_rare_words_are_near_and_rows_have_length_one() -> None:
    space = fit_tfidf(CAPTIONS, 4)
    rows = space.encode(CAPTIONS)
    assert rows.shape == (10, 4)
    assert rows.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-6)
    assert rows[0] @ rows[1] > rows[0] @ rows[2]
    assert rows[2] @ rows[3] > rows[2] @ rows[5]


def test_with_all_singular_vectors_cosines_are_those_of_tf_idf_by_hand() -> None:
    """Terms of at least two captions: sublinear counts, idf = log((1 + m) / (1 + df)) + 1, unit rows."""
    space = fit_tfidf(CAPTIONS, 100)
    words = [[word for word in caption.split() if len(word) > 1] for caption in CAPTIONS]
    frequency = {word: sum(word in row for row in words) for row in words for word in row}
    terms = sorted(word for word, count in frequency.items() if count > 1)
    assert list(space.terms) == terms
    table = np.zeros((len(words), len(terms)))
    for i, row in enumerate(words):
        for j, term in enumerate(terms):
            if term in row:
                table[i, j] = (1 + np.log(row.count(term))) * (np.log(11 / (1 + frequency[term])) + 1)
    table /= np.linalg.norm(table, axis=1, keepdims=True)
    kept = space.components @ table.T  # the last singular vector is left out: one fewer than the words
    expected = kept / np.linalg.norm(kept, axis=0)
    np.testing.assert_allclose(space.encode(CAPTIONS), expected.T, atol=1e-5)


def test_a_caption_without_a_known_word_is_a_zero_row() -> None:
    assert not fit_tfidf(CAPTIONS, 4).encode(["zebra crossing", ""]).any()


def test_fitting_twice_gives_the_same_space_and_its_files_give_it_back_bit_for_bit() -> None:
    first, second = fit_tfidf(CAPTIONS, 4), fit_tfidf(CAPTIONS, 4)
    files = first.to_files()
    assert files == second.to_files()
    back = TfidfSpace.from_files(str(files[NAMES]).encode(), bytes(files[ARRAYS]), "run")  # type: ignore[arg-type]
    assert np.array_equal(back.encode(CAPTIONS), first.encode(CAPTIONS))
    assert back.name == "TF-IDF of 10 words, SVD to 4"


@pytest.mark.parametrize(
    ("names", "arrays", "said"),
    [
        (b"[", None, "cannot be read"),
        (b'{"format": "another", "terms": []}', None, "is no list of words"),
        (b'{"format": "coder-text-space-1", "terms": ["a"]}', None, "does not fit the words"),
        (None, b"no tensors", "cannot be read"),
    ],
)
def test_damaged_files_are_named(names: bytes | None, arrays: bytes | None, said: str) -> None:
    files = fit_tfidf(CAPTIONS, 4).to_files()
    whole = str(files[NAMES]).encode(), bytes(files[ARRAYS])  # type: ignore[arg-type]
    with pytest.raises(InputError, match=said):
        TfidfSpace.from_files(names or whole[0], arrays or whole[1], "run")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"idf": np.ones(10, np.float32)}, r"text_space.safetensors: holds idf \(float32\)"),
        ({"components": np.ones((4, 10), np.int32)}, r"text_space.safetensors: holds components \(int32\)"),
        (
            {"components": np.full((4, 10), np.nan, np.float32)},
            r"text_space.safetensors: holds components \(float32\)",
        ),
        ({"components": np.ones((0, 10), np.float32)}, "text_space.safetensors: holds no components"),
    ],
)
def test_weights_that_are_no_text_space_are_named(change: dict[str, np.ndarray], said: str) -> None:
    space = fit_tfidf(CAPTIONS, 4)
    names = str(space.to_files()[NAMES]).encode()
    with pytest.raises(InputError, match=said):
        TfidfSpace.from_files(names, save({"idf": space.idf, "components": space.components} | change), "run")


def test_captions_that_share_no_words_are_refused_with_the_way_out() -> None:
    with pytest.raises(InputError, match="Name a sentence-embedding model with --text-space"):
        fit_tfidf(["one", "two", "three"], 4)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    words = " ".join(CAPTIONS).split()
    return write_tiny_bert(tmp_path_factory.mktemp("sentences") / "model", words)


def test_a_sentence_model_gives_the_mean_of_its_word_pieces_whatever_stands_beside_it(model: Path) -> None:
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


def test_a_caption_longer_than_the_model_is_cut(model: Path) -> None:
    rows = sentence_space(str(model)).encode(["dog " * 60, "dog " * 70])
    np.testing.assert_allclose(rows[0], rows[1], atol=1e-6)


def test_a_folder_without_a_model_is_refused(tmp_path: Path, model: Path) -> None:
    with pytest.raises(InputError, match="holds no model; expected a folder of save_pretrained"):
        sentence_space(str(tmp_path))
    broken = shutil.copytree(model, tmp_path / "broken")
    (broken / "config.json").write_text("{}")
    with pytest.raises(InputError, match="could not be loaded"):
        sentence_space(str(broken)).encode(CAPTIONS)


@pytest.mark.parametrize("rows", [0, 4])
def test_a_sentence_model_whose_weights_do_not_fit_is_refused(tmp_path: Path, model: Path, rows: int) -> None:
    """transformers fills what is missing, or of another size, with random numbers."""
    broken = shutil.copytree(model, tmp_path / "broken")
    weights = load_file(broken / "model.safetensors")
    name = next(name for name in weights if name.endswith("query.weight"))
    weights[name] = weights[name][:rows].copy()
    save_file({key: value for key, value in weights.items() if len(value)}, broken / "model.safetensors")
    with pytest.raises(InputError, match=rf"{broken}: its weights do not fit its config.json: 1 .*{name}"):
        sentence_space(str(broken)).encode(CAPTIONS)


def test_the_fingerprint_of_a_folder_changes_with_its_contents_and_not_with_its_place(
    tmp_path: Path, model: Path
) -> None:
    moved = shutil.copytree(model, tmp_path / "moved")
    assert folder_fingerprint(moved) == folder_fingerprint(model)
    with (moved / "config.json").open("a") as file:
        file.write("\n")
    assert folder_fingerprint(moved) != folder_fingerprint(model)
