"""Figures and maps hold the numbers they are given, and text from outside stays text."""

import numpy as np
import pandas as pd
import pytest

from app import charts
from app.charts import DARK, LIGHT, Map, Marks
from app.charts.colouring import MOST_KINDS, OTHER
from app.charts.figure import OWN_SCALE

EVIL = '<a href="http://127.0.0.1:9/x">%{x}<b>$\\alpha$'


def test_names_in_charts_are_escaped():
    metrics = {f"{d}_r{k}": 10.0 * k for d in ("i2t", "t2i") for k in (1, 5, 10)}
    frame = pd.DataFrame({"epoch": [1, 2], "loss": [2.0, 1.0]})
    changes = pd.DataFrame({"rank_a": [1, 200], "rank_b": [3, 40]})
    tenths = pd.DataFrame({"tenth": [1, 2], "recall": [10.0, 20.0]})
    figures = {
        "recall": charts.recall_bars({EVIL: metrics}, LIGHT),
        "curves": charts.training_curves({EVIL: frame}, "loss", "loss", LIGHT),
        "histogram": charts.histogram({EVIL: np.arange(9.0)}, "diversity", "captions", LIGHT),
        "tenths": charts.recall_by_diversity({EVIL: tenths}, 10, LIGHT),
        "similarities": charts.similarity_histograms({EVIL: (np.arange(9.0), np.ones(1))}, 0.3, LIGHT)[0],
        "matrix": charts.rank_matrix(changes, EVIL, EVIL, LIGHT),
        "density": charts.density(np.arange(9.0), np.ones(9), charts.plain(EVIL), "y", "captions", LIGHT),
        "margins": charts.margin_histogram({EVIL: np.linspace(-1, 1, 9)}, LIGHT),
        "hubs": charts.occurrence_bands({EVIL: np.arange(9)}, 10, LIGHT),
        "slices": charts.slice_recalls(
            [EVIL], {EVIL: np.array([[20.0, 15.0, 30.0]])}, {EVIL: 40.0}, "R@1", LIGHT
        ),
        "distribution": charts.rank_distribution({EVIL: np.array([1, 7])}, LIGHT),
    }
    for kind, figure in figures.items():
        text = str(figure.to_plotly_json())
        assert ("<a" in text, "%{x}<" in text, "127.0.0.1:9" in text) == (False, False, True), kind


def test_ranks_and_occurrences_are_counted_in_bands():
    assert charts.rank_band(np.array([1, 2, 5, 6, 10, 11, 100, 101])).tolist() == [0, 1, 1, 2, 2, 3, 4, 5]
    changes = pd.DataFrame({"rank_a": [1, 200, 150, 1], "rank_b": [3, 40, 11, 1]})
    counts = charts.rank_matrix(changes, "a", "b", LIGHT).data[0].customdata
    assert counts.shape == (6, 6)
    cells = {(int(row), int(column)): int(counts[row, column]) for row, column in np.argwhere(counts)}
    assert cells == {(0, 0): 1, (0, 1): 1, (5, 3): 2}
    bars = charts.occurrence_bands({"a": np.array([0, 0, 1, 5, 6, 100, 101])}, 10, LIGHT).data[0]
    expected = {"none": 2, "1–5": 2, "6–10": 1, "11–20": 0, "21–50": 0, "51–100": 1, "> 100": 1}
    assert dict(zip(bars.x, bars.y, strict=True)) == expected


def test_histograms_and_densities_count_every_value_once():
    values = {"a": np.random.default_rng(0).normal(size=500), "b": np.zeros(7), "c": np.ones(4)}
    assert [int(sum(bar.y)) for bar in charts.histogram(values, "x", "images", LIGHT).data] == [500, 7, 4]
    assert sum(charts.histogram({"c": np.ones(4)}, "x", "images", LIGHT).data[0].y) == 4
    x = np.array([0.0, 0.0, 1.0, np.nan])
    y = np.array([0.0, 0.0, 1.0, 1.0])
    counts = charts.density(x, y, "x", "y", "captions", LIGHT, diagonal=True).data[0].customdata
    assert (counts.sum(), counts[0, 0], counts[-1, -1]) == (3, 2, 1)
    assert not charts.histogram({}, "x", "images", LIGHT).data
    assert not charts.density(np.zeros(0), np.zeros(0), "x", "y", "captions", LIGHT).data
    pairs = {"a": (np.array([0, 0, 1, 3]), np.array([0, 10, 0, 0]))}
    curves = charts.similarity_curves(pairs, np.linspace(-1, 1, 5), LIGHT).data
    np.testing.assert_allclose([trace.y for trace in curves[:2]], [[0, 0, 25, 75], [0, 100, 0, 0]])


