"""Figures of small data stay the same: marks, hover texts, axes, colors and sizes are compared with stored ones.

A change that is not meant to alter figures leaves them equal. After one that is, look at what differs, then write them
anew: python -m tests.app.test_stored_figures
"""

import base64
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from app import charts
from app.charts import DARK, LIGHT, Map, Marks

STORED = Path(__file__).with_name("stored_figures.json")
LISTED = 16  # numbers of an array that are stored one by one; of a longer one, their sums are
WAYS = ("i2t", "t2i")
CAUSES = ("label", "unlabelled", "copy", "vague", "hub", "close", "model")


def of_runs():
    """Yield figures that compare runs."""
    recalls = {f"{way}_r{k}": 10.0 * k + len(way) for way in WAYS for k in (1, 5, 10)}
    metrics = {"a": recalls, "b": {name: value + 4 for name, value in recalls.items() if name != "t2i_r10"}}
    yield "recall of two runs", charts.recall_bars(metrics, LIGHT)
    yield "recall of four runs", charts.recall_bars(dict.fromkeys("abcd", recalls), DARK)
    share = np.array([40, 3.5, 10, 16.5, 15, 10, 5.0])
    budget = pd.DataFrame(
        {"cause": CAUSES, "count": range(7), "share": share, "low": share - 1, "high": share + 2}
    )
    yield "causes", charts.error_budgets({"a": budget, "b": budget.assign(share=share[::-1])}, LIGHT)
    epochs = pd.DataFrame({"epoch": [1, 2, 3], "loss": [3.0, np.nan, 1.0]})
    steps = pd.DataFrame({"epoch": np.linspace(0, 1.5, 61), "loss": np.linspace(3, 1, 61)})
    curves = {"a": epochs, "b": epochs.drop(columns="loss"), "c": epochs.assign(epoch=[8, 16, 24])}
    yield "training by epoch", charts.training_curves(curves, "loss", "loss: <x>", LIGHT)
    many = {name: steps[: 60 + (name == "g")] for name in "abcdefg"}
    yield "training of seven runs", charts.training_curves(many, "loss", "loss", LIGHT)
    yield "tuned weights", charts.blend_curve(np.array([0.0, 0.5, 1]), np.array([200.0, 240, 220]), LIGHT)
    tenths = {name: pd.DataFrame({"tenth": range(1, 4), "recall": [10.0, 20, 30]}) for name in "abc"}
    yield "recall by diversity", charts.recall_by_diversity(tenths, 5, LIGHT)


def of_ranks():
    """Yield figures of ranks, occurrences and slices."""
    changes = pd.DataFrame({"rank_a": [1, 2, 200, 7, 7], "rank_b": [1, 60, 11, 1, 1]})
    yield "rank changes", charts.rank_matrix(changes, "a", "b", LIGHT)
    ranks = {"a": np.array([1, 1, 2, 5, 6, 10, 11, 50, 51, 100, 101, 300]), "b": np.array([1, 101])}
    yield "ranks", charts.rank_distribution(ranks, LIGHT)
    yield (
        "occurrences",
        charts.occurrence_bands({"a": np.array([0, 1, 5, 6, 10, 11, 20, 21, 50, 51, 100, 101])}, 10, LIGHT),
    )
    first = np.array([[20.0, 15.04, 30.06], [50.0, 38, 62], [40, 40, 41]])
    slices = {"a": first, "b": first + 1, "c": first + 2}
    overall = {"a": 40.0, "b": 63, "c": 17}
    yield "slices", charts.slice_recalls(["short", "dog", "all"], slices, overall, "R@1, %", LIGHT)


def of_distributions():
    """Yield histograms and densities."""
    a = np.linspace(0.1, 0.5, 40) ** 2
    b = a + 0.1
    yield "diversity of two runs", charts.histogram({"a": a, "b": b}, "diversity", "captions", LIGHT, bins=8)
    yield (
        "diversity of three runs",
        charts.histogram({"a": a, "b": b, "c": b}, "diversity", "captions", DARK, 8),
    )
    yield "margins", charts.margin_histogram({"a": a - 0.1}, LIGHT)
    yield "density", charts.density(a, b, "x", "y", "captions", LIGHT, diagonal=True)
    yield "density of two scales", charts.density(a, 9 * b, "x", "y", "captions", LIGHT)
    anchors = {"a": (a, np.array([0.3, 0.4])), "b": (b, np.array([0.5]))}
    figures = charts.similarity_histograms(anchors, 0.2, LIGHT)
    yield from ((f"similarities of {name}", figure) for name, figure in zip("ab", figures, strict=True))
    apart = charts.similarity_histograms({"a": anchors["a"], "b": (b / 90, np.array([0.01]))}, 0.0, LIGHT)
    yield "similarities on their own scale", apart[1]
    nearest = pd.DataFrame(
        {"similarity": [0.5, 0.4], "weight_plain": [0.1, 0.2], "weight_diversity": [0.3, 0.1]}
    )
    yield "weights of negatives", charts.negative_weights([nearest], LIGHT)[0]
    counts = (np.array([0, 0, 1, 3, 1, 0, 0]), np.array([0, 0, 9, 1, 0, 0, 0]))
    yield (
        "similarity curves",
        charts.similarity_curves({"a": counts, "b": counts}, np.linspace(-1, 1, 8), LIGHT),
    )


