"""Figures and maps hold the numbers they are given, and text from outside stays text."""

import numpy as np
import pandas as pd
import pytest

from app import charts
from app.charts import DARK, LIGHT, Map, Marks
from app.charts.colouring import MOST_KINDS, OTHER

EVIL = '<a href="http://127.0.0.1:9/x">%{x}<b>$\\alpha$'
COLOURS = charts.tone("light")


def figures(name):
    metrics = {f"{d}_r{k}": 10.0 * k for d in ("i2t", "t2i") for k in (1, 5, 10)}
    frame = pd.DataFrame({"epoch": [1, 2], "loss": [2.0, 1.0]})
    changes = pd.DataFrame({"rank_a": [1, 200], "rank_b": [3, 40]})
    tenths = pd.DataFrame({"tenth": [1, 2], "recall": [10.0, 20.0]})
    return {
        "recall": charts.recall_bars({name: metrics}, COLOURS),
        "curves": charts.training_curves({name: frame}, "loss", "loss", COLOURS),
        "histogram": charts.histogram({name: np.arange(9.0)}, "diversity", "captions", COLOURS),
        "tenths": charts.recall_by_diversity({name: tenths}, 10, COLOURS),
        "similarities": charts.similarity_histogram(
            np.arange(9.0), np.ones(1), 0.3, name, COLOURS.mark, COLOURS
        ),
        "matrix": charts.rank_matrix(changes, name, name, COLOURS),
        "density": charts.density(np.arange(9.0), np.ones(9), charts.plain(name), "y", "captions", COLOURS),
        "margins": charts.margin_histogram({name: np.linspace(-1, 1, 9)}, COLOURS),
        "hubs": charts.occurrence_bands({name: np.arange(9)}, 10, COLOURS),
        "slices": charts.slice_recalls([name], {name: np.array([[20.0, 15.0, 30.0]])}, "R@1", COLOURS),
        "distribution": charts.rank_distribution({name: np.array([1, 7])}, COLOURS),
    }


@pytest.mark.parametrize("kind", list(figures("x")))
def test_names_cannot_become_markup(kind):
    text = str(figures(EVIL)[kind].to_plotly_json())
    assert "<a" not in text
    assert "%{x}<" not in text
    assert "127.0.0.1:9" in text


def test_rank_matrix_by_hand():
    """One query from rank 1 to 3, two from 200 to 40, one stays at 1."""
    changes = pd.DataFrame({"rank_a": [1, 200, 150, 1], "rank_b": [3, 40, 11, 1]})
    counts = charts.rank_matrix(changes, "a", "b", COLOURS).data[0].customdata
    expected = np.zeros((6, 6), dtype=int)
    expected[0, 1], expected[5, 3], expected[0, 0] = 1, 2, 1
    np.testing.assert_array_equal(counts, expected)


def test_bands_of_ranks():
    ranks = np.array([1, 2, 5, 6, 10, 11, 100, 101])
    assert charts.rank_band(ranks).tolist() == [0, 1, 1, 2, 2, 3, 4, 5]


def test_histogram_counts_every_value_once():
    values = {"a": np.random.default_rng(0).normal(size=500), "b": np.zeros(7)}
    figure = charts.histogram(values, "x", "images", COLOURS)
    assert [int(sum(bar.y)) for bar in figure.data] == [500, 7]
    equal = charts.histogram({"a": np.ones(4)}, "x", "images", COLOURS)
    assert sum(equal.data[0].y) == 4
    assert not charts.histogram({}, "x", "images", COLOURS).data


def test_one_run_is_blue_and_two_are_vermilion_and_blue():
    assert charts.run_colour(0, 1, COLOURS) == charts.run_colour(1, 2, COLOURS) == "#0072B2"
    assert charts.run_colour(0, 2, COLOURS) == "#D55E00"
    assert charts.tone("dark") is charts.DARK
    assert charts.tone(None) is charts.LIGHT


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_colours_can_be_read_on_their_ground(theme):
    """WCAG contrast: 4.5 for text, 3 for marks."""

    def luminance(colour):
        parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts)
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    def contrast(one, two):
        high, low = sorted((luminance(one), luminance(two)), reverse=True)
        return (high + 0.05) / (low + 0.05)

    colours = charts.tone(theme)
    for text in (colours.ink, colours.good, colours.bad, colours.faint):
        assert contrast(text, colours.paper) >= 4.5, text
    for mark in colours.runs[:3]:
        assert contrast(mark, colours.paper) >= 3, mark


