"""Write runs of any size for the app: random embeddings, an untrained model.

Two have the instance branch alone and, where k-means takes seconds, offline clusters; two of a moderate size have a
concept branch with random attention, and two random sample weights. Two people have judged pairs.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import tomli_w

from coder_core.config.schema import Config, ModelConfig, ObjectiveConfig, to_document
from coder_core.data.reviews import FILE, VERDICTS, Review
from coder_core.data.words import Vocabulary
from coder_core.files.sealed import write_sealed
from coder_core.geometry.settings import ClusterSettings
from coder_core.model.build import build_model
from coder_core.model.concepts.knowledge import Concepts
from coder_core.model.concepts.vocabulary import Concept, ConceptVocabulary
from coder_core.model.encode import SplitEmbeddings
from coder_core.runs.analysis.concepts import concept_tables
from coder_core.runs.analysis.write import write_analysis
from coder_core.runs.derived.compute import make_clusters
from coder_core.runs.saves import SaveStore
from coder_core.runs.status import write_status

WIDTH = 256
FEATURES = 64
CAPTIONS_AN_IMAGE = 5
LISTED = 10
WORDS = (
    "a",
    "dog",
    "two",
    "children",
    "red",
    "ball",
    "on",
    "the",
    "beach",
    "man",
    "riding",
    "wave",
    "grass",
    "city",
)
NAMES = {"baseline": ("btr-hardest", 4.0), "coder": ("dcl", 3.0)}  # loss, noise of the captions
CONCEPT_NAMES = {"concepts-a": 4.0, "concepts-b": 3.0}
WEIGHT_NAMES = {"weights-a": 4.0, "weights-b": 3.0}
CONCEPTS = 400  # g, CODER section 4.1
MEASURES = ("diversity", "discrepancy")
TOGETHER = 0.02  # share of the pairs of concepts that are in one caption
JUDGED = 1_000  # verdicts of either person
MODERATE = 5_000  # images; of larger runs neither clusters nor attention are made


def write_runs(root: Path, images: int) -> Path:
    """A baseline and a run to compare it with, both of `images` images and five times as many captions."""
    for seed, (name, (loss, noise)) in enumerate(NAMES.items()):
        folder = _write_run(root, name, loss, noise, images, seed)
        if images <= MODERATE:
            make_clusters(folder, "dev", ClusterSettings())
    if images <= MODERATE:
        for seed, (name, noise) in enumerate(CONCEPT_NAMES.items()):
            _write_run(root, name, "dcl", noise, images, seed, concepts=True)
        for seed, (name, noise) in enumerate(WEIGHT_NAMES.items()):
            _write_run(root, name, "npairs-hinge", noise, images, seed, weights=True)
    _write_reviews(root, images)
    return root


def _write_reviews(root: Path, images: int) -> None:
    """Random verdicts of two people on pairs of captions with their images."""
    random, captions = np.random.default_rng(8), _captions(images * CAPTIONS_AN_IMAGE)
    lines = [
        Review(
            f"{row // CAPTIONS_AN_IMAGE}.jpg",
            captions[row],
            VERDICTS[verdict],
            reviewer,
            ("colour",),
            "a note",
        )
        for reviewer in ("anna", "ben")
        for row, verdict in zip(
            random.integers(len(captions), size=JUDGED).tolist(),
            random.integers(4, size=JUDGED).tolist(),
            strict=True,
        )
    ]
    (root / FILE).write_text("".join(f"{json.dumps(review.document())}\n" for review in lines))


def _captions(count: int) -> list[str]:
    """The same for all runs of a size."""
    words = np.random.default_rng(7).integers(len(WORDS), size=(count, 9))
    return [" ".join(WORDS[i] for i in row) for row in words.tolist()]


def _concepts(
    random: np.random.Generator, v: np.ndarray, w: np.ndarray
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Tables of a concept branch whose attention is random."""
    names = [Concept(f"concept{i}", "object", 100, (f"concept{i}",)) for i in range(CONCEPTS)]
    together = np.triu(
        (random.random((CONCEPTS, CONCEPTS)) < TOGETHER) * random.integers(1, 60, (CONCEPTS, CONCEPTS)), 1
    )
    made = Concepts(
        ConceptVocabulary(tuple(names), "textblob"),
        together + together.T,
        np.full(CONCEPTS, 100),
        random.standard_normal((CONCEPTS, 8), dtype=np.float32),
    )
    attention = [random.dirichlet(np.full(CONCEPTS, 0.02), len(rows)).astype(np.float16) for rows in (v, w)]
    return concept_tables(
        SplitEmbeddings(v, w, v, w, *attention), made, made.graph(threshold=0.3, rescaled=True)
    )


