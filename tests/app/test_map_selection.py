"""Areas on a map → samples, and back into a URL."""

import numpy as np
import pandas as pd
import pytest

from app.components import map_selection
from app.components.map_selection import Area, Selection

SQUARE = ((0.0, 0.0), (2.0, 0.0), (2.0, 2.0), (0.0, 2.0))


def test_points_inside_a_square_by_hand() -> None:
    plane = np.array([[1, 1], [3, 1], [-1, 1], [1, 3], [1.999, 0.001]])
    assert map_selection.inside(plane, SQUARE).tolist() == [True, False, False, False, True]


def test_an_hourglass_and_a_hollow_shape_follow_the_even_odd_rule() -> None:
    bow = ((0.0, 0.0), (2.0, 2.0), (2.0, 0.0), (0.0, 2.0))
    plane = np.array([[0.2, 1.0], [1.8, 1.0], [1.0, 1.8], [1.0, 0.2]])
    assert map_selection.inside(plane, bow).tolist() == [True, True, False, False]
    hollow = ((0.0, 0.0), (6.0, 0.0), (6.0, 6.0), (3.0, 2.0), (0.0, 6.0))
    assert map_selection.inside(np.array([[3.0, 1.0], [3.0, 4.0], [1.0, 3.0]]), hollow).tolist() == [
        True,
        False,
        True,
    ]


def test_inside_agrees_with_winding_angles_on_random_stars() -> None:
    rng = np.random.default_rng(0)
    plane = rng.normal(size=(500, 2))
    for corners in (7, 60):
        angle = np.linspace(0, 2 * np.pi, corners, endpoint=False)
        star = np.c_[np.cos(angle), np.sin(angle)] * rng.uniform(0.3, 2, size=(corners, 1))
        turned = np.diff(np.arctan2(*(star[None] - plane[:, None]).transpose(2, 0, 1)), axis=1, append=np.nan)
        last = np.arctan2(*(star[0] - plane).T) - np.arctan2(*(star[-1] - plane).T)
        turned[:, -1] = last
        winding = np.abs(((turned + np.pi) % (2 * np.pi) - np.pi).sum(1)) > np.pi
        np.testing.assert_array_equal(map_selection.inside(plane, [tuple(c) for c in star.tolist()]), winding)


def test_a_choice_survives_the_url() -> None:
    chosen = Selection((Area(0, SQUARE), Area(1, ((0.125, -3.5), (10.0, 4.0), (5.0, 6.0)))), (7, 12))
    text = map_selection.to_text(chosen)
    assert text == "a:0,0,2,0,2,2,0,2!b:0.125,-3.5,10,4,5,6!p:7,12"
    assert map_selection.from_text(text) == chosen
    assert map_selection.from_text("") == map_selection.from_text(None) == Selection()
    assert not Selection()


@pytest.mark.parametrize(
    "text",
    [
        "a:1,2,3",
        "c:1,2,3,4,5,6",
        "a:1,2,3,4,5,nan",
        "a:1e5,2,3,4,5,6",
        "p:",
        "p:-1",
        "p:1.5",
        "../../etc",
        "<script>",
        "a:1,2,3,4,5,6,7",
        "9" * 5000,
        "a:inf,2,3,4,5,6",
    ],
)
def test_nonsense_in_the_url_chooses_nothing(text: str) -> None:
    assert map_selection.from_text(text) == Selection()


def test_a_lasso_a_box_and_clicks_as_a_chart_reports_them() -> None:
    lasso = {"xref": "x2", "yref": "y2", "x": [0.0, 2.00004, 2.0], "y": [0.0, 0.0, 2.0]}
    box = {"xref": "x", "yref": "y", "x": [3.0, 1.0], "y": [4.0, 2.0]}
    found = map_selection.from_chart(
        {"selection": {"lasso": [lasso], "box": [box], "points": [{"customdata": 3}]}}
    )
    assert found == Selection(
        (
            Area(1, ((0.0, 0.0), (2.0, 0.0), (2.0, 2.0))),
            Area(0, ((1.0, 2.0), (3.0, 2.0), (3.0, 4.0), (1.0, 4.0))),
        )
    )
    clicked = {"selection": {"points": [{"customdata": 5}, {"customdata": [5]}, {"customdata": None}, {}]}}
    assert map_selection.from_chart(clicked) == Selection((), (5,))
    assert map_selection.from_chart(None) == map_selection.from_chart({"selection": {}}) == Selection()
    assert not map_selection.from_chart({"selection": {"lasso": [{"x": [1, 2], "y": [1]}]}})