def test_density_counts_every_anchor_once_and_skips_missing_values():
    x, y = np.array([0.0, 0.0, 1.0, np.nan]), np.array([0.0, 0.0, 1.0, 1.0])
    counts = charts.density(x, y, "x", "y", "captions", COLOURS, diagonal=True).data[0].customdata
    assert counts.sum() == 3
    assert counts[0, 0] == 2
    assert counts[-1, -1] == 1
    assert not charts.density(np.zeros(0), np.zeros(0), "x", "y", "captions", COLOURS).data


def test_bands_of_occurrences():
    bars = charts.occurrence_bands({"a": np.array([0, 0, 1, 5, 6, 100, 101])}, 10, COLOURS).data[0]
    assert list(bars.x) == ["none", "1–5", "6–10", "11–20", "21–50", "51–100", "> 100"]
    assert list(bars.y) == [2, 2, 1, 0, 0, 1, 1]


def test_hover_texts_are_what_the_mouse_reads():
    recall = charts.recall_bars({"a": {"i2t_r1": 12.34}, "b <x>": {"i2t_r1": 50}}, charts.LIGHT)
    rows = charts.hover_texts(recall)
    assert rows.iloc[0].tolist() == ["a", "image → text, R@1: 12.3 %"]
    assert rows.iloc[6].tolist() == ["b <x>", "image → text, R@1: 50.0 %"]
    nan = np.array([[0.25, np.nan], [0.5, 1.0]])
    scale, names = charts.HeatScale(0, 1), {"unit": "S", "row_name": "rows", "column_name": "columns"}
    cells = charts.heat_map(nan, ["r0", "r1"], ["c0", "c1"], scale, charts.LIGHT, **names)
    texts = ["r0 · c0, S = 0.2500", "r1 · c0, S = 0.5000", "r1 · c1, S = 1.0000"]
    assert charts.hover_texts(cells)["value"].tolist() == texts
    words = charts.word_bars(pd.DataFrame({"word": ["dog"], "score": [2.0], "count": [7]}), charts.LIGHT)
    assert charts.hover_texts(words)["value"].tolist() == ["dog: z 2.0, 7 times here"]
    many = charts.histogram({"run": np.arange(9.0)}, "x", "pairs", charts.LIGHT)
    assert len(charts.hover_texts(many, most=3)) == 3


PLANE = np.array([[0.0, 0.0], [1.0, 1.0], [2.0, 0.5], [3.0, 3.0]], dtype=np.float32)


def kinds(count=4):
    return charts.kinds(pd.Series(["image"] + ["caption"] * (count - 1)), LIGHT, ("image", "caption"))


def test_two_maps_show_the_same_part_of_one_plane_and_share_the_choice():
    selected = np.array([True, False, True, False])
    areas = ((1, ((0.0, 0.0), (1.0, 0.0), (0.0, 1.0))),)
    marks = Marks(selected, np.array([[0, 2]]), 3, areas, np.array([1, 2]))
    maps = [Map("a", PLANE, kinds()), Map("b", PLANE + 1, kinds())]
    figure = charts.joint_map(maps, 1, np.arange(4), list("abcd"), marks, LIGHT)
    points = [trace for trace in figure.data if trace.mode == "markers" and trace.customdata is not None]
    for axis in ("x", "x2"):
        ids = [int(t.customdata[i]) for t in points if t.xaxis == axis for i in t.selectedpoints]
        assert sorted(ids) == [0, 2]
    rings = [trace for trace in figure.data if trace.mode == "markers" and trace.customdata is None]
    assert [list(trace.x) for trace in rings] == [[1, 2], [3], [2, 3], [4]]  # matches, then the opened one
    assert figure.layout.xaxis2.matches == "x"
    assert figure.layout.shapes[0].xref == "x2"
    low, high = figure.layout.xaxis.range
    assert low < 0 < 4 < high
    lines = [trace for trace in figure.data if trace.mode == "lines"]
    np.testing.assert_allclose(lines[1].x[:2], [1, 3])
    assert {tuple(t.marker.symbol) for t in points if t.xaxis == "x"} == {("diamond",), ("circle",) * 3}


