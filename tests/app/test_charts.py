"""Figures hold the numbers they are given, and text from outside stays text."""

import numpy as np
import pandas as pd
import plotly.graph_objects as go
import pytest

from app import charts

EVIL = '<a href="http://127.0.0.1:9/x">%{x}<b>$\\alpha$'
COLOURS = charts.tone("light")


def every_text(figure: go.Figure) -> str:
    return str(figure.to_plotly_json())


def figures(name: str) -> dict[str, go.Figure]:
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
def test_names_cannot_become_markup(kind: str) -> None:
    text = every_text(figures(EVIL)[kind])
    assert "<a" not in text
    assert "%{x}<" not in text
    assert "127.0.0.1:9" in text


def test_rank_matrix_by_hand() -> None:
    """One query from rank 1 to 3, two from 200 to 40, one stays at 1."""
    changes = pd.DataFrame({"rank_a": [1, 200, 150, 1], "rank_b": [3, 40, 11, 1]})
    counts = charts.rank_matrix(changes, "a", "b", COLOURS).data[0].customdata
    expected = np.zeros((6, 6), dtype=int)
    expected[0, 1], expected[5, 3], expected[0, 0] = 1, 2, 1
    np.testing.assert_array_equal(counts, expected)


@pytest.mark.parametrize(
    ("rank", "band"), [(1, 0), (2, 1), (5, 1), (6, 2), (10, 2), (11, 3), (100, 4), (101, 5)]
)
def test_bands_of_ranks(rank: int, band: int) -> None:
    assert charts.rank_band(np.array([rank]))[0] == band


def test_histogram_counts_every_value_once() -> None:
    values = {"a": np.random.default_rng(0).normal(size=500), "b": np.zeros(7)}
    figure = charts.histogram(values, "x", "images", COLOURS)
    assert [int(sum(bar.y)) for bar in figure.data] == [500, 7]
    equal = charts.histogram({"a": np.ones(4)}, "x", "images", COLOURS)
    assert sum(equal.data[0].y) == 4
    assert not charts.histogram({}, "x", "images", COLOURS).data


def test_one_run_is_blue_and_two_are_vermilion_and_blue() -> None:
    assert charts.run_colour(0, 1, COLOURS) == charts.run_colour(1, 2, COLOURS) == "#0072B2"
    assert charts.run_colour(0, 2, COLOURS) == "#D55E00"
    assert charts.tone("dark") is charts.DARK
    assert charts.tone(None) is charts.LIGHT


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_colours_can_be_read_on_their_ground(theme: str) -> None:
    """WCAG contrast: 4.5 for text, 3 for marks."""

    def luminance(colour: str) -> float:
        parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts)
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    def contrast(one: str, two: str) -> float:
        high, low = sorted((luminance(one), luminance(two)), reverse=True)
        return (high + 0.05) / (low + 0.05)

    colours = charts.tone(theme)
    for text in (colours.ink, colours.good, colours.bad, colours.faint):
        assert contrast(text, colours.paper) >= 4.5, text
    for mark in colours.runs[:3]:
        assert contrast(mark, colours.paper) >= 3, mark


def test_density_counts_every_anchor_once_and_skips_missing_values() -> None:
    x, y = np.array([0.0, 0.0, 1.0, np.nan]), np.array([0.0, 0.0, 1.0, 1.0])
    counts = charts.density(x, y, "x", "y", "captions", COLOURS, diagonal=True).data[0].customdata
    assert counts.sum() == 3
    assert counts[0, 0] == 2
    assert counts[-1, -1] == 1
    assert not charts.density(np.zeros(0), np.zeros(0), "x", "y", "captions", COLOURS).data


def test_bands_of_occurrences() -> None:
    bars = charts.occurrence_bands({"a": np.array([0, 0, 1, 5, 6, 100, 101])}, 10, COLOURS).data[0]
    assert dict(zip(bars.x, bars.y, strict=True)) == {
        "none": 2,
        "1–5": 2,
        "6–10": 1,
        "11–20": 0,
        "21–50": 0,
        "51–100": 1,
        "> 100": 1,
    }


def test_hover_texts_are_what_the_mouse_reads() -> None:
    recall = charts.recall_bars({"a": {"i2t_r1": 12.34}, "b <x>": {"i2t_r1": 50}}, charts.LIGHT)
    rows = charts.hover_texts(recall)
    assert rows.iloc[0].tolist() == ["a", "image → text, R@1: 12.3 %"]
    assert rows.iloc[6].tolist() == ["b <x>", "image → text, R@1: 50.0 %"]
    nan = np.array([[0.25, np.nan], [0.5, 1.0]])
    scale = charts.HeatScale(0, 1)
    cells = charts.heat_map(
        nan, ["r0", "r1"], ["c0", "c1"], scale, charts.LIGHT, unit="S", row_name="rows", column_name="columns"
    )
    assert charts.hover_texts(cells)["value"].tolist() == [
        "r0 · c0, S = 0.2500",
        "r1 · c0, S = 0.5000",
        "r1 · c1, S = 1.0000",
    ]
    words = pd.DataFrame({"word": ["dog"], "score": [2.0], "count": [7]})
    assert charts.hover_texts(charts.word_bars(words, charts.LIGHT))["value"].tolist() == [
        "dog: z 2.0, 7 times here"
    ]
    many = charts.histogram({"run": np.arange(9.0)}, "x", "pairs", charts.LIGHT)
    assert len(charts.hover_texts(many, most=3)) == 3