def test_a_long_lasso_is_thinned_and_still_holds_what_it_held() -> None:
    angle = np.linspace(0, 2 * np.pi, 2000, endpoint=False)
    lasso = {"xref": "x", "x": (8 + 3 * np.cos(angle)).tolist(), "y": (2 + 3 * np.sin(angle)).tolist()}
    found = map_selection.from_chart({"selection": {"lasso": [lasso]}})
    assert len(found.areas[0].corners) <= map_selection.MOST_CORNERS
    assert map_selection.from_text(map_selection.to_text(found)) == found
    plane = np.random.default_rng(0).uniform(0, 12, size=(20_000, 2))
    expected = np.hypot(plane[:, 0] - 8, plane[:, 1] - 2) < 3
    assert (map_selection.inside(plane, found.areas[0].corners) != expected).mean() < 0.002


def test_areas_on_either_map_choose_the_same_samples_on_both() -> None:
    first = np.array([[1.0, 1.0], [5.0, 5.0], [9.0, 9.0], [9.0, 1.0]])
    second = first[[2, 0, 1, 3]]  # sample 1 lies at (1, 1) on the second map
    chosen = Selection((Area(0, SQUARE), Area(1, SQUARE)), (3, 99))
    assert map_selection.points_in(chosen, [first, second]).tolist() == [0, 1, 3]
    assert map_selection.points_in(Selection((Area(1, SQUARE),)), [first]).tolist() == []  # one map only


def test_focus_is_a_sample_of_the_split() -> None:
    assert map_selection.focus_point("image-3", 10, 50) == 3
    assert map_selection.focus_point("caption-7", 10, 50) == 17
    for text in ("image-10", "caption-50", "caption--1", "image", None, "image-3\n", "x"):
        assert map_selection.focus_point(text, 10, 50) is None
    assert [map_selection.focus_name(p, 10) for p in (3, 17)] == ["image-3", "caption-7"]


@pytest.mark.parametrize(
    ("query", "rows"),
    [
        ("", []),
        ("  ", []),
        ("image 1", [1]),
        ("caption 1", [4]),
        ("Caption #1", [4]),
        ("1", [1, 4]),
        ("99", []),
        ("red STAR", [0, 3]),
        ("star", [0, 1, 3, 4]),
        ("1007.JPG", [2]),
        ("star ring", []),
        ("(", []),
        (".*", []),
    ],
)
def test_a_search_by_number_file_and_words(query: str, rows: list[int]) -> None:
    modality, number, image = ["image"] * 3 + ["caption"] * 3, [0, 1, 2, 0, 1, 2], [0, 1, 2, 0, 1, 2]
    text = ["a red star", "", "a box", "a red star", "one blue star", "a box"]
    table = pd.DataFrame({"modality": modality, "number": number, "image": image, "text": text})
    names = ["a/1005.jpg", "1006.jpg", "1007.jpg"]
    assert map_selection.matching_points(table, names, query).tolist() == rows


def test_pairs_of_an_image_and_of_a_caption() -> None:
    owner = np.array([0, 0, 1, 2])
    pairs, total = map_selection.pairs_of(np.array([0]), owner, 3, 10)
    assert pairs.tolist() == [[0, 3], [0, 4]]
    assert total == 2
    pairs, total = map_selection.pairs_of(np.array([1, 6]), owner, 3, 10)
    assert pairs.tolist() == [[1, 5], [2, 6]]
    pairs, total = map_selection.pairs_of(np.arange(3), owner, 3, 2)
    assert (len(pairs), total) == (2, 4)
    assert map_selection.pairs_of(np.zeros(0, dtype=int), owner, 3, 2)[1] == 0
