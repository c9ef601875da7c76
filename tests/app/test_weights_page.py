"""The Weights page: extremes, statistics, measures and pairs of runs with weights; what is absent in others."""

from __future__ import annotations

import base64
import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest

from coder_core.api import open_run
from coder_core.api.training.sample_weights import CODER, WEIGHT, correlations, weight_table
from tests.support.pages import Opened, labels, table_rows, texts
from tests.support.run_folders import import_run_folder, write_run


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory, weighted_root: Path) -> Path:
    base = tmp_path_factory.mktemp("weights-page") / "runs"
    shutil.copytree(weighted_root, base)
    write_run(base, "plain", images=8)
    import_run_folder(base, "clip", images=8)
    return base


@pytest.mark.parametrize("side", ["Captions", "Images"])
def test_two_runs_stand_side_by_side(root: Path, side: str, opened: Opened) -> None:
    app = opened(root, "weights", run="opposite", versus="combined", side=side)
    assert "combined: combined, the weights of a batch sum to λ = 32, 4 neighbours by TF-IDF" in texts(app)
    assert "opposite: diversity" in texts(app)
    heads = [item.value for item in app.header]
    assert {"Highest weights", "Lowest weights", "Do the measures agree?"} <= set(heads)
    [statistics] = table_rows(app, "μ")
    assert [row["run"] for row in statistics] == ["opposite"] * 3 + ["combined"] * 3
    app.segmented_control(key="weights-of").set_value("opposite").run()
    assert not app.exception


def test_the_extremes_and_the_opened_pair_are_those_of_the_weights(root: Path, opened: Opened) -> None:
    run = open_run(root / "combined")
    weights = run.analysis("dev").array("sample_weight")
    app = opened(root, "weights", run="combined", versus="—")
    for place in (weights.argmax(), weights.argmin()):
        assert f"{weights[place]:.3f}</span>" in texts(app)
        assert f"caption={place}" in texts(app)
    assert app.number_input(key="weighed").value == int(weights.argmax())
    app.segmented_control(key="ranked-weights").set_value("low").run()
    app.number_input(key="weighed").set_value(int(weights.argmin())).run()
    assert f"Caption {int(weights.argmin())} of image" in texts(app)
    app.button(key="weighed-next").click().run()
    assert app.number_input(key="weighed").value == int(weights.argsort(kind="stable")[1])
    app.text_input(key="slice").set_value("image >= 2").run()
    captions = np.flatnonzero(run.image_of_text("dev") >= 2)
    inside = weights[captions]
    cards = [part.proto.body for part in app.get("html") if 'class="cl-card' in part.proto.body]
    shown = [re.findall(r"<span>(\d\.\d{3})</span>", grid) for grid in cards]
    assert [one[0] for one in shown] == [f"{inside.max():.3f}", f"{inside.min():.3f}"]
    assert f"are over the slice: {len(captions)} of {len(weights)} captions." in texts(app)
    bars = json.loads(app.get("plotly_chart")[0].proto.spec)["data"][0]["y"]
    assert np.frombuffer(base64.b64decode(bars["bdata"]), bars["dtype"]).sum() == len(captions)
    expected = correlations(weight_table(run, "dev", "text").iloc[captions])
    agreement, _ = table_rows(app, "CODER’s SD")
    assert agreement[0]["CODER’s SD"] == f"{expected.loc[WEIGHT, CODER]:+.2f}"
    app.text_input(key="slice").set_value("image > 99").run()
    assert "The slice holds no caption." in texts(app)


def test_weights_without_neighbours_show_what_they_have(root: Path, opened: Opened) -> None:
    app = opened(root, "weights", run="hal", versus="unweighted")
    assert "unweighted was trained without sample weights. Only hal is shown." in texts(app)
    assert "hal: hal, the weights of a batch sum to" in texts(app)
    assert "DISCREPANCY" not in texts(app)


@pytest.mark.parametrize(
    ("run", "said"),
    [("plain", "plain was trained without sample weights."), ("clip", "clip holds imported embeddings")],
)
def test_what_is_absent_and_what_to_train(root: Path, run: str, said: str, opened: Opened) -> None:
    app = opened(root, "weights", run=run, versus="—")
    assert said in texts(app)
    assert "Train with --sample-weights diversity" in texts(app)
    assert not app.header
    assert not app.get("plotly_chart")


def test_a_button_leads_to_a_run_that_has_weights(root: Path, opened: Opened) -> None:
    """Beside the first run where both are of the same samples, else alone."""
    app = opened(root, "weights", run="unweighted", versus="—")
    app.button(key="another-run").click().run()
    assert (app.selectbox(key="run").value, app.selectbox(key="versus").value) == ("unweighted", "combined")
    assert "unweighted was trained without sample weights. Only combined is shown." in texts(app)
    app = opened(root, "weights", run="plain", versus="clip")
    assert labels(app, "Show") == ["Show combined"]
    app.button(key="another-run").click().run()
    assert (app.selectbox(key="run").value, app.selectbox(key="versus").value) == ("combined", "—")
    assert app.get("plotly_chart")


def test_unknown_words_of_a_query_are_named_and_without_a_known_one_nothing_is_ranked(
    root: Path, opened: Opened
) -> None:
    app = opened(root, "retrieval", run="combined", versus="—", ask="Free text")
    app.text_input(key="text").set_value("a dog and a unicorn 🐶").run()
    assert texts(app).count('class="cl-card') == 6  # every image of the split
    assert "Words this run does not know: and, unicorn." in texts(app)
    for query in ("unicorns", "雪里的狗 🐶", "🐶", "?!"):
        app.text_input(key="text").set_value(query).run()
        assert "has no word that run combined knows" in texts(app)
        assert 'class="cl-card' not in texts(app)
    app.text_input(key="text").set_value("a dog runs " * 273).run()
    assert "the text query: has 3,002 characters; expected at most 500." in texts(app)
    assert 'class="cl-card' not in texts(app)
    assert not app.exception
