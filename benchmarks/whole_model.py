"""The cost of all of CODER on top of a step of the instance branch, part by part, at the sizes of coder-f30k-bigru.

A part is measured alone on top of the instance branch without momentum: twin and banks; concepts; prototypes (the
assignment of the pairs, both classifications and the classifier's AdamW). The whole has all of them. All programs run
in turn on the same batches.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from benchmarks.timing import Line, Seconds, at_most, in_turn, quotient
from benchmarks.training import configuration, on, stepper
from coder_core.config.presets import PRESETS
from coder_core.config.schema import Config
from coder_core.data.batches import Batch
from coder_core.model.concepts.knowledge import Concepts
from coder_core.model.concepts.vocabulary import Concept, ConceptVocabulary
from coder_core.ops import normalise
from coder_core.training.parts.prototypes import PrototypeClassification
from coder_core.training.prepare import prepare

BAR = 1.6
PRESET = "coder-f30k-bigru"
PAIRS = 145_000  # of Flickr30K's train split
NEIGHBOURS = 0.05  # share of concept pairs that stand together often enough to be connected


def made_up_concepts(count: int, size: int) -> Concepts:
    """As many concepts as the preset has, with random vectors and a graph as thin as captions give."""
    random = np.random.default_rng(0)
    together = np.triu(random.random((count, count)) < NEIGHBOURS, 1).astype(np.int64) * 40
    names = tuple(Concept(f"concept{i}", "object", 100, (f"concept{i}",)) for i in range(count))
    vectors = random.normal(size=(count, size)).astype(np.float32)
    return Concepts(ConceptVocabulary(names, "list"), together + together.T, np.full(count, 100), vectors)


def filled_prototypes(config: Config, count: int) -> PrototypeClassification:
    """Prototypes as they stand in the middle of a run."""
    memory = replace(config.memory, prototypes=count)
    part = PrototypeClassification(replace(config, memory=memory), np.arange(PAIRS), PAIRS)
    clusters = part.clusters
    clusters.centroids.copy_(normalise(torch.randn_like(clusters.centroids)))
    clusters.resultants.fill_(0.8)
    clusters.weights.fill_(PAIRS / count)
    clusters.seen.fill_(PAIRS)
    return part


def whole_stepper(config: Config, count: int) -> Callable[[Batch], None]:
    """The step of a model with made-up concepts, and with `count` prototypes unless that is 0."""
    concepts = (
        made_up_concepts(config.model.concepts, config.model.word_size) if config.model.concepts else None
    )
    return stepper(
        prepare(config, concepts=concepts), config, *([filled_prototypes(config, count)] if count else [])
    )


def lines(folder: Path, rounds: int, warm_up: int = 2) -> list[Line]:
    """The whole step ÷ the instance branch's without momentum, and each part's share of it."""
    preset = PRESETS[PRESET].config
    plain = configuration(folder, 0)
    bank, concepts, count = preset.memory.bank_size, preset.model.concepts, preset.memory.prototypes
    with_bank = replace(plain, memory=replace(plain.memory, bank_size=bank))
    with_concepts = replace(plain, model=replace(plain.model, concepts=concepts))
    parts = {
        "instance branch": (plain, 0),
        f"+ momentum twin and {bank:,} bank slots": (with_bank, 0),
        f"+ {concepts} concepts": (with_concepts, 0),
        f"+ {count:,} prototypes": (plain, count),
        "the whole": (replace(with_concepts, memory=with_bank.memory), count),
    }
    prepared = prepare(plain)
    batches = [prepared.batches(turn) for turn in range(rounds + warm_up)]
    steps = {name: whole_stepper(config, count) for name, (config, count) in parts.items()}

    programs = {name: on(step, batches) for name, step in steps.items()}
    taken = in_turn(programs, rounds, warm_up)
    base = taken["instance branch"]
    name = f"the whole of CODER's step ÷ the instance branch's, batch {plain.training.batch_size}"
    shares = {part: quotient(taken[part], base) for part in list(parts)[1:-1]}
    added = {part: Seconds(share.processor - 1, share.wall - 1) for part, share in shares.items()}
    return [
        at_most(name, BAR, taken["the whole"], base),
        *(Line(f"    {part}: added share", "", *share, None, None) for part, share in added.items()),
    ]
