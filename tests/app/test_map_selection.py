"""The functions behind selections on maps and in tables, filters and orders."""

import numpy as np
import pandas as pd
import pyarrow as pa

from app.ask import joint_space
from app.components import map_selection, selection
from app.components.map_selection import Area, Selection

SQUARE = ((0.0, 0.0), (2.0, 0.0), (2.0, 2.0), (0.0, 2.0))
HOURGLASS = ((-1.0, -1.0), (1.0, 1.0), (1.0, -1.0), (-1.0, 1.0))


def test_inside_agrees_with_winding_angles_on_an_hourglass_and_random_stars():
    rng = np.random.default_rng(0)
    plane = rng.normal(size=(500, 2))
    shapes = [np.array(HOURGLASS)]
    for corners in (7, 60):
        angle = np.linspace(0, 2 * np.pi, corners, endpoint=False)
        shapes.append(np.c_[np.cos(angle), np.sin(angle)] * rng.uniform(0.3, 2, size=(corners, 1)))
    for shape in shapes:
        turned = np.diff(
            np.arctan2(*(shape[None] - plane[:, None]).transpose(2, 0, 1)), axis=1, append=np.nan
        )
        turned[:, -1] = np.arctan2(*(shape[0] - plane).T) - np.arctan2(*(shape[-1] - plane).T)
        winding = np.abs(((turned + np.pi) % (2 * np.pi) - np.pi).sum(1)) > np.pi
        np.testing.assert_array_equal(
            map_selection.inside(plane, [tuple(c) for c in shape.tolist()]), winding
        )


def test_a_selection_survives_the_url():
    lassoed = Selection((Area(0, SQUARE), Area(1, ((0.125, -3.5), (10.0, 4.0), (5.0, 6.0)))), (7, 12))
    text = map_selection.to_text(lassoed)
    assert text == "a:0,0,2,0,2,2,0,2!b:0.125,-3.5,10,4,5,6!p:7,12"
    assert map_selection.from_text(text) == lassoed
    assert not Selection()
    nonsense = "a:1,2,3 a:1,2,3,4,5,6,7 c:1,2,3,4,5,6 a:1,2,3,4,5,nan a:1e5,2,3,4,5,6 a:inf,2,3,4,5,6 p: p:-1"
    for text in ("", None, *nonsense.split(), "p:1.5", "../../etc", "<script>", "9" * 5000):
        assert map_selection.from_text(text) == Selection(), text


def test_lassos_boxes_and_clicks_of_a_chart_are_read():
    lasso = {"xref": "x2", "yref": "y2", "x": [0.0, 2.00004, 2.0], "y": [0.0, 0.0, 2.0]}
    box = {"xref": "x", "yref": "y", "x": [3.0, 1.0], "y": [4.0, 2.0]}
    drawn = {"selection": {"lasso": [lasso], "box": [box], "points": [{"customdata": 3}]}}
    triangle = Area(1, ((0.0, 0.0), (2.0, 0.0), (2.0, 2.0)))
    rectangle = Area(0, ((1.0, 2.0), (3.0, 2.0), (3.0, 4.0), (1.0, 4.0)))
    assert map_selection.from_chart(drawn) == Selection((triangle, rectangle))
    points = [{"customdata": value} for value in (5, [5], None, [1, "x"])]
    clicked = {"selection": {"points": [*points, {"point_index": 9}]}}
    assert map_selection.from_chart(clicked) == Selection((), (5, 1))
    assert map_selection.from_chart(None) == map_selection.from_chart({"selection": {}}) == Selection()
    assert not map_selection.from_chart({"selection": {"lasso": [{"x": [1, 2], "y": [1]}]}})


def test_a_long_lasso_is_simplified_without_losing_points():
    angle = np.linspace(0, 2 * np.pi, 2000, endpoint=False)
    lasso = {"xref": "x", "x": (8 + 3 * np.cos(angle)).tolist(), "y": (2 + 3 * np.sin(angle)).tolist()}
    drawn = map_selection.from_chart({"selection": {"lasso": [lasso]}})
    assert len(drawn.areas[0].corners) <= map_selection.MOST_CORNERS
    assert map_selection.from_text(map_selection.to_text(drawn)) == drawn
    plane = np.random.default_rng(0).uniform(0, 12, size=(20_000, 2))
    expected = np.hypot(plane[:, 0] - 8, plane[:, 1] - 2) < 3
    assert (map_selection.inside(plane, drawn.areas[0].corners) != expected).mean() < 0.002


def test_areas_on_either_map_select_the_same_samples_on_both():
    first = np.array([[1.0, 1.0], [5.0, 5.0], [9.0, 9.0], [9.0, 1.0]])
    second = first[[2, 0, 1, 3]]  # sample 1 is at (1, 1) on the second map
    areas = Selection((Area(0, SQUARE), Area(1, SQUARE)), (3, 99))
    assert map_selection.points_in(areas, [first, second]).tolist() == [0, 1, 3]
    assert map_selection.points_in(Selection((Area(1, SQUARE),)), [first]).tolist() == []  # one map only


