"""Counts → probabilities → graph, by hand and against loops; concepts stored with a run, read back, refused damaged."""

import json

import numpy as np
import pytest
from safetensors.numpy import load, save

from coder_core.model.concepts import knowledge
from coder_core.model.concepts.choosing import Concept, ConceptVocabulary
from tests.reference import concepts as reference
from tests.support.precomp_folders import assert_refused

DOG = 0
BALL = 1
RED = 2
ONE_WAY = np.array([[0, 1, 0], [1, 0, 0], [1, 0, 0]], dtype=float)
"""Concepts 0 and 1 point at each other, 2 points at 0 and nothing at 2: columns have degrees (2, 1, 0)."""
ROOT = 1 / np.sqrt(2)


def concepts(together, occurrences):
    entries = (Concept("dog", "object", 4, ("dog", "dogs")), Concept("red", "property", 2, ("red",)))
    vocabulary = ConceptVocabulary(entries, "textblob")
    return knowledge.Concepts(vocabulary, together, occurrences, np.ones((2, 3), np.float32))


def test_counts_probabilities_and_the_rescaled_threshold_by_hand():
    """ "dog, ball, dog", "dog, red", "ball", "": a caption counts once, and no concept occurs together with itself."""
    together, occurrences = knowledge.count_together([[DOG, BALL, DOG], [DOG, RED], [BALL], []], 3)
    assert together.tolist() == [[0, 1, 1], [1, 0, 0], [1, 0, 0]]
    assert occurrences.tolist() == [2, 2, 1]
    # P_ij = B_ij / N_i is P(C_j | C_i): a guitar always with a man, a man seldom with a guitar, no zebra
    man = 0
    guitar = 1
    zebra = 2
    counts = knowledge.count_together([[man, guitar], [man], [man], [man]], 3)
    probability = knowledge.conditional(*counts)
    assert (probability[guitar, man], probability[man, guitar]) == (1.0, 0.25)
    assert probability[zebra].tolist() == [0, 0, 0]
    assert concepts(*counts).graph()[zebra].tolist() == [0, 0, 1]
    assert knowledge.rescale(np.array(0.0)) == 0.0
    assert knowledge.rescale(np.array(0.167)) < 0.3 < knowledge.rescale(np.array(0.169))
    raw = np.array([[0.0, 0.2], [0.16, 0.0]])
    assert knowledge.connect(knowledge.rescale(raw), threshold=0.3).tolist() == [[0, 1], [0, 0]]
    assert knowledge.connect(raw, threshold=0.3).tolist() == [[0, 0], [0, 0]]  # the literal reading
    assert knowledge.connect(np.array([[0.3, 0.2999]]), threshold=0.3).tolist() == [[1, 0]]


def test_three_graph_normalisations_by_hand():
    for norm, expected in {
        "columns": [[1, ROOT, 0], [ROOT, 1, 0], [0, 0, 1]],  # no edge from a concept that nothing points at
        "rows-columns": [[1, 1, 0], [ROOT, 1, 0], [ROOT, 0, 1]],  # rows have degrees (1, 1, 1)
        "cvse": (ONE_WAY + np.eye(3)) / 2,  # with loops rows have (2, 2, 2)
    }.items():
        np.testing.assert_allclose(knowledge.normalise_graph(ONE_WAY, norm), expected, rtol=1e-6)


@pytest.mark.parametrize("norm", ["columns", "rows-columns", "cvse"])
@pytest.mark.parametrize("rescaled", [True, False])
@pytest.mark.parametrize("seed", range(2))
def test_the_graph_matches_reference_loops(seed, rescaled, norm):
    random = np.random.default_rng(seed)
    captions = [random.integers(0, 9, random.integers(0, 6)).tolist() for _ in range(40)]
    together, occurrences = knowledge.count_together(captions, 9)
    pairs, single = reference.together(captions, 9)
    assert together.tolist() == pairs
    assert occurrences.tolist() == single
    graph = concepts(together, occurrences).graph(threshold=0.25, rescaled=rescaled, norm=norm)
    np.testing.assert_allclose(graph, reference.graph(pairs, single, 0.25, rescaled, norm), rtol=1e-6)
    assert graph.dtype == np.float32
    assert 0 < (graph - np.eye(9) > 0).sum() < 72


STORED = concepts(np.array([[0, 1], [1, 0]], np.int64), np.array([4, 2]))
NAMES, ARRAYS = (STORED.to_files()[name] for name in (knowledge.NAMES, knowledge.ARRAYS))
DAMAGES = [
    (lambda d: d.update(format="coder-concepts-9"), "not a run's list"),
    (lambda d: d.update(source="magic"), "not a run's list"),
    (lambda d: d["concepts"].pop(), "two or more"),
    (lambda d: d["concepts"][0].pop("forms"), "'dog'.* word, kind, count and forms"),
    (lambda d: d["concepts"][0].update(forms=[1]), "'dog'"),
    (lambda d: d["concepts"][0].update(kind="colour"), "'dog'"),
    (lambda d: d["concepts"][0].update(count=1.5), "'dog'"),
    (lambda d: d["concepts"].append(d["concepts"][0]), r"expected together int64\[3, 3\]"),
]


def test_files_are_read_back_and_damaged_ones_refused():
    loaded = knowledge.Concepts.from_files(NAMES.encode(), ARRAYS, "run")
    assert (loaded.vocabulary, len(loaded)) == (STORED.vocabulary, 2)
    assert loaded.vocabulary.read([["dogs", "red"]]) == [[0, 1]]
    for part in ("together", "occurrences", "vectors"):
        np.testing.assert_array_equal(getattr(loaded, part), getattr(STORED, part))

    content = load(ARRAYS)
    wide = content | {"vectors": content["vectors"].astype(np.float64)}
    few = {name: array for name, array in content.items() if name != "occurrences"}
    cases = [
        ("[" * 100_000, ARRAYS, rf"run/{knowledge.NAMES}: cannot be read"),
        (NAMES, ARRAYS[:20], rf"run/{knowledge.ARRAYS}: cannot be read"),
        (NAMES, save(wide), r"vectors float64\[2, 3\]; expected .* vectors float32\[2, 3\]"),
        (NAMES, save(few), r"contains together int64\[2, 2\] vectors"),
    ]
    for change, reason in DAMAGES:
        document = json.loads(NAMES)
        change(document)
        cases.append((json.dumps(document), ARRAYS, reason))
    for names, arrays, reason in cases:
        assert_refused(reason, knowledge.Concepts.from_files, names.encode(), arrays, "run")
