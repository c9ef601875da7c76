"""Answers of the api about runs that stay the same: every number is compared with stored sums.

A change that is not meant to alter answers leaves them equal. After one that is, look at what differs, then write them
anew: python -m tests.api.test_stored_answers
"""

import html
import json
import re
import tempfile
from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from coder_core.api import (
    causes,
    clusters,
    compare,
    concept_attention,
    concepts,
    data_quality,
    diversity_changes,
    facts,
    joint_space,
    open_run,
    retrieval,
    similarity,
    slices,
)
from coder_core.api.causes.evidence import compute_evidence
from coder_core.api.report import Gate, Supplements, check_gate, gather, render
from coder_core.api.reviews import ReviewedSplit, reviewed_recall
from coder_core.data.reviews import Review, Reviews
from coder_core.geometry.settings import ClusterSettings
from coder_core.runs.derived.compute import make_clusters
from tests.support.run_folders import CONCEPTS, write_run

STORED = Path(__file__).with_name("stored_answers.json")
WORDS = [
    "a",
    "dog",
    "cat",
    "red",
    "two",
    "balls",
    "runs",
    "on",
    "green",
    "grass",
    "in",
    "water",
    "left",
    "of",
    "the",
    "man",
    "woman",
    "without",
]
IMAGES = 50
WAYS = ("i2t", "t2i")
SIDES = ("image", "text")
OVER = ("split", "batch", "bank")


def write_runs(root):
    """Write a baseline, a better run and a run with a concept branch on the same captions."""
    rng = np.random.default_rng(0)
    captions = [" ".join(rng.choice(WORDS, rng.integers(1, 16))) for _ in range(5 * IMAGES)]
    values = {"images": IMAGES, "captions": captions}
    base = write_run(root, "base", loss="btr-hardest", noise=2.5, **values)
    demo = write_run(root, "demo", noise=1.5, seed=1, **values)
    make_clusters(demo, "dev", ClusterSettings(6))
    return {"base": base, "demo": demo, "both": write_run(root, "both", **values, concepts=CONCEPTS)}


def matrix(run, source, order, way):
    batch = similarity.choose_samples(run, "dev", similarity.SampleChoice(source, 20, 1))
    batch = similarity.ordered(batch, similarity.matrix_sides(run, "dev", batch, "i2t"), order, way, run.loss)
    sides = similarity.matrix_sides(run, "dev", batch, way)
    scaled = similarity.scaled_matrix(sides, run.loss, cells=40)
    pair = similarity.open_pair(sides, scaled, (2, 3), paired=batch.paired)
    labels = similarity.labels(scaled, batch, way, run.captions("dev"))
    hardest = similarity.hardest_in_cell(sides, scaled, 1, 1)
    return batch, scaled, pair, labels, hardest, similarity.matrix_table(scaled, batch, way)


def report(base, demo):
    """Return the numbers of a report with a gate, and of its style, without versions, pictures and commands."""
    gate = check_gate(base, demo, "dev", Gate({"rsum": -1.0, "t2i_r1": 99.0}, 99.0, 20))
    page = gather([base, demo], "dev", Supplements("", "", gate=gate))
    source = html.unescape(render(replace(page, versions="")))
    source = re.sub(r'src="data:[^"]*"', "", source).partition("<h2>How to reproduce")[0]
    return [float(number.replace(",", "")) for number in re.findall(r"-?\d[\d,]*\.?\d*", source)]


def why_queries_miss(run, other, way):
    """Return the evidence of all queries, their causes, what would fix them, and the length of every reason."""
    evidence = compute_evidence(run, "dev")
    question = causes.Question(way, 5, noise=0.02)
    known = causes.Known.nothing(run.count("dev", "text"))
    misses = causes.find_causes(evidence, run.image_of_text("dev"), question, known)
    averaged = causes.averaged_with(run, other, "dev", misses, way)
    hubs = causes.hubs(run, "dev", way)
    sentences = [causes.why(misses, query, evidence, known, hubs) for query in range(40)]
    budget = causes.error_budget(misses)
    return evidence, misses, budget, causes.what_would_fix(misses, averaged), hubs, sentences


