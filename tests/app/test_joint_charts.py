"""Maps and their colours."""

import numpy as np
import pandas as pd
import pytest

from app import charts
from app.charts import DARK, LIGHT, Map, Marks
from app.charts.colouring import MOST_KINDS, OTHER

PLANE = np.array([[0.0, 0.0], [1.0, 1.0], [2.0, 0.5], [3.0, 3.0]], dtype=np.float32)


def kinds(count: int = 4) -> charts.Kinds:
    return charts.kinds(pd.Series(["image"] + ["caption"] * (count - 1)), LIGHT, ("image", "caption"))


def test_two_maps_show_the_same_part_of_one_plane_and_share_the_choice() -> None:
    chosen = np.array([True, False, True, False])
    areas = ((1, ((0.0, 0.0), (1.0, 0.0), (0.0, 1.0))),)
    marks = Marks(chosen, np.array([[0, 2]]), 3, areas, np.array([1, 2]))
    maps = [Map("a", PLANE, kinds()), Map("b", PLANE + 1, kinds())]
    figure = charts.joint_map(maps, 1, np.arange(4), list("abcd"), marks, LIGHT)
    points = [trace for trace in figure.data if trace.mode == "markers" and trace.customdata is not None]
    chosen_ids = {
        axis: sorted(int(t.customdata[i]) for t in points if t.xaxis == axis for i in t.selectedpoints)
        for axis in ("x", "x2")
    }
    assert chosen_ids == {"x": [0, 2], "x2": [0, 2]}
    rings = [trace for trace in figure.data if trace.mode == "markers" and trace.customdata is None]
    assert [list(trace.x) for trace in rings] == [
        [1, 2],
        [3],
        [2, 3],
        [4],
    ]  # those found, then the one opened
    assert figure.layout.xaxis2.matches == "x"
    assert figure.layout.shapes[0].xref == "x2"
    low, high = figure.layout.xaxis.range
    assert low < 0 < 4 < high
    lines = [trace for trace in figure.data if trace.mode == "lines"]
    np.testing.assert_allclose(lines[1].x[:2], [1, 3])
    assert {tuple(t.marker.symbol) for t in points if t.xaxis == "x"} == {("diamond",), ("circle",) * 3}


def test_nothing_chosen_fades_nothing() -> None:
    figure = charts.joint_map([Map("a", PLANE, kinds())], 1, np.arange(4), list("abcd"), Marks(), LIGHT)
    assert all(trace.selectedpoints is None for trace in figure.data)
    assert not figure.layout.shapes


def test_more_points_than_are_drawn_stand_on_a_ground_of_all() -> None:
    rng = np.random.default_rng(0)
    plane = rng.normal(size=(500, 2))
    drawn = np.arange(0, 500, 10)
    ramp = charts.ramp("similarity", plane[:, 0], LIGHT)
    figure = charts.joint_map([Map("a", plane, ramp)], 100, drawn, [""] * 50, Marks(), LIGHT)
    ground = figure.data[0]
    assert ground.type == "heatmap"
    assert np.expm1(np.nan_to_num(ground.z)).sum() == pytest.approx(500)
    assert sum(len(trace.customdata) for trace in figure.data[1:]) == 50


def test_many_kinds_leave_one_grey_for_the_rest() -> None:
    values = pd.Series([str(i % 12) for i in range(120)] + ["0"] * 50)
    found = charts.kinds(values, DARK)
    assert len(found.names) == MOST_KINDS + 1
    assert found.names[0] == "0"
    assert found.names[-1] == OTHER
    assert len(set(found.colours)) == MOST_KINDS + 1
    assert (found.codes == MOST_KINDS).sum() == 40


def test_ramps_of_ranks_changes_and_plain_numbers() -> None:
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


def test_similarity_curves_are_shares() -> None:
    edges = np.linspace(-1, 1, 5)
    figure = charts.similarity_curves(
        ["a"], edges, [np.array([0, 0, 1, 3])], [np.array([0, 10, 0, 0])], LIGHT
    )
    np.testing.assert_allclose(figure.data[0].y, [0, 0, 25, 75])
    np.testing.assert_allclose(figure.data[1].y, [0, 100, 0, 0])


def test_densities_of_any_number_of_runs_have_area_one_and_one_axis() -> None:
    edges, names = np.linspace(-1, 1, 9), ["a", "<b>b", "c"]
    matching = [
        np.array([0, 0, 0, 0, 1, 3, 0, 0]),
        np.array([0, 0, 0, 0, 0, 0, 5, 0]),
        np.array([0] * 7 + [2]),
    ]
    others = [np.array([0, 2, 0, 0, 0, 0, 0, 0])] * 3
    figures = [
        charts.similarity_densities(names, edges, one, matching + others, "pairs", LIGHT)
        for one in (matching, others)
    ]
    for figure in figures:
        assert [float(np.sum(trace.y)) * 0.25 for trace in figure.data] == pytest.approx([1, 1, 1])
        assert len({trace.line.color for trace in figure.data}) == 3
        assert "<b>" not in figure.data[1].name
    assert figures[0].layout.xaxis.range == figures[1].layout.xaxis.range == (-1.0, 1.0)
