"""The concept branch in an analysis folder: written, read, cut to the strongest, refused when it does not fit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from coder_core.console.faults import InputError
from coder_core.evaluation.sources import mixed_embeddings
from coder_core.runs.analysis import concepts as writing
from coder_core.runs.analysis.concepts import read_concept_tables
from coder_core.runs.analysis.read import open_analysis
from tests.runs.conftest import fill_analysis
from tests.support.concept_runs import some_concepts, two_branches, write_concept_run


def written() -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    found, _ = two_branches(6)
    graph = some_concepts().graph(threshold=0.3, rescaled=True)
    arrays, documents = writing.concept_tables(found, some_concepts(), graph)
    plain = {"image_embeddings": found.images, "text_embeddings": found.texts}
    return plain | arrays, json.loads(json.dumps(documents["concepts"]))


def test_folders_without_the_branch_stay_version_1_and_those_with_it_are_version_2(tmp_path: Path) -> None:
    """A reader of version 1 would take the ranks of the mixture for those of the instance branch."""
    plain = fill_analysis(tmp_path / "plain")
    assert json.loads((plain / "manifest.json").read_text())["version"] == 1
    assert open_analysis(tmp_path / "plain", "test").concepts is None
    both = open_analysis(write_concept_run(tmp_path, "both"), "dev", verify=True)
    assert (both.manifest["version"], both.manifest["beta"]) == (2, 0.6)
    assert both.concepts is not None
    assert both.concepts.words == ["dog", "grass", "ball", "red", "run"]


def test_large_attention_keeps_the_strongest_of_every_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writing, "ATTENTION_BYTES", 100)
    monkeypatch.setattr(writing, "STRONGEST", 2)
    arrays, document = written()
    assert arrays["concept_text_strongest"].shape == (30, 2)
    assert "concept_text_attention" not in arrays
    tables = read_concept_tables(arrays, document, 0.9, "here")
    found, _ = two_branches(6)
    assert found.text_attention is not None
    whole = found.text_attention.astype(np.float32)
    kept = tables.attention("text", slice(None))
    assert ((kept > 0).sum(1) <= 2).all()
    np.testing.assert_array_equal(kept.max(1), whole.max(1))
    np.testing.assert_array_equal(kept[kept > 0], whole[kept > 0])


@pytest.mark.parametrize("beta", [0.0, 0.3, 1.0])
def test_both_branches_in_one_vector_score_as_the_mixture(beta: float) -> None:
    found, _ = two_branches(6)
    assert found.second is not None
    v, w = (
        mixed_embeddings(found.images, found.second[0], beta),
        mixed_embeddings(found.texts, found.second[1], beta),
    )
    expected = beta * found.images @ found.texts.T + (1 - beta) * found.second[0] @ found.second[1].T
    np.testing.assert_allclose(v @ w.T, expected, atol=1e-6)
    np.testing.assert_allclose(np.linalg.norm(v, axis=1), 1, atol=1e-6)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda a, d: a.pop("concept_graph"), "concept_graph.npy: is missing"),
        (
            lambda a, d: a.update(concept_together=a["concept_together"][:3]),
            r"concept_together.npy: has shape \(3, 5\)",
        ),
        (
            lambda a, d: a.update(concept_text_embeddings=a["concept_text_embeddings"][:4]),
            "concept_text_embeddings",
        ),
        (
            lambda a, d: a.update(concept_image_attention=a["concept_image_attention"][:, :2]),
            r"expected \(6, 5\)",
        ),
        (lambda a, d: a.pop("concept_text_attention"), "concept_text_strongest.npy: is missing"),
        (lambda a, d: d["words"].pop(), "key words: does not name 5 concepts"),
        (lambda a, d: d.update(counts=["1"] * 5), "key counts: does not name 5 concepts"),
    ],
)
def test_tables_that_do_not_fit_are_refused_by_name(change: Any, said: str) -> None:
    arrays, document = written()
    change(arrays, document)
    with pytest.raises(InputError, match=said):
        read_concept_tables(arrays, document, 0.9, "here")


@pytest.mark.parametrize("beta", [None, "0.9", True, 1.2, float("nan")])
def test_a_beta_that_is_no_share_is_refused(beta: Any) -> None:
    arrays, document = written()
    with pytest.raises(InputError, match="key beta: is"):
        read_concept_tables(arrays, document, beta, "here")


def test_strongest_that_name_no_concept_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writing, "ATTENTION_BYTES", 0)
    arrays, document = written()
    arrays["concept_image_strongest"] = arrays["concept_image_strongest"] + 3
    with pytest.raises(InputError, match="names concepts that are not there; expected 0 to 4"):
        read_concept_tables(arrays, document, 0.9, "here")