def reviewed(run):
    """Return recall with the verdicts of one person on the captions of some images."""
    split = ReviewedSplit.of(run, "dev")
    reviews = []
    for row in range(0, 100, 7):
        verdict = "wrong-caption" if row % 2 else "label-right"
        reviews.append(Review(*split.pair(row // 5, row), verdict, "someone"))
        reviews.append(Review(*split.pair(row % IMAGES, row), "also-matches", "someone"))
    return reviewed_recall(run, "dev", split, Reviews(tuple(reviews)))


def maps(run):
    """Return a map of all samples, the labels of its parts, and the neighbors of two samples."""
    layout = joint_space.principal_layout(run, "dev")
    labels = joint_space.area_labels(run, "dev", layout.plane, 0)
    nearest = [joint_space.nearest_points(run, "dev", point, 9) for point in (3, 70)]
    return np.abs(layout.plane), [label.words for label in labels], nearest


def answers(runs):
    """Yield name and answer of every question."""
    base, demo, both = (open_run(runs[name]) for name in ("base", "demo", "both"))
    yield "facts", [facts(run.summary) for run in (base, demo, both)]
    for way in WAYS:
        yield f"results {way}", [retrieval.occurrences(demo, "dev", way, k=k) for k in (1, 5, 10)]
        yield f"found {way}", [retrieval.found_by(demo, "dev", way, row, k=7) for row in range(9)]
        yield f"margins {way}", retrieval.margins(both, "dev", way)
        likely = retrieval.likely_matches(demo, "dev", way, retrieval.text_vectors(demo, "dev"))
        yield f"likely {way}", [likely, likely.likely(), likely.probably_right(1), likely.recall(5)]
        columns = slices.slice_columns(both, "dev")
        every = slices.usual_slices(columns)
        yield (
            f"slices {way}",
            slices.slice_table([base, demo, both], "dev", slices.Queries(way, 5), every, columns),
        )
    yield "columns", [columns.numbers, [entry.label for entry in every]]
    yield "hubness", retrieval.hubness(retrieval.occurrences(demo, "dev", "t2i")["count"], 10)
    yield "fitting", retrieval.count_fitting_images(demo, "dev")
    for side in SIDES:
        for function in ("std", "entropy"):
            for over in OVER:
                settings = {"modality": side, "function": function, "candidates": over}
                settings |= {"batch_size": 16, "bank_size": 50, "temperature": 0.5}
                anchor = demo.anchor(3, split="dev", **settings)
                yield f"diversity {side} {function} {over}", demo.diversity("dev", **settings)
                yield f"anchor {side} {function} {over}", [anchor, anchor.nearest(7)]
    tables = [run.diversity("dev") for run in (base, demo)]
    yield "changes", [compare(base, demo, "dev", at=5), diversity_changes(*tables)]
    yield "gains", retrieval.gains(base, demo, "dev")
    yield "settings", retrieval.config_differences({"a": base.config, "b": demo.config})
    yield "space", [joint_space.modality_gap(demo, "dev"), joint_space.samples(both, "dev")]
    yield (
        "separation",
        [joint_space.score_separation(both, "dev"), joint_space.score_distributions(both, "dev")],
    )
    yield "mismatches", data_quality.mismatches(demo, "dev")
    yield (
        "suspicion",
        data_quality.error_probability(data_quality.mismatches(base, "dev")["random"].to_numpy()),
    )
    yield "captions", data_quality.caption_table(demo.captions("dev"))
    for source in ("seed", "hardest", "split"):
        for order in ("drawn", "diversity", "cluster"):
            yield f"matrix {source} {order}", [matrix(demo, source, order, way) for way in WAYS]
    yield "loss", [similarity.values_from_similarities(run, "dev") for run in (base, demo)]
    offline = clusters.offline_clusters(demo, "dev", ClusterSettings(6)).value
    yield "clusters", clusters.cluster_table(demo, "dev", offline)
    yield "members", [clusters.members(demo, "dev", offline, row) for row in range(3)]
    yield "between", [clusters.between(demo, "dev", offline, (0, row)) for row in (1, 2)]
    yield "nearest", [clusters.nearest_clusters(offline, row) for row in range(3)]
    yield "agreement", clusters.chance_agreement(offline, demo.image_of_text("dev"))
    yield "renamed", clusters.matched(offline.pairs, offline.texts)
    view = both.concepts("dev")
    yield "concepts", [view.table(), view.edges(), view.names, view.whole, view.readers(1, "text")]
    yield "graph", [concepts.graph_of(view, np.arange(count)) for count in (2, 4, 5)]
    yield "attention", [concept_attention.attention_of(both, "dev", side) for side in SIDES]
    yield "disagreements", concept_attention.disagreements(both, "dev")
    yield "pair", concept_attention.pair_concepts(both, "dev", 7, 3)
    yield "report", report(base, demo)
    for way in WAYS:
        yield f"causes {way}", why_queries_miss(base, demo, way)
    yield "reviewed", reviewed(demo)
    yield "maps", maps(demo)
    yield (
        "graph with isolated concepts",
        [concepts.graph_of(view, np.array(some)) for some in ([1], [0, 1, 2], [1, 4, 3])],
    )
    yield (
        "ends",
        [retrieval.recall_ends(demo, "dev"), retrieval.recall_ends(demo, "dev", np.arange(0, 90, 2))],
    )
    yield "gains of some", retrieval.gains(base, demo, "dev", np.arange(0, 90, 2))


def numbers_of(answer):
    """Yield every number of an answer; of a text its length."""
    if isinstance(answer, str):
        yield np.array([len(answer)], float)
    elif answer is None or isinstance(answer, bool | int | float | np.generic):
        yield np.array([np.nan if answer is None else answer], float)
    elif isinstance(answer, np.ndarray) and answer.dtype.kind in "biuf":
        yield answer.ravel().astype(float)
    elif isinstance(answer, np.ndarray) and answer.dtype == object:
        yield np.concatenate([*(part for value in answer for part in numbers_of(value)), np.zeros(0)])
    elif isinstance(answer, pd.DataFrame):
        for _, column in answer.items():
            yield from numbers_of(column.to_numpy())
    elif isinstance(answer, pd.Series):
        yield from numbers_of(answer.to_numpy())
    elif sparse.issparse(answer):
        yield from numbers_of(answer.toarray())
    elif is_dataclass(answer):
        for field in fields(answer):
            yield from numbers_of(getattr(answer, field.name))
    else:
        for part in answer.values() if isinstance(answer, Mapping) else answer:
            yield from numbers_of(part)


def sums_of(answer):
    """Return four numbers for every array, and for all single numbers together: how many numbers it has, how many of
    them are missing, their sum, and their sum weighted by position."""
    arrays = [*numbers_of(answer)]
    single = [np.concatenate([part for part in arrays if len(part) == 1] or [np.zeros(0)])]
    return [_sums(numbers) for numbers in (*single, *(part for part in arrays if len(part) != 1))]


def _sums(numbers):
    known = np.nan_to_num(numbers, posinf=1e6, neginf=-1e6)
    place = 1 + np.arange(len(numbers)) % 97
    totals = (float(f"{total:.7g}") for total in (known.sum(), (known * place).sum()))
    return [len(numbers), int(np.isnan(numbers).sum()), *totals]


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    runs = write_runs(tmp_path_factory.mktemp("answers") / "runs")
    return {name: sums_of(answer) for name, answer in answers(runs)}


def test_answers_are_those_that_were_stored(found):
    expected = json.loads(STORED.read_text())
    assert list(found) == list(expected)
    for name, arrays in expected.items():
        assert len(found[name]) == len(arrays), name
        for sums, stored in zip(found[name], arrays, strict=True):
            assert sums == pytest.approx(stored, rel=1e-5, abs=1e-4), name


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        lines = {name: sums_of(answer) for name, answer in answers(write_runs(Path(folder) / "runs"))}
    rows = ",\n".join(f"  {json.dumps(name)}: {json.dumps(sums)}" for name, sums in lines.items())
    STORED.write_text(f"{{\n{rows}\n}}\n")