@pytest.mark.parametrize("theme", [None, "dark"])
def test_colours_have_enough_contrast(theme):
    """WCAG contrast is at least 4.5 for text, 3 for marks; one run is blue, two are vermilion and blue."""

    def luminance(colour):
        parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts)
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    def contrast(one, two):
        high, low = sorted((luminance(one), luminance(two)), reverse=True)
        return (high + 0.05) / (low + 0.05)

    colours = charts.tone(theme)
    assert colours is (DARK if theme else LIGHT)
    vermilion, blue = colours.runs[:2]
    assert [charts.run_colour(*run, colours) for run in ((0, 1), (1, 2), (0, 2))] == [blue, blue, vermilion]
    for text in (colours.ink, colours.good, colours.bad, colours.faint):
        assert contrast(text, colours.paper) >= 4.5, text
    for mark in colours.runs[:3]:
        assert contrast(mark, colours.paper) >= 3, mark
    cells = charts.rank_matrix(pd.DataFrame({"rank_a": [1], "rank_b": [1]}), "a", "b", colours).data[0]
    for _, shade in cells.colorscale:
        assert contrast(cells.textfont.color, shade) >= 4.5, shade


def test_adjacent_figures_share_axes_unless_one_would_be_squeezed():
    wide = np.linspace(0.3, 0.5, 99)
    narrow = np.linspace(0.11, 0.3, 99)
    own = np.array([0.6])
    figures = charts.similarity_histograms({"a": (wide, own), "b": (narrow, own)}, 0.2, LIGHT)
    assert {chart.layout.xaxis.range for chart in figures} == {(0.11, 0.6)}
    assert len({chart.layout.yaxis.range for chart in figures}) == 1
    assert len({tuple(chart.data[0].x) for chart in figures}) == 1  # the same bins
    apart = charts.similarity_histograms({"a": (wide, own), "b": (wide / 100, own / 100)}, 0.005, LIGHT)
    assert apart[1].layout.xaxis.range[1] == pytest.approx(0.006)
    assert apart[0].layout.xaxis.title.text.endswith(OWN_SCALE)
    shares = {"similarity": [0.5, 0.4], "weight_plain": [0.01, 0.018], "weight_diversity": [0.01, 0.01]}
    nearest = pd.DataFrame(shares)
    for scale, tops in ((4, (7.56, 7.56)), (20, (1.89, 37.8))):
        larger = nearest.assign(weight_plain=nearest["weight_plain"] * scale)
        weights = charts.negative_weights([nearest, larger], LIGHT)
        assert tuple(chart.layout.yaxis.range[1] for chart in weights) == pytest.approx(tops)
        assert weights[0].layout.yaxis.title.text.endswith(OWN_SCALE) == (scale == 20)
    samples = {"images": {"a": np.ones(4)}, "captions": {"a": np.array([1.0, 1.7, 3.0, 5.0])}}
    assert {chart.layout.yaxis.range for chart in charts.concepts_read(samples, LIGHT)} == {(0, 105.0)}


def test_axes_of_a_single_value_and_of_the_first_epoch_have_readable_ticks():
    same = np.array([1.0, 1.0000002])
    bars = charts.histogram({"a": same}, "diversity", "captions", LIGHT).data[0]
    assert (min(bars.x), max(bars.x)) == (pytest.approx(0.951), pytest.approx(1.049))
    assert len(set(charts.ramp("similarity", same, LIGHT).labels)) == 5
    steps = pd.DataFrame({"epoch": [0.1, 0.7], "loss": [2.0, 1.0]})
    assert charts.training_curves({"a": steps}, "loss", "loss", LIGHT).layout.xaxis.dtick is None
    values = np.array([[-0.01, 0.5]])
    scale = {"unit": "x", "row_name": "a", "column_name": "b"}
    heat = charts.heat_map(values, ["r"], ["c", "d"], charts.heat_scale([values]), LIGHT, **scale)
    assert "-0" not in heat.data[0].colorbar.ticktext