def of_matrices():
    """Yield heat maps, and regions of a picture."""
    values = np.array([[-0.2, 0.1, 0.9], [0.4, np.nan, 0.3]])
    names = {"unit": "S", "row_name": "rows", "column_name": "columns"}
    scale = charts.heat_scale([values], 0.1, "γ")
    rows = ["r0", "r1"]
    columns = ["c0", "c1", "c2"]
    yield "matrix", charts.heat_map(values, rows, columns, scale, LIGHT, marked=(1, 2), **names)
    for name, size in (("tall matrix", (7, 3)), ("matrix of 129 rows", (129, 65))):
        cells = np.linspace(0, 3, size[0] * size[1]).reshape(size)
        of_rows = [f"r{row}" for row in range(size[0])]
        of_columns = [f"c{column}" for column in range(size[1])]
        ramp = charts.heat_scale([cells], None)
        yield name, charts.heat_map(cells, of_rows, of_columns, ramp, DARK, **names)
    edges = np.linspace(0, 1, 4)
    laid = (values, edges, edges[:3])
    box = np.array([0.1, 0.2, 0.6, 0.7])
    picture = ("data:image/jpeg;base64,", 0.75)
    bar = ((-0.2, 0.9), " · own scale")
    yield "regions of a picture", charts.regions_over_picture(laid, picture, box, "gain", bar, LIGHT)
    yield "regions without places", charts.region_bars(values[0], "gain", bar, LIGHT)
    yield "regions of shares", charts.region_bars(values[1, :1], "share", ((0.3, 0.4), ""), LIGHT)


def of_concepts():
    """Yield figures of concepts and clusters."""
    nodes = pd.DataFrame({"concept": [4, 7, 9], "word": ["dog", "black", "running"], "count": [100, 25, 1]})
    nodes = nodes.assign(kind=["object", "property", "motion"], reads=[1, 2, 0], read_by=[2, 1, 0])
    nodes = nodes.assign(x=[0.5, 0.5, 0.54], y=[0.5, 0.56, 0.5])
    edges = pd.DataFrame({"concept": [4, 7, 7], "neighbour": [7, 4, 9]})
    yield "concept graph", charts.concept_graph(nodes, edges, 9, LIGHT)
    numbers = {
        "captions": {"a": np.array([0.9999, 1.2, 1.7, 3, 6, 12, 24, 48, 100]), "b": np.array([1.6, 1.6])}
    }
    yield "concepts attended to", charts.concepts_read(numbers, LIGHT)[0]
    of_pair = pd.DataFrame({"word": ["dog", "black"], "kind": ["object", "property"]})
    yield "concepts of a pair", charts.side_by_side(of_pair.assign(image=[0.5, 0.1], text=[0.2, 0.3]), LIGHT)
    table = pd.DataFrame(
        {"cluster": [0, 3], "size": [9, 50], "agreement": [20.0, 90], "words": ["dog", "a cat"]}
    )
    yield "clusters", charts.cluster_map(table, 3, LIGHT)
    words = pd.DataFrame({"word": ["dog", "cat"], "score": [3.25, 1.5], "count": [7, 2]})
    yield "words of a cluster", charts.word_bars(words, LIGHT)


