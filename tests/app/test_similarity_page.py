"""The Similarity page: every control, one run and two, an imported one, blocks, a click, meaningless values."""

import itertools
import math

import numpy as np
import pytest

from app import charts
from app.ask import LossSettings
from app.charts.matrices import colour_stops
from app.components import events
from app.views.similarity import steps
from coder_core.api import open_run
from coder_core.api.similarity import Pair, values_from_similarities
from tests.support.run_folders import import_clip, write_run

COLOURS = charts.tone("light")
BLUE = COLOURS.runs[1]
VERMILION = COLOURS.runs[0]
GREY = COLOURS.ramp[0]
PAIR = {"similarity": 0.5, "own": False, "negatives": 63, "spread": 0.2, "raw": 1.6065, "largest": 1.8}
PAIR |= {"diversity": 0.8925, "effective": 0.08925, "plain": 2.0, "exponent": 2.2409, "total_plain": 12.0}
PAIR |= {"total": 15.0, "share_plain": 0.6158, "share": 0.6268, "positive": 0.7, "loss_plain": -0.282}
PAIR |= {"loss_value": -0.26, "loss": LossSettings()}


@pytest.mark.parametrize(("root", "counts"), [("one", [2, 1, 1]), ("imported", [4, 2, 2, 1])])
def test_every_matrix_of_every_run(roots, root, counts, opened):
    app = opened(roots[root], "similarity")
    kinds = ("scaled", "change", "share", "between")[: len(counts)]
    assert [len(app.change(matrices=kind).figures()) for kind in kinds] == counts
    assert app.saying(64, 100, "seed 0")
    assert [button.label for button in app.get("download_button")][:2] == ["CSV", "Parquet"]


def test_every_batch_and_order(roots, opened):
    app = opened(roots["two"], "similarity")
    assert [app.value(key) for key in ("scaling-mu", "scaling-gamma", "scaling-epsilon")] == [0.1, 0.3, 0.1]
    assert app.saying("Shown with μ = 0.1, γ = 0.3, ε = 0.1, those of demo.", "demo-baseline", "eq. 4")
    assert any(row["formula"].startswith("0.02 × ") for row in app.change(scaling_mu=0.02).rows("formula")[0])
    sources = ("seed", "hardest", "split", "chosen")
    orders = ("diversity", "cluster", "drawn")
    for number, (source, order) in enumerate(itertools.product(sources, orders)):
        app.change(scaling_anchors=("text", "image")[number % 2], batch_of=source, order=order)
        if source == "chosen" and order == orders[0]:
            assert app.refusals()
            app.change(chosen="3, 10-30")
        assert source != "chosen" or app.saying(22, 22)
        assert len(app.figures()) == 4


def test_more_than_256_pairs_are_shown_as_blocks(tmp_path, opened):
    write_run(tmp_path, "demo", images=70, pictures=False)
    app = opened(tmp_path, "similarity", pairs="300")
    assert app.saying("2 × 2 pairs")
    assert app.change(batch_of="split").saying("2 × 1 pairs")
    assert app.saying("70 images", "350 captions")


def test_the_linked_pair_is_opened_and_one_outside_the_batch_noted(roots, opened):
    query = {"batch-of": "Selection", "chosen": "0-9", "pair-image": "1", "pair-caption": "2"}
    app = opened(roots["one"], "similarity", **query)
    assert app.saying("Image 1", "caption 2", "image 0")
    assert not app.saying("not in this batch")
    assert app.change(pair_image=15).saying("not in this batch")


def test_clicks_outside_the_cells_are_ignored():
    assert events.clicked_cell({"row": 2, "column": 3}, (4, 5)) == (2, 3)
    cells = [{"row": row, "column": 0} for row in (4, -1, "1", True, 1.5)]
    for value in (*cells, {"row": 1}, [1, 2], None, "x"):
        assert events.clicked_cell(value, (4, 5)) is None, value


def test_every_number_of_the_formula_is_filled_in():
    text = "\n".join(" | ".join(step) for step in steps(Pair(**PAIR), "std"))
    for part in (
        "S | cosine of the two embeddings | 0.5000",
        "γ | margin | 0.3",
        "1 / sigmoid(ε / SD) = 1 + exp(−0.1 / 0.2000) | 1.6065",
        "undivided over the largest of all anchors here = 1.6065 / 1.8000 | 0.8925",
        "μ·div | 0.1 × 0.8925 | 0.0892",
        "(S − γ) / μ = (0.5000 − 0.3) / 0.1 | 2.000",
        "(S − γ) / (μ·div) = (0.5000 − 0.3) / 0.0892 | 2.241",
        "exp(2.241) / 15.000 | 62.68 %",
        "0.1 × log(15.000) − log(1 + 0.7000) | -0.2600",
    ):
        assert part in text, part
    assert "H" in [symbol for symbol, *_ in steps(Pair(**PAIR), "entropy")]


