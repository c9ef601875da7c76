"""Write runs of any size for the app, with random embeddings and an untrained model.

Two runs have only the instance branch and, up to a moderate size, offline clusters. Also up to that size, two have a
concept branch with random attention and two have random sample weights. Two people have reviewed pairs.

`write_imports` writes two imports of a collection with one caption per image, own columns, and ranks of a sample.
"""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import tomli_w

from benchmarks.synthetic import CAPTIONS_PER_IMAGE, random_concepts
from coder_core.config.model import ModelConfig
from coder_core.config.schema import Config, to_document
from coder_core.config.training import ObjectiveConfig
from coder_core.data.columns import Column, SampleColumns
from coder_core.data.reviews import FILE, VERDICTS, Review
from coder_core.data.words import Vocabulary
from coder_core.files.sealed import write_sealed
from coder_core.geometry.settings import ClusterSettings
from coder_core.model.coder import ModelParts, build_model
from coder_core.model.encode import SplitEmbeddings
from coder_core.runs.analysis.concept_arrays import concept_tables
from coder_core.runs.analysis.tables import KIND_IMPORTED
from coder_core.runs.analysis.write import write_analysis
from coder_core.runs.derived.compute import make_clusters
from coder_core.runs.record import write_status
from coder_core.runs.saves import SaveStore

WIDTH = 256
FEATURES = 64
LISTED = 10
WORDS = (
    *("a", "dog", "two", "children", "red", "ball", "on"),
    *("the", "beach", "man", "riding", "wave", "grass", "city"),
)
NAMES = {"baseline": ("btr-hardest", 4.0), "coder": ("dcl", 3.0)}  # loss, noise of the captions
CONCEPT_NAMES = {"concepts-a": 4.0, "concepts-b": 3.0}
WEIGHT_NAMES = {"weights-a": 4.0, "weights-b": 3.0}
CONCEPTS = 400  # g, CODER section 4.1
MEASURES = ("diversity", "discrepancy")
CONNECTED = 0.02  # share of concept pairs that occur together in a caption
JUDGED = 1_000  # verdicts of each person
MODERATE = 5_000  # images; with more, there are no clusters, and no runs with attention or weights
RANKED = 10_000  # queries of each direction of an import
IMPORT_WIDTH = 64
VOCABULARY = 20_000  # words of an import's captions, which follow Zipf's law
LEAST_WORDS = 5
MOST_WORDS = 14
Tables = tuple[dict[str, Any], dict[str, Any]]
"""Arrays and documents of an analysis."""


def write_runs(root: Path, images: int) -> Path:
    """Write a baseline and a run to compare with it, of `images` images and five captions each; more if moderate."""
    for seed, (name, (loss, noise)) in enumerate(NAMES.items()):
        folder = _write_run(root, name, loss, noise, images, seed)
        if images <= MODERATE:
            make_clusters(folder, "dev", ClusterSettings())
    if images <= MODERATE:
        for seed, (name, noise) in enumerate(CONCEPT_NAMES.items()):
            _write_run(root, name, "dcl", noise, images, seed, "concepts")
        for seed, (name, noise) in enumerate(WEIGHT_NAMES.items()):
            _write_run(root, name, "npairs-hinge", noise, images, seed, "weights")
    _write_reviews(root, images)
    return root


def _write_reviews(root: Path, images: int) -> None:
    """Write random verdicts of two people on pairs of captions with their images."""
    random = np.random.default_rng(8)
    captions = _captions(images * CAPTIONS_PER_IMAGE)
    lines = []
    for reviewer in ("anna", "ben"):
        rows = random.integers(len(captions), size=JUDGED)
        verdicts = random.integers(4, size=JUDGED)
        for row, verdict in zip(rows.tolist(), verdicts.tolist(), strict=True):
            name = f"{row // CAPTIONS_PER_IMAGE}.jpg"
            judged = VERDICTS[verdict]
            review = Review(name, captions[row], judged, reviewer, ("colour",), "a note")
            lines.append(f"{json.dumps(review.document())}\n")
    (root / FILE).write_text("".join(lines))