def test_focus_is_a_sample_of_the_split():
    assert map_selection.focus_point("image-3", 10, 50) == 3
    assert map_selection.focus_point("caption-7", 10, 50) == 17
    for text in ("image-10", "caption-50", "caption--1", "image", None, "image-3\n", "image-1.5", "<b>"):
        assert map_selection.focus_point(text, 10, 50) is None
    assert [map_selection.focus_name(p, 10) for p in (3, 17)] == ["image-3", "caption-7"]


def test_samples_are_found_by_number_file_and_words():
    queries = {"image 1": [1], "caption 1": [4], "Caption #1": [4], "1": [1, 4], "99": [], "image 99": []}
    queries |= {"red STAR": [0, 3], "star": [0, 1, 3, 4], "1007.JPG": [2], "star ring": []}
    queries |= {"": [], "  ": [], "(": [], ".*": [], "BLUE": [1, 4], "ß": [2], "SS": [2]}
    names = pa.array(["a/1005.jpg", "1006.jpg", "1007.jpg, strasse"])
    texts = joint_space.SearchedTexts(pa.array(["a red star", "one blue star", "a box"]), names, np.arange(3))
    assert {query: texts.points(query).tolist() for query in queries} == queries


def test_a_lasso_that_the_browser_reports_is_checked():
    corners = [[0.0, 0.0], [2.00004, 0.0], [2, 2.0]]
    triangle = Area(1, ((0.0, 0.0), (2.0, 0.0), (2.0, 2.0)))
    assert map_selection.from_lasso(1, corners, 2) == Selection((triangle,))
    wrong = (
        [],
        [[0, 0]] * 2,
        "corners",
        None,
        [[0, 0], [1, "x"], [2, 2]],
        [[0, 0], [1, float("nan")], [2, 2]],
        [[1]],
    )
    for value in (*wrong, [[0.0, 0.0]] * 30_000):
        assert map_selection.from_lasso(0, value, 2) == Selection(), value
    for number in (2, -1, True, None, "0", 0.0):
        assert map_selection.from_lasso(number, corners, 2) == Selection()


def test_pairs_of_images_and_captions_are_listed_up_to_a_limit():
    owner = np.array([0, 0, 1, 2])
    for points, expected in (([0], [[0, 3], [0, 4]]), ([1, 6], [[1, 5], [2, 6]])):
        pairs, total = map_selection.pairs_of(np.array(points), owner, 3, 10)
        assert (pairs.tolist(), total) == (expected, 2)
    pairs, total = map_selection.pairs_of(np.arange(3), owner, 3, 2)
    assert (len(pairs), total) == (2, 4)
    assert map_selection.pairs_of(np.zeros(0, dtype=int), owner, 3, 2)[1] == 0


def test_outcomes_are_filtered_and_sorted_by_change():
    columns = {"query": [0, 1, 2], "outcome": ["fixed", "broken", "fixed"], "change": [1, -9, 5]}
    changes = pd.DataFrame(columns)
    assert selection.by_outcome(changes, "fixed")["query"].tolist() == [2, 0]
    assert selection.by_outcome(changes, None)["query"].tolist() == [1, 2, 0]


def test_recall_by_tenth_of_spread_by_hand():
    """The two of twenty anchors with the lowest spread miss their match."""
    spread = np.arange(20.0)[::-1]
    tenths = selection.recall_by_tenth(spread, np.where(spread < 2, 50, 0), 10)
    rows = [[tenth, 100.0 * (tenth > 1), 2] for tenth in range(1, 11)]
    assert tenths[["tenth", "recall", "anchors"]].to_numpy().tolist() == rows
    assert selection.recall_by_tenth(np.zeros(0), np.zeros(0), 10).empty


def test_words_match_in_any_order_and_case():
    captions = ["A red ring", "a ring, and a RED star", "blue"]
    for words, expected in (("ring red", [0, 1]), ("  ", [0, 1, 2]), ("zebra", [])):
        assert selection.matching(captions, words).tolist() == expected


def test_stepping_to_neighbours_and_misses_stays_inside_an_order():
    for current, step, expected in ((5, 1, 9), (5, -1, 5), (9, 1, 2), (2, 1, 2), (77, 1, 5)):
        assert selection.neighbour([5, 9, 2], current, step) == expected
    failed = np.isin(np.arange(10), [9, 7, 1])
    for current, step, expected in ((5, 1, 9), (9, 1, 7), (7, 1, 9), (7, -1, 9), (5, -1, 7), (3, 1, 9)):
        assert selection.next_miss([5, 9, 2, 7], failed, current, step) == expected
    assert selection.next_miss([5, 9, 2], failed, 9, 1) == 9  # there is no other
    assert selection.next_miss([], failed, 3, 1) == 3


def test_a_rank_equal_to_the_limit_is_a_miss():
    """Ranks count from 0: the tenth result has rank 9."""
    table = selection.recall_by_tenth(np.arange(20.0), np.array([9, 10] * 10), 10)
    assert table["tenth"].tolist() == [*range(1, 11)]
    assert table["recall"].tolist() == [50.0] * 10
    assert table["anchors"].tolist() == [2] * 10