def test_steps_omit_what_matching_or_partnerless_pairs_lack():
    matching = {"own": True, **dict.fromkeys(("plain", "exponent"), math.nan)}
    alone = dict.fromkeys(("positive", "loss_plain", "loss_value"), math.nan)
    values = {symbol: value for symbol, _, value in steps(Pair(**PAIR | matching), "std")}
    assert values["x, p"] == "–"
    assert "p" not in values
    rows = steps(Pair(**PAIR | alone), "std") + steps(Pair(**PAIR | matching | alone), "std")
    assert "loss" not in [symbol for symbol, *_ in rows]
    assert "nan" not in str(rows)


def test_the_colour_range_ends_at_the_values_and_ignores_outliers():
    values = np.linspace(-0.4, 0.1, 20_000).reshape(100, 200)
    values[0, 0] = 1_000.0
    missing = np.full((2, 2), np.nan)
    for arrays, gamma, limits in (
        ([values, missing], 0.3, (-0.4, 0.1)),
        ([np.array([[0.2, 0.5]])], None, (0, 0.5)),
        ([missing], None, (0, 1)),
    ):
        scale = charts.heat_scale(arrays, gamma)
        assert (scale.low, scale.high) == pytest.approx(limits, abs=0.01)
    flat = charts.heat_scale([np.full((2, 2), 0.3)])
    assert flat.high > flat.low


@pytest.mark.parametrize(
    ("centre", "positions", "colours"),
    [
        (0.3, [0, 1, 1], [BLUE, GREY, GREY]),  # all below: every shade of blue
        (-0.9, [0, 0, 1], [GREY, GREY, VERMILION]),  # all above: every shade of vermilion
        (-0.15, [0, 0.5, 1], [BLUE, GREY, VERMILION]),
        (0.0, [0, 0.8, 1], [BLUE, GREY, "#ECD0BB"]),  # weaker closer to the centre
    ],
)
def test_colours_show_the_side_of_gamma(centre, positions, colours):
    made = colour_stops(charts.HeatScale(-0.4, 0.1, centre), COLOURS)
    assert [colour for _, colour in made] == colours
    assert [position for position, _ in made] == pytest.approx(positions)


@pytest.mark.parametrize(("gamma", "mark"), [(0.0, "γ 0"), (0.3, "γ 0.3 →"), (-0.5, "← γ -0.5")])
def test_the_colour_bar_marks_gamma(gamma, mark):
    values = np.linspace(-0.4, 0.1, 400).reshape(20, 20)
    names = [""] * 20
    scale = charts.heat_scale([values], gamma, "γ")
    figure = charts.heat_map(values, names, names, scale, COLOURS, unit="S", row_name="", column_name="")
    bar = figure.data[0].colorbar
    marked = dict(zip(bar.ticktext, bar.tickvals, strict=True))
    assert marked[f"<b>{mark}</b>"] == pytest.approx(min(max(gamma, -0.4), 0.1), abs=0.01)
    assert len(marked) >= 4


def test_imported_embeddings_start_from_their_own_similarities(tmp_path, opened):
    root = tmp_path / "runs"
    import_clip(root, "clip", images=20)
    write_run(root, "trained", images=20)
    loss = values_from_similarities(open_run(root / "clip"), "dev").loss
    fitted = (loss.temperature, loss.gamma)
    paper = (0.1, 0.3)
    app = opened(root, "similarity", run="clip", versus="—")
    for name, expected in (("", fitted), ("paper", paper), ("clip", fitted)):
        if name:
            next(button for button in app.button if name in button.label).click()
        assert (app.again().value("scaling-mu"), app.value("scaling-gamma")) == expected
    pages = {"scaling-": app, "": opened(root, "diversity", run="clip", versus="—")}
    for prefix, page in pages.items():
        assert (page.value(f"{prefix}mu"), page.value(f"{prefix}gamma")) == fitted
        assert page.saying(f"γ = {loss.gamma:g}", "99th")
    app.change(run=["trained"])  # untouched sliders take the next run's values
    assert (app.value("scaling-mu"), app.value("scaling-gamma")) == paper


def test_a_heat_map_labels_its_cells_and_escapes_text():
    evil = "<a href='http://127.0.0.1:9/x'>%{x}"
    values = np.arange(6.0).reshape(2, 3)
    rows = [evil, "b"]
    columns = ["c", "d", "e"]
    names = {"unit": evil, "row_name": "anchors", "column_name": "images"}
    scale = charts.HeatScale(0, 5, 2, evil)
    figure = charts.heat_map(values, rows, columns, scale, COLOURS, **names, marked=(1, 2))
    assert "<a" not in str(figure.to_plotly_json())
    assert list(figure.layout.xaxis.ticktext) == columns
    assert figure.layout.shapes[0].x0 == 1.5
    assert list(figure.layout.yaxis.range) == [1.5, -0.5]  # the first row on top