def write_imports(root: Path, pairs: int) -> Path:
    """Write two imports of the same images, each with one caption, with random embeddings and ranks."""
    for seed, name in enumerate(NAMES):
        write_import(root / name, pairs, seed)
    return root


def write_import(folder: Path, pairs: int, seed: int = 0) -> None:
    """Write an import with own columns, of which a sample is ranked. Columns and captions are the same for all seeds."""
    folder.mkdir(parents=True)
    random = np.random.default_rng(seed)
    v = random.standard_normal((pairs, IMPORT_WIDTH), dtype=np.float32)
    w = v + 2 * random.standard_normal((pairs, IMPORT_WIDTH), dtype=np.float32)
    for matrix in (v, w):
        matrix /= np.linalg.norm(matrix, axis=1, keepdims=True)

    queries = np.sort(np.random.default_rng(1).choice(pairs, min(RANKED, pairs), replace=False))
    arrays: dict[str, Any] = {}
    for side in ("image", "text"):
        ranks = np.full(pairs, -1)
        ranks[queries] = np.minimum(random.geometric(0.2, len(queries)) - 1, pairs - 1)
        best = np.full((pairs, LISTED), -1, np.int32)
        best[queries] = _best(random, ranks[queries], queries, pairs)
        arrays |= {f"{side}_ranks": ranks, f"{side}_best": best, f"{side}_queries": queries}

    write_analysis(
        folder,
        "dev",
        image_embeddings=v,
        text_embeddings=w,
        image_of_text=np.arange(pairs),
        captions=_varied_captions(pairs),
        image_names=[f"{number // 1000:04d}/{number:09d}.jpg" for number in range(pairs)],
        metrics={"rsum": 200.0, "i2t_r1": 20.0, "t2i_r1": 20.0},
        fingerprint=f"{seed}" * 64,
        kind=KIND_IMPORTED,
        columns=SampleColumns(random_columns(pairs)),
        **arrays,
    )


def random_columns(rows: int) -> dict[str, Column]:
    """Return a column of each kind."""
    random = np.random.default_rng(0)
    brands = [f"brand {number}" for number in range(500)]
    tags = [f"tag {number}" for number in range(50)]
    names = [f"the thing {number} of a shop" for number in range(rows)]
    days = random.integers(0, 2000, rows).astype("m8[D]")
    return {
        "price": Column("number", random.lognormal(3, 1, rows)),
        "brand": Column("category", random.integers(-1, 500, rows).astype(np.int32), brands),
        "tags": Column(
            "tags", random.integers(0, 50, 2 * rows).astype(np.int32), tags, 2 * np.arange(rows + 1)
        ),
        "listed": Column("date", np.datetime64("2020-01-01", "us") + days),
        "name": Column("text", np.arange(rows, dtype=np.int32), names),
    }


def _varied_captions(count: int) -> list[str]:
    """Return captions whose words follow Zipf's law."""
    random = np.random.default_rng(7)
    vocabulary = np.array([*WORDS, *(f"word{number}" for number in range(len(WORDS), VOCABULARY))], object)
    frequencies = 1 / np.arange(1, VOCABULARY + 1)
    words = vocabulary[random.choice(VOCABULARY, (count, MOST_WORDS), p=frequencies / frequencies.sum())]
    lengths = random.integers(LEAST_WORDS, MOST_WORDS + 1, count)
    return [" ".join(row[:length]) for row, length in zip(words.tolist(), lengths.tolist(), strict=True)]


def _captions(count: int) -> list[str]:
    """Return random captions, the same for all runs of a size."""
    words = np.random.default_rng(7).integers(len(WORDS), size=(count, 9))
    return [" ".join(WORDS[i] for i in row) for row in words.tolist()]