def _weights(random: np.random.Generator, pairs: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """Random weights of complementary samples, and a made-up source."""
    raw = {name: random.normal(-0.7, 0.1, (pairs, 2)).astype(np.float32) for name in MEASURES}
    weights = random.lognormal(size=pairs).astype(np.float32)
    of_all = {"mean": dict.fromkeys(MEASURES, 0.7), "std": dict.fromkeys(MEASURES, 0.1)}
    about = {
        "sample_weights": "combined",
        "lambda": 392.0,
        "neighbours": 20,
        "text_space": "random",
        "direction": -1,
    }
    arrays = {f"weight_{name}": -values for name, values in raw.items()} | {
        "sample_weight": weights / weights.mean()
    }
    return arrays, {"weighting": about | of_all}


def _write_run(
    root: Path,
    name: str,
    loss: str,
    noise: float,
    images: int,
    seed: int,
    *,
    concepts: bool = False,
    weights: bool = False,
) -> Path:
    vocabulary = Vocabulary.build([" ".join(WORDS)] * 4, threshold=1)
    model = ModelConfig(dimension=WIDTH, concepts=CONCEPTS if concepts else 0)
    config = Config(name=name, model=model, objective=ObjectiveConfig(loss=loss))  # type: ignore[arg-type]
    document = to_document(config) | {"about": {"feature_size": FEATURES, "created": "2026-01-01T00:00:00"}}
    folder = write_sealed(
        root / name, {"config.toml": tomli_w.dumps(document), "words.json": vocabulary.to_text()}
    )
    untrained = build_model(
        replace(model, concepts=0), feature_size=FEATURES, words=len(vocabulary), pretrained=False
    )
    SaveStore(folder / "best", keep=1).write("1", {"model": untrained.state_dict()}, {"metrics": {}})
    write_status(folder, "finished", step=1, steps=1)
    random = np.random.default_rng(seed)
    owner = np.repeat(np.arange(images), CAPTIONS_AN_IMAGE)
    v = random.standard_normal((images, WIDTH), dtype=np.float32)
    w = random.standard_normal((len(owner), WIDTH), dtype=np.float32)
    w *= noise
    w += v[owner]
    for matrix in (v, w):
        matrix /= np.linalg.norm(matrix, axis=1, keepdims=True)
    image_ranks, text_ranks = (
        np.minimum(random.geometric(0.2, n) - 1, images - 1) for n in (images, len(owner))
    )
    arrays, documents = (
        _concepts(random, v, w) if concepts else _weights(random, len(w)) if weights else ({}, {})
    )
    write_analysis(
        folder,
        "dev",
        image_embeddings=v,
        text_embeddings=w,
        image_of_text=owner,
        captions=_captions(len(owner)),
        image_names=[f"{i}.jpg" for i in range(images)],
        metrics={"rsum": 200.0, "i2t_r1": 20.0, "t2i_r1": 20.0},
        fingerprint="0" * 64,
        image_ranks=image_ranks,
        text_ranks=text_ranks,
        image_best=_best(random, image_ranks, np.arange(images) * CAPTIONS_AN_IMAGE, len(owner)),
        text_best=_best(random, text_ranks, owner, images),
        source="random",
        **arrays,
        documents=documents,
        beta=model.beta if concepts else None,
    )
    return folder


def _best(random: np.random.Generator, ranks: np.ndarray, match: np.ndarray, candidates: int) -> np.ndarray:
    """(Q, 10) candidates at random, the match at its rank. A full ranking of the largest size would take hours."""
    best = random.integers(candidates, size=(len(ranks), LISTED))
    listed = np.flatnonzero(ranks < LISTED)
    best[listed, ranks[listed]] = match[listed]
    return best