def test_hover_texts_list_the_values_of_a_chart():
    recall = charts.recall_bars({"a": {"i2t_r1": 12.34}, "b <x>": {"i2t_r1": 50}}, LIGHT)
    rows = charts.hover_texts(recall).iloc[[0, 6]].to_numpy().tolist()
    assert rows == [["a", "image → text, R@1: 12.3 %"], ["b <x>", "image → text, R@1: 50.0 %"]]
    nan = np.array([[0.25, np.nan], [0.5, 1.0]])
    scale = charts.HeatScale(0, 1)
    names = {"unit": "S", "row_name": "rows", "column_name": "columns"}
    cells = charts.heat_map(nan, ["r0", "r1"], ["c0", "c1"], scale, LIGHT, **names)
    texts = ["r0 · c0, S = 0.2500", "r1 · c0, S = 0.5000", "r1 · c1, S = 1.0000"]
    assert charts.hover_texts(cells)["value"].tolist() == texts
    words = charts.word_bars(pd.DataFrame({"word": ["dog"], "score": [2.0], "count": [7]}), LIGHT)
    assert charts.hover_texts(words)["value"].tolist() == ["dog: z 2.0, 7 times here"]
    assert len(charts.hover_texts(recall, most=3)) == 3


def test_a_frame_is_drawn_around_the_marked_cell():
    values = np.arange(6.0).reshape(2, 3)
    names = {"unit": "cosine", "row_name": "caption", "column_name": "image"}
    scale = charts.heat_scale([values])
    rows, columns = ["r0", "r1"], ["c0", "c1", "c2"]
    plain = charts.heat_map(values, rows, columns, scale, LIGHT, **names)
    marked = charts.heat_map(values, rows, columns, scale, LIGHT, marked=(1, 2), **names)
    assert not plain.layout.shapes
    frame = marked.layout.shapes[0]
    assert (frame.x0, frame.x1, frame.y0, frame.y1) == (1.5, 2.5, 0.5, 1.5)


def test_two_maps_share_axes_and_selection():
    plane = np.array([[0.0, 0.0], [1.0, 1.0], [2.0, 0.5], [3.0, 3.0]], dtype=np.float32)
    selected = np.array([True, False, True, False])
    areas = ((1, ((0.0, 0.0), (1.0, 0.0), (0.0, 1.0))),)
    marks = Marks(selected, np.array([[0, 2]]), 3, areas, np.array([1, 2]))
    colouring = charts.kinds(pd.Series(["image"] + ["caption"] * 3), LIGHT, ("image", "caption"))
    maps = [Map("a", plane, colouring), Map("b", plane + 1, colouring)]
    figure = charts.joint_map(maps, 1, np.arange(4), list("abcd"), marks, LIGHT)
    points = [trace for trace in figure.data if trace.mode == "markers" and trace.customdata is not None]
    for axis in ("x", "x2"):
        ids = [int(t.customdata[i]) for t in points if t.xaxis == axis for i in t.selectedpoints]
        assert sorted(ids) == [0, 2]
    rings = [trace for trace in figure.data if trace.mode == "markers" and trace.customdata is None]
    assert [list(trace.x) for trace in rings] == [[1, 2], [3], [2, 3], [4]]  # matches, then the opened one
    assert (figure.layout.xaxis2.matches, figure.layout.shapes[0].xref) == ("x", "x2")
    low, high = figure.layout.xaxis.range
    assert low < 0 < 4 < high
    lines = [trace for trace in figure.data if trace.mode == "lines"]
    np.testing.assert_allclose(lines[1].x[:2], [1, 3])
    assert [(t.marker.symbol, len(t.x)) for t in points if t.xaxis == "x"] == [("circle", 3), ("diamond", 1)]
    unmarked = charts.joint_map(maps[:1], 1, np.arange(4), list("abcd"), Marks(), LIGHT)
    assert {trace.selectedpoints for trace in unmarked.data} == {None}
    assert not unmarked.layout.shapes