def _concepts(random: np.random.Generator, v: np.ndarray, w: np.ndarray) -> Tables:
    """Return the tables of a concept branch with random attention."""
    concepts = random_concepts(random, CONCEPTS, 8, CONNECTED)
    attention = [random.dirichlet(np.full(CONCEPTS, 0.02), len(rows)).astype(np.float16) for rows in (v, w)]
    graph = concepts.graph(threshold=0.3, rescaled=True)
    return concept_tables(SplitEmbeddings(v, w, v, w, *attention), concepts, graph)


def _weights(random: np.random.Generator, pairs: int) -> Tables:
    """Return random weights of complementary samples, with made-up settings."""
    arrays = {f"weight_{name}": random.normal(0.7, 0.1, (pairs, 2)).astype(np.float32) for name in MEASURES}
    weights = random.lognormal(size=pairs).astype(np.float32)
    weighting: dict[str, Any] = {"sample_weights": "combined", "lambda": 392.0, "neighbours": 20}
    weighting |= {"text_space": "random", "direction": -1}
    weighting |= {"mean": dict.fromkeys(MEASURES, 0.7), "std": dict.fromkeys(MEASURES, 0.1)}
    return arrays | {"sample_weight": weights / weights.mean()}, {"weighting": weighting}


def _write_run(
    root: Path, name: str, loss: str, noise: float, images: int, seed: int, kind: str = ""
) -> Path:
    vocabulary = Vocabulary.build([" ".join(WORDS)] * 4, threshold=1)
    model = ModelConfig(dimension=WIDTH, concepts=CONCEPTS if kind == "concepts" else 0)
    config = Config(name=name, model=model, objective=ObjectiveConfig(loss=loss))
    document = to_document(config) | {"about": {"feature_size": FEATURES, "created": "2026-01-01T00:00:00"}}
    files = {"config.toml": tomli_w.dumps(document), "words.json": vocabulary.to_text()}
    folder = write_sealed(root / name, files)
    plain = replace(model, concepts=0)
    untrained = build_model(plain, ModelParts(FEATURES, len(vocabulary)), pretrained=False)
    SaveStore(folder / "best", keep=1).write("1", {"model": untrained.state_dict()}, {"metrics": {}})
    write_status(folder, "finished", step=1, steps=1)

    random = np.random.default_rng(seed)
    image_of_text = np.repeat(np.arange(images), CAPTIONS_PER_IMAGE)
    v = random.standard_normal((images, WIDTH), dtype=np.float32)
    w = random.standard_normal((len(image_of_text), WIDTH), dtype=np.float32) * np.float32(noise)
    w += v[image_of_text]
    for matrix in (v, w):
        matrix /= np.linalg.norm(matrix, axis=1, keepdims=True)
    ranks = [np.minimum(random.geometric(0.2, n) - 1, images - 1) for n in (images, len(image_of_text))]
    tables: Tables = ({}, {})
    if kind:
        tables = _concepts(random, v, w) if kind == "concepts" else _weights(random, len(w))
    write_analysis(
        folder,
        "dev",
        image_embeddings=v,
        text_embeddings=w,
        image_of_text=image_of_text,
        captions=_captions(len(image_of_text)),
        image_names=[f"{i}.jpg" for i in range(images)],
        metrics={"rsum": 200.0, "i2t_r1": 20.0, "t2i_r1": 20.0},
        fingerprint="0" * 64,
        image_ranks=ranks[0],
        text_ranks=ranks[1],
        image_best=_best(random, ranks[0], np.arange(images) * CAPTIONS_PER_IMAGE, len(image_of_text)),
        text_best=_best(random, ranks[1], image_of_text, images),
        source="random",
        **tables[0],
        documents=tables[1],
        beta=model.beta if kind == "concepts" else None,
    )
    return folder


def _best(random: np.random.Generator, ranks: np.ndarray, match: np.ndarray, candidates: int) -> np.ndarray:
    """Return (Q, 10) random candidates with the match at its rank; real ones of the largest size would take hours."""
    best = random.integers(candidates, size=(len(ranks), LISTED))
    within = np.flatnonzero(ranks < LISTED)
    best[within, ranks[within]] = match[within]
    return best
