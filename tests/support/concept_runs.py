"""Run folders with a concept branch, written by the project's own writers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import tomli_w

from coder_core.config.data import DataConfig
from coder_core.config.schema import Config, to_document
from coder_core.evaluation import mixture, rank, score_tiles
from coder_core.evaluation.recall import metrics_from_ranks
from coder_core.files.sealed import write_sealed
from coder_core.model.concepts.knowledge import Concepts, count_together
from coder_core.model.concepts.vocabulary import Concept, ConceptVocabulary
from coder_core.model.encode import SplitEmbeddings
from coder_core.runs.analysis.concepts import concept_tables
from coder_core.runs.analysis.write import write_analysis
from tests.support.run_folders import CAPTIONS_PER_IMAGE, synthetic

NAMES = [("dog", "object"), ("grass", "object"), ("ball", "object"), ("red", "property"), ("run", "motion")]


def some_concepts(names: Sequence[tuple[str, str]] = NAMES) -> Concepts:
    """Five concepts; a dog is in every caption that holds a ball, and runs in most."""
    captions = [[0, 2], [0, 2, 3], [0, 4], [0, 4, 1], [0], [1], [1, 3]]
    together, occurrences = count_together(captions, 5)
    entries = tuple(
        Concept(word, kind, int(count), (word, f"{word}s"))  # type: ignore[arg-type]
        for (word, kind), count in zip(names, occurrences, strict=True)
    )
    vectors = np.eye(5, 3, dtype=np.float32)
    return Concepts(ConceptVocabulary(entries, "textblob"), together, occurrences, vectors)


def two_branches(
    images: int, seed: int = 0, per_image: int = CAPTIONS_PER_IMAGE
) -> tuple[SplitEmbeddings, np.ndarray]:
    """A good instance branch and a worse concept branch, with random attention."""
    v, w, owner = synthetic(images, noise=1.0, seed=seed, per_image=per_image)
    vc, wc, _ = synthetic(images, noise=2.0, seed=seed + 1, dimension=16, per_image=per_image)
    random = np.random.default_rng(seed)
    attention = [random.dirichlet(np.full(5, 0.5), rows).astype(np.float16) for rows in (len(v), len(w))]
    return SplitEmbeddings(v, w, vc, wc, *attention), owner


def write_concept_run(
    root: Path,
    name: str,
    *,
    images: int = 30,
    beta: float = 0.6,
    seed: int = 0,
    captions: Sequence[str] | None = None,
    attention: tuple[np.ndarray, np.ndarray] | None = None,
    concepts: Sequence[tuple[str, str]] = NAMES,
    per_image: int = CAPTIONS_PER_IMAGE,
) -> Path:
    """A run whose dev analysis holds both branches; `attention` (n, 5) and (m, 5) takes the place of a random one;
    `concepts`: word and kind of five."""
    config = Config(name=name, data=DataConfig(data="demo"))
    config = replace(config, model=replace(config.model, concepts=10, beta=beta))
    folder = write_sealed(
        root / name, {"config.toml": tomli_w.dumps(to_document(config)), "words.json": "[]"}
    )
    found, owner = two_branches(images, seed, per_image)
    if attention is not None:
        found = found._replace(image_attention=attention[0], text_attention=attention[1])
    ranked = rank(score_tiles(mixture(found.images, found.texts, found.second, beta), owner))
    knowledge = some_concepts(concepts)
    arrays, documents = concept_tables(found, knowledge, knowledge.graph(threshold=0.3, rescaled=True))
    write_analysis(
        folder,
        "dev",
        image_embeddings=found.images,
        text_embeddings=found.texts,
        image_of_text=owner,
        captions=captions or [f"scene {i}" for i in range(len(owner))],
        image_names=[f"{i}.png" for i in range(images)],
        metrics=metrics_from_ranks(ranked),
        fingerprint="0" * 12,
        image_ranks=ranked.image_ranks,
        text_ranks=ranked.text_ranks,
        image_best=ranked.image_best,
        text_best=ranked.text_best,
        **arrays,
        documents=documents,
        beta=beta,
    )
    return folder
