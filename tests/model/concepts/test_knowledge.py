"""Concepts stored with a run: written, read back, and refused when damaged."""

from __future__ import annotations

import json

import numpy as np
import pytest
from safetensors.numpy import load, save

from coder_core.console.faults import InputError
from coder_core.model.concepts.knowledge import ARRAYS, NAMES, Concepts
from coder_core.model.concepts.vocabulary import Concept, ConceptVocabulary


def concepts() -> Concepts:
    entries = (Concept("dog", "object", 4, ("dog", "dogs")), Concept("red", "property", 2, ("red",)))
    together = np.array([[0, 1], [1, 0]], np.int64)
    return Concepts(
        ConceptVocabulary(entries, "textblob"), together, np.array([4, 2]), np.ones((2, 3), np.float32)
    )


def files() -> tuple[str, bytes]:
    written = concepts().to_files()
    names, arrays = written[NAMES], written[ARRAYS]
    assert isinstance(names, str)
    assert isinstance(arrays, bytes)
    return names, arrays


def test_read_back() -> None:
    names, arrays = files()
    loaded, expected = Concepts.from_files(names.encode(), arrays, "run"), concepts()
    assert loaded.vocabulary == expected.vocabulary
    assert loaded.vocabulary.read(["dogs", "red"]) == [0, 1]
    for part in ("together", "occurrences", "vectors"):
        np.testing.assert_array_equal(getattr(loaded, part), getattr(expected, part))
    assert len(loaded) == 2
    assert loaded.graph(threshold=0.3, rescaled=False).tolist() == [[1, 0], [0, 1]]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda d: d.update(format="coder-concepts-9"), "not a run's list"),
        (lambda d: d.update(source="magic"), "not a run's list"),
        (lambda d: d["concepts"].pop(), "list of two or more concepts"),
        (lambda d: d["concepts"][0].pop("forms"), "'dog'.* is no concept with word, kind, count and forms"),
        (lambda d: d["concepts"][0].update(forms=[1]), "'dog'.* is no concept"),
        (lambda d: d["concepts"][0].update(kind="colour"), "'dog'.* is no concept"),
        (lambda d: d["concepts"][0].update(count=1.5), "'dog'.* is no concept"),
        (lambda d: d["concepts"].append(d["concepts"][0]), r"expected together int64\[3, 3\]"),
    ],
)
def test_damaged_names_are_refused(change: object, said: str) -> None:
    names, arrays = files()
    document = json.loads(names)
    change(document)  # type: ignore[operator]
    with pytest.raises(InputError, match=said):
        Concepts.from_files(json.dumps(document).encode(), arrays, "run")


def test_damaged_arrays_are_refused() -> None:
    names, arrays = files()
    with pytest.raises(InputError, match=r"run/concepts\.json: cannot be read"):
        Concepts.from_files(b"[" * 100_000, arrays, "run")
    with pytest.raises(InputError, match=r"run/concepts\.safetensors: cannot be read"):
        Concepts.from_files(names.encode(), arrays[:20], "run")
    content = load(arrays)
    with pytest.raises(InputError, match=r"vectors float64\[2, 3\]; expected .* vectors float32\[2, 3\]"):
        Concepts.from_files(
            names.encode(), save(content | {"vectors": content["vectors"].astype(np.float64)}), "run"
        )
    content.pop("occurrences")
    with pytest.raises(InputError, match=r"holds together int64\[2, 2\] vectors"):
        Concepts.from_files(names.encode(), save(content), "run")
