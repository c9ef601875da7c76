"""The concepts of a run: chosen from its train captions, counted, embedded as word vectors, connected by co-occurrence
(CODER supplement A.2; rescaled as in CVSE 2020), and stored in two files."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, cast, get_args

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load, save

from coder_core.config.schema import Config
from coder_core.console.faults import Fault, InputError
from coder_core.console.output import Progress, silent
from coder_core.data.words import Vocabulary, learn_word_vectors, read_word_vectors, tokenise
from coder_core.model.concepts.choosing import (
    KINDS,
    Concept,
    ConceptVocabulary,
    Kind,
    Source,
    choose_concepts,
    listed_concepts,
    tag_captions,
)

GraphNorm = Literal["columns", "rows-columns", "cvse"]
# CVSE: P → 5^(P − 0.02) − 5^(−0.02)
RESCALE_BASE = 5.0
RESCALE_SHIFT = 0.02
FORMAT = "coder-concepts-1"
NAMES = "concepts.json"
ARRAYS = "concepts.safetensors"
RANDOM_STREAM = 4  # random stream for concepts without a word vector
LISTS: dict[str, Kind] = {"objects": "object", "properties": "property", "motions": "motion"}
LIST_FORM = '{"objects": ["dog", …], "properties": […], "motions": […]}'


def make_concepts(
    config: Config, captions: Sequence[str], *, progress: Progress = silent
) -> tuple[Concepts, list[Fault]]:
    """Choose, count and embed the concepts of a run from its TRAIN captions, identically on every process. `progress`
    covers tagging. InputError: no tagger is installed, the list is unusable, or the captions have too few concepts."""
    words = [tokenise(caption) for caption in captions]
    if config.model.concept_list:
        lists = read_concept_list(Path(config.model.concept_list))
        tokens = {word: tokenise(word) for entries in lists.values() for word in entries}
        vocabulary, faults = listed_concepts(lists, tokens, words)
    else:
        tagger = config.model.concept_tagger
        tagged = tag_captions(words, tagger, progress=progress)
        vocabulary, faults = choose_concepts(tagged, config.model.concepts, source=tagger)
    together, occurrences = count_together(vocabulary.read(words), len(vocabulary))
    vectors, missing = concept_vectors(config, vocabulary, captions)
    return Concepts(vocabulary, together, occurrences, vectors), [*faults, *missing]


def concept_vectors(
    config: Config, vocabulary: ConceptVocabulary, captions: Sequence[str]
) -> tuple[np.ndarray, list[Fault]]:
    """Return (g, word size) float32 vectors, from the run's GloVe file or learned from the captions, and a
    warning about concepts without one.

    A concept gets the vector of its word, or else the mean over its forms weighted by their counts, or else random
    numbers with the standard deviation of the other concepts' vectors.
    """
    source = config.data.word_vectors
    size = config.model.word_size
    seed = config.training.seed
    forms = [[part for form in concept.forms for part in form.split(" ")] for concept in vocabulary.concepts]
    counts: dict[str, int] = {}
    if source in ("random", "learned"):  # concept vectors are not trained, so random ones do not suit them
        words = Vocabulary.build(captions, threshold=1)
        matrix = learn_word_vectors(captions, words, dimension=size, seed=seed)
        vector_of = {word: matrix[row] for word, row in words.number.items()}
        counts = dict(zip(words.words, words.counts, strict=True))
        where = "concept vectors, learned from the captions"
    else:
        needed = sorted({word for parts in forms for word in parts} | set(vocabulary.words))
        glove = read_word_vectors(source, needed, dimension=size)
        vector_of = {word: glove.matrix[row] for row, word in enumerate(needed) if glove.covered[row]}
        where = f"concept vectors from {source}"

    vectors = np.zeros((len(vocabulary), size), np.float32)
    missing = []
    for index, (word, parts) in enumerate(zip(vocabulary.words, forms, strict=True)):
        names = [word] if word in vector_of else [part for part in parts if part in vector_of]
        if names:
            weights = [max(counts.get(name, 1), 1) for name in names]
            vectors[index] = np.average([vector_of[name] for name in names], axis=0, weights=weights)
        else:
            missing.append(index)

    if not missing:
        return vectors, []

    random = np.random.default_rng((seed, RANDOM_STREAM))
    present = np.delete(vectors, missing, axis=0)
    spread = float(present.std()) if present.size else 1.0
    vectors[missing] = random.normal(0, spread or 1.0, (len(missing), size))
    first = ", ".join(vocabulary.words[index] for index in missing[:10])
    coverage = f"{len(vocabulary) - len(missing)} of {len(vocabulary)} concepts have a vector"
    return vectors, [Fault(where, f"{coverage}; the others start at random: {first}", severity="warning")]


def read_concept_list(path: Path) -> dict[Kind, list[str]]:
    """Read a hand-written list of concepts, JSON with one list per kind; kinds may be missing. InputError: the file does
    not exist, has another form, repeats a word, or has an empty word or fewer than two words."""
    where = f"--concept-list {path}"
    try:
        content: Any = json.loads(path.read_text("utf-8-sig"))
    except (OSError, ValueError, RecursionError) as error:
        raise InputError.at(where, f"cannot be read: {error}", LIST_FORM) from None
    if not isinstance(content, dict) or not content or set(content) - set(LISTS):
        keys = ", ".join(map(str, content)) if isinstance(content, dict) else type(content).__name__
        raise InputError.at(where, f"contains {keys or 'nothing'}", LIST_FORM)

    concepts: dict[Kind, list[str]] = {}
    key_of: dict[str, str] = {}
    faults = []
    for key, kind in LISTS.items():
        words = content.get(key, [])
        if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
            raise InputError.at(f"{where} key {key}", "is not a list of words", LIST_FORM)
        concepts[kind] = words
        for position, word in enumerate(words):
            tokens = " ".join(tokenise(word))
            entry = f"{where} key {key} entry {position}"
            if not tokens:
                faults.append(Fault(entry, f"is {word!r}, which contains no word", "a word"))
            elif tokens in key_of:
                faults.append(Fault(entry, f"repeats {word!r}", fix=f"the first is in {key_of[tokens]}"))
            else:
                key_of[tokens] = key

    if not faults and len(key_of) < 2:
        faults.append(Fault(where, f"has {len(key_of)} words", "two or more"))
    if faults:
        raise InputError(faults)

    return concepts


def count_together(captions: Sequence[Sequence[int]], concepts: int) -> tuple[np.ndarray, np.ndarray]:
    """Count captions, int64: B_ij (g, g) name both concept i and concept j, N_i (g,) name concept i.

    `captions` are lists of concept numbers. Repeats in a caption count once, so that B_ij / N_i is a probability.
    B_ii = 0: the graph's loops come from the + I of Â.
    """
    from scipy import sparse

    named = [sorted(set(caption)) for caption in captions]
    starts = np.cumsum([0, *map(len, named)])
    columns = np.fromiter((concept for caption in named for concept in caption), np.int64, starts[-1])
    ones = np.ones(len(columns), np.int64)
    occurs = sparse.csr_matrix((ones, columns, starts), shape=(len(named), concepts))
    together = np.asarray((occurs.T @ occurs).todense(), dtype=np.int64)
    occurrences = together.diagonal().copy()
    np.fill_diagonal(together, 0)
    return together, occurrences


def conditional(together: np.ndarray, occurrences: np.ndarray) -> np.ndarray:
    """Return P_ij = B_ij / N_i, (g, g) float64: the probability of concept j in a caption that names concept i. (The
    paper's prose swaps i and j.) The row of a concept in no caption is zero."""
    return np.asarray(together / np.maximum(occurrences, 1)[:, None], dtype=np.float64)


def rescale(probability: np.ndarray) -> np.ndarray:
    """Return 5^(P − 0.02) − 5^(−0.02): 0 stays 0, and a threshold of 0.3 corresponds to P = 0.168."""
    return np.asarray(RESCALE_BASE ** (probability - RESCALE_SHIFT) - RESCALE_BASE**-RESCALE_SHIFT)


def connect(probability: np.ndarray, *, threshold: float) -> np.ndarray:
    """Return H, (g, g) float64: H_ij = 1 where P_ij ≥ threshold, otherwise 0."""
    return (probability >= threshold).astype(np.float64)


def normalise_graph(edges: np.ndarray, norm: GraphNorm = "columns") -> np.ndarray:
    """Normalise (g, g) H to Â by one of three readings of D^(−1/2) H D^(−1/2) + I: "columns", D_jj = Σ_i H_ij on both
    sides; "rows-columns", row sums on the left and column sums on the right; "cvse", D^(−1/2) (H + I) D^(−1/2) with the
    row sums of H + I.

    H is not symmetric: many rare concepts have an edge to a frequent one but none back, so many columns have degree
    zero. D^(−1/2) is zero there, so "columns" drops every edge from such a concept; the other two keep all edges.
    """
    loops = np.eye(len(edges))
    if norm == "cvse":
        root = _inverse_root((edges + loops).sum(1))
        return np.asarray(root[:, None] * (edges + loops) * root[None, :], dtype=np.float32)
    right = _inverse_root(edges.sum(0))
    left = right if norm == "columns" else _inverse_root(edges.sum(1))
    return np.asarray(left[:, None] * edges * right[None, :] + loops, dtype=np.float32)


def _inverse_root(degree: np.ndarray) -> np.ndarray:
    """Return D^(−1/2) as a vector, 0 for degree 0."""
    return np.where(degree > 0, 1.0 / np.sqrt(np.where(degree > 0, degree, 1.0)), 0.0)


@dataclass(frozen=True)
class Concepts:
    """The concepts of a run."""

    vocabulary: ConceptVocabulary
    together: np.ndarray  # (g, g) int64, number of train captions that name both
    occurrences: np.ndarray  # (g,) int64, number of train captions that name each
    vectors: np.ndarray  # (g, C) float32 word vectors

    def __len__(self) -> int:
        return len(self.vocabulary)

    def graph(
        self, *, threshold: float = 0.3, rescaled: bool = True, norm: GraphNorm = "columns"
    ) -> np.ndarray:
        """Return Â, (g, g) float32, from the counts (`normalise_graph`). `threshold`: ε of the graph. It applies to the
        probabilities, `rescaled` as in CVSE or, in CODER's literal reading, raw."""
        probability = conditional(self.together, self.occurrences)
        edges = connect(rescale(probability) if rescaled else probability, threshold=threshold)
        return normalise_graph(edges, norm)

    def to_files(self) -> dict[str, bytes | str]:
        """Return concepts.json and concepts.safetensors: name → content."""
        entries = [asdict(concept) for concept in self.vocabulary.concepts]
        document = {"format": FORMAT, "source": self.vocabulary.source, "concepts": entries}
        arrays = {"together": self.together, "occurrences": self.occurrences, "vectors": self.vectors}
        return {NAMES: json.dumps(document, ensure_ascii=False, indent=0), ARRAYS: save(arrays)}

    @classmethod
    def from_files(cls, names: bytes, arrays: bytes, folder: str) -> Concepts:
        """Read concepts.json and concepts.safetensors; `folder` is for messages. InputError: a file is damaged or of
        another format, or the two do not match."""
        file = f"{folder}/{NAMES}"
        try:
            vocabulary = _read_names(names)
            file = f"{folder}/{ARRAYS}"
            tensors = load(arrays)
        except (ValueError, RecursionError, SafetensorError) as error:
            raise InputError.at(file, f"cannot be read: {error}", f'the format "{FORMAT}"') from None

        count = len(vocabulary)
        size = (0, *getattr(tensors.get("vectors"), "shape", ()))[-1]
        expected = {"together": f"int64{[count] * 2}", "occurrences": f"int64[{count}]"}
        expected["vectors"] = f"float32{[count, size]}"
        actual = {name: f"{array.dtype}{list(array.shape)}" for name, array in sorted(tensors.items())}
        if actual != expected:
            held, needed = (" ".join(map(" ".join, forms.items())) for forms in (actual, expected))
            raise InputError.at(file, f"contains {held}", needed)

        return cls(vocabulary, **tensors)


def _read_names(content: bytes) -> ConceptVocabulary:
    match json.loads(content):
        case {"format": form, "source": str(source), "concepts": [_, _, *_] as entries} if (
            form == FORMAT and source in get_args(Source)
        ):
            return ConceptVocabulary(tuple(map(_read_concept, entries)), cast(Source, source))
    raise ValueError("not a run's list of two or more concepts")


def _read_concept(entry: Any) -> Concept:
    match entry:
        case {"word": str(word), "kind": str(kind), "count": int(count), "forms": [*forms]} if (
            kind in KINDS and all(isinstance(form, str) for form in forms)
        ):
            return Concept(word, cast(Kind, kind), count, tuple(forms))
    raise ValueError(f"{entry!r:.80} is not a concept with word, kind, count and forms")