def test_a_density_of_all_points_is_behind_the_drawn_ones():
    plane = np.random.default_rng(0).normal(size=(500, 2))
    drawn = np.arange(0, 500, 10)
    ramp = charts.ramp("similarity", plane[:, 0], LIGHT)
    figure = charts.joint_map([Map("a", plane, ramp)], 100, drawn, [""] * 50, Marks(), LIGHT)
    assert np.expm1(np.nan_to_num(figure.data[0].z)).sum() == pytest.approx(500)
    assert sum(len(trace.customdata) for trace in figure.data[1:]) == 50


@pytest.mark.parametrize(("captions", "sizes"), [(2_999, [4.5, 8]), (3_000, [3.2, 6])])
def test_marks_of_more_than_three_thousand_points_are_smaller(captions, sizes):
    colouring = charts.kinds(pd.Series(["image"] + ["caption"] * captions), LIGHT, ("image", "caption"))
    plane = np.zeros((captions + 1, 2))
    labels = [""] * (captions + 1)
    figure = charts.joint_map(
        [Map("a", plane, colouring)], 1, np.arange(captions + 1), labels, Marks(), LIGHT
    )
    assert [float(trace.marker.size) for trace in figure.data] == sizes


def test_kinds_beyond_the_most_frequent_share_one_colour():
    colouring = charts.kinds(pd.Series([str(i % 12) for i in range(120)] + ["0"] * 50), DARK)
    assert (colouring.names[0], colouring.names[-1]) == ("0", OTHER)
    assert len(colouring.names) == len(set(colouring.colours)) == MOST_KINDS + 1
    assert (colouring.codes == MOST_KINDS).sum() == 40


def test_colour_ramps_of_ranks_changes_and_numbers():
    ranks = charts.ramp("rank", np.array([1.0, 10.0, 1000.0, np.nan]), LIGHT)
    np.testing.assert_allclose(ranks.values[:3], [0, 1, 3])
    assert ranks.labels == ("1", "10", "100", "1,000")
    gain = charts.ramp("gain", np.array([-9.0, 0.0, 99.0]), LIGHT)
    assert (gain.low, gain.high) == (-2.0, 2.0)
    np.testing.assert_allclose(gain.values, [-1, 0, 2])
    assert charts.ramp("similarity", np.full(5, 0.3), LIGHT).high > 0.3
    assert charts.ramp("similarity", np.full(3, np.nan), LIGHT).high > 0
    both = charts.split_ramp(charts.ramp("rank", np.array([1.0, 10.0, 100.0, 1000.0]), LIGHT), 2)
    assert (both[0].high, both[1].high) == (3.0, 3.0)
    np.testing.assert_allclose(both[1].values, [2, 3])


def test_colours_on_a_ramp_lie_between_its_unevenly_spaced_stops():
    stops = [(0.0, "#000000"), (0.25, "#400000"), (1.0, "#C00000")]
    assert charts.on_ramp(stops, 5) == ["#000000", "#400000", "#6B0000", "#950000", "#C00000"]
    assert charts.on_ramp(stops, 2) == ["#000000", "#C00000"]


def test_slices_show_the_overall_recall_and_grey_out_noise():
    recalls = {"a": np.array([[20.0, 15.0, 30.0], [50.0, 38.0, 62.0]])}
    figure = charts.slice_recalls(["worse", "noise"], recalls, {"a": 40.0}, "R@1", LIGHT)
    assert [shape.x0 for shape in figure.layout.shapes] == [40.0]
    assert list(figure.data[0].marker.opacity) == [1.0, 0.3]


def test_the_colour_bar_names_its_centre_with_an_arrow_if_it_lies_beyond_an_end():
    names = {"unit": "S", "row_name": "r", "column_name": "c"}
    for centre, label in ((-1.0, "← γ -1"), (0.0, "γ 0"), (0.5, "γ 0.5"), (1.0, "γ 1"), (2.0, "γ 2 →")):
        scale = charts.HeatScale(0.0, 1.0, centre, "γ")
        [cells] = charts.heat_map(np.eye(2), ["a", "b"], ["c", "d"], scale, LIGHT, **names).data
        assert f"<b>{label}</b>" in cells.colorbar.ticktext