def test_nothing_chosen_fades_nothing():
    figure = charts.joint_map([Map("a", PLANE, kinds())], 1, np.arange(4), list("abcd"), Marks(), LIGHT)
    assert all(trace.selectedpoints is None for trace in figure.data)
    assert not figure.layout.shapes


def test_more_points_than_are_drawn_stand_on_a_ground_of_all():
    rng = np.random.default_rng(0)
    plane = rng.normal(size=(500, 2))
    drawn = np.arange(0, 500, 10)
    ramp = charts.ramp("similarity", plane[:, 0], LIGHT)
    figure = charts.joint_map([Map("a", plane, ramp)], 100, drawn, [""] * 50, Marks(), LIGHT)
    ground = figure.data[0]
    assert ground.type == "heatmap"
    assert np.expm1(np.nan_to_num(ground.z)).sum() == pytest.approx(500)
    assert sum(len(trace.customdata) for trace in figure.data[1:]) == 50


def test_many_kinds_leave_one_grey_for_the_rest():
    values = pd.Series([str(i % 12) for i in range(120)] + ["0"] * 50)
    colouring = charts.kinds(values, DARK)
    assert len(colouring.names) == MOST_KINDS + 1
    assert colouring.names[0] == "0"
    assert colouring.names[-1] == OTHER
    assert len(set(colouring.colours)) == MOST_KINDS + 1
    assert (colouring.codes == MOST_KINDS).sum() == 40


def test_ramps_of_ranks_changes_and_plain_numbers():
    ranks = charts.ramp("rank", np.array([1.0, 10.0, 1000.0, np.nan]), LIGHT)
    np.testing.assert_allclose(ranks.values[:3], [0, 1, 3])
    assert ranks.labels == ("1", "10", "100", "1,000")
    gain = charts.ramp("gain", np.array([-9.0, 0.0, 99.0]), LIGHT)
    assert (gain.low, gain.high) == (-2.0, 2.0)
    np.testing.assert_allclose(gain.values, [-1, 0, 2])
    flat = charts.ramp("similarity", np.full(5, 0.3), LIGHT)
    assert flat.high > flat.low
    assert charts.ramp("similarity", np.full(3, np.nan), LIGHT).high > 0
    both = charts.split_ramp(charts.ramp("rank", np.array([1.0, 10.0, 100.0, 1000.0]), LIGHT), 2)
    assert (both[0].high, both[1].high) == (3.0, 3.0)
    np.testing.assert_allclose(both[1].values, [2, 3])


def test_similarity_curves_are_shares():
    counts = {"a": (np.array([0, 0, 1, 3]), np.array([0, 10, 0, 0]))}
    figure = charts.similarity_curves(counts, np.linspace(-1, 1, 5), LIGHT)
    np.testing.assert_allclose(figure.data[0].y, [0, 0, 25, 75])
    np.testing.assert_allclose(figure.data[1].y, [0, 100, 0, 0])


def test_densities_of_any_number_of_runs_have_area_one_and_one_axis():
    edges, names = np.linspace(-1, 1, 9), ["a", "<b>b", "c"]
    matching = [*np.array([[0, 0, 0, 0, 1, 3, 0, 0], [0, 0, 0, 0, 0, 0, 5, 0], [0] * 7 + [2]])]
    others = [np.array([0, 2, 0, 0, 0, 0, 0, 0])] * 3
    kinds = [dict(zip(names, counts, strict=True)) for counts in (matching, others)]
    figures = [charts.similarity_densities(k, edges, matching + others, "pairs", LIGHT) for k in kinds]
    for figure in figures:
        assert [float(np.sum(trace.y)) * 0.25 for trace in figure.data] == pytest.approx([1, 1, 1])
        assert len({trace.line.color for trace in figure.data}) == 3
        assert "<b>" not in figure.data[1].name
    assert figures[0].layout.xaxis.range == figures[1].layout.xaxis.range == (-1.0, 1.0)