def of_maps():
    """Yield maps, and the shares of a selection."""
    plane = np.array([[0.0, 0], [1, 1], [2, 0.5], [3, 3], [1, 2]])
    kinds = charts.kinds(pd.Series(["image"] * 2 + ["caption"] * 3), LIGHT, ("image", "caption"))
    maps = [Map("a run with a name longer than a line", plane, kinds), Map("b", plane[::-1], kinds)]
    selected = np.array([True, False, True, False, False])
    areas = ((1, ((0.0, 0.0), (1.0, 0.0), (0.0, 1.0))), (0, ((0.0, 0.0), (1.0, 0.0), (1.0, 1.0))))
    marks = Marks(selected, np.array([[0, 2], [1, 4]]), 3, areas, np.array([1, 2]))
    labels = ["one", "two", "three", "four", "five"]
    yield "two maps", charts.joint_map(maps, 2, np.arange(5), labels, marks, LIGHT)
    ramp = charts.ramp("rank", np.array([1.0, 10, 100, 1000, np.nan]), DARK)
    some = charts.joint_map([Map("a", plane, ramp)], 2, np.array([1, 3]), labels[:2], Marks(), DARK)
    yield "map of some points", some
    many = charts.kinds(pd.Series([f"kind {number}" for number in range(10)] + ["kind 9"]), LIGHT)
    yield "shares of kinds", charts.share_bars(many, np.array([0, 2, 9, 10]), "selected", LIGHT)
    gains = charts.ramp("gain", np.array([-40.0, -3, 0, 5, 100]), LIGHT)
    yield "shares of gains", charts.share_bars(gains, np.array([0, 2]), "selected", LIGHT)
    days = np.array(["2026-01-01", "2026-02-01", "NaT", "2026-03-01"], dtype="datetime64[D]")
    yield (
        "shares of dates",
        charts.share_bars(charts.date_ramp("date", days, LIGHT), np.array([0]), "one", LIGHT),
    )


def figures():
    yield "without marks", charts.histogram({}, "x", "captions", LIGHT)
    for some in (of_runs, of_ranks, of_distributions, of_matrices, of_concepts, of_maps):
        yield from some()


def stored(part):
    """Return a part of a figure as it is stored: without unset values, numbers rounded, long arrays as their sums."""
    if isinstance(part, dict) and "bdata" in part:  # an array, as Plotly sends it
        values = np.frombuffer(base64.b64decode(part["bdata"]), part["dtype"])
        sizes = str(part.get("shape", len(values))).split(",")
        return stored(values.reshape([int(size) for size in sizes]))
    if isinstance(part, dict):
        return {name: stored(value) for name, value in sorted(part.items()) if value is not None}
    if isinstance(part, np.ndarray | list | tuple):
        single = list(flat(part))
        return [stored(value) for value in part] if len(single) <= LISTED else summary(single)
    if isinstance(part, np.generic):
        part = part.item()
    return rounded(part) if isinstance(part, float) else part


def flat(values):
    for value in values:
        yield from flat(value) if isinstance(value, np.ndarray | list | tuple) else [value]


def summary(values):
    numbers = [float(value) for value in values if isinstance(value, int | float | np.number)]
    known = np.nan_to_num(numbers)
    weighted = known * (1 + np.arange(len(known)) % 97)
    texts = [values[0], values[-1]] if not numbers else []
    return {"length": len(values), "sums": [rounded(known.sum()), rounded(weighted.sum())], "texts": texts}


def rounded(number):
    return None if np.isnan(number) else float(f"{number:.6g}")


def layout_of(figure):
    layout = figure.to_plotly_json()["layout"]
    return stored({name: part for name, part in layout.items() if name != "template"})


def parts(figure):
    """Return layout and traces of a figure as they are stored, the layout without what every figure has."""
    common = layout_of(charts.figure.figure(LIGHT, [], "", "")) if figure.data else {}
    layout = {name: part for name, part in layout_of(figure).items() if part != common.get(name)}
    return {"layout": layout, "traces": [stored(trace) for trace in figure.to_plotly_json()["data"]]}


def differences(found, expected, where):
    """Yield every place where two stored parts differ."""
    if isinstance(found, dict) and isinstance(expected, dict):
        for name in sorted({*found, *expected}):
            yield from differences(found.get(name), expected.get(name), f"{where}.{name}")
    elif isinstance(found, list) and isinstance(expected, list) and len(found) == len(expected):
        for number, pair in enumerate(zip(found, expected, strict=True)):
            yield from differences(*pair, f"{where}[{number}]")
    elif found != (pytest.approx(expected, rel=1e-4, abs=1e-9) if isinstance(expected, float) else expected):
        yield f"{where}: {found!r}, stored {expected!r}"


def test_figures_are_those_that_were_stored():
    found = {name: parts(figure) for name, figure in figures()}
    expected = json.loads(STORED.read_text("utf-8"))
    assert list(found) == list(expected)
    assert list(differences(found, expected, "")) == []


def lines(name, figure):
    """Write one figure: a line for its layout, and one for every trace."""
    traces = ",\n   ".join(json.dumps(trace, ensure_ascii=False) for trace in figure["traces"])
    layout = json.dumps(figure["layout"], ensure_ascii=False)
    return f'{json.dumps(name)}: {{\n  "layout": {layout},\n  "traces": [\n   {traces}\n  ]\n }}'


if __name__ == "__main__":
    written = ",\n ".join(lines(name, parts(figure)) for name, figure in figures())
    STORED.write_text(f"{{\n {written}\n}}\n", "utf-8")
