"""The Weights page: extremes, statistics, measures and pairs of runs with weights; what it omits for others."""

import re
import shutil

import numpy as np
import pytest

from app.components.answers import EMPTY_SLICE
from app.components.cards import literal
from coder_core.api import open_run
from coder_core.api.training.sample_weights import CODER, WEIGHT, correlations, weight_table
from tests.support.pages import numbers
from tests.support.run_folders import import_run_folder, write_run
from tests.support.visits import picture


@pytest.fixture(scope="module")
def root(tmp_path_factory, weighted_root):
    base = tmp_path_factory.mktemp("weights-page") / "runs"
    shutil.copytree(weighted_root, base)
    write_run(base, "plain", images=8)
    import_run_folder(base, "clip", images=8)
    return base


def test_weights_of_two_runs_are_shown_side_by_side(root, opened):
    for side in ("Captions", "Images"):
        app = opened(root, "weights", run="opposite", versus="combined", side=side)
        assert app.saying("combined", "λ = 32", 4)
        assert len(app.header) >= 4
        [statistics] = app.rows("μ")
        assert [row["run"] for row in statistics] == ["opposite"] * 3 + ["combined"] * 3
    app.change(weights_of="opposite")
    app = opened(root, "weights", run="unweighted", versus="combined", also=["opposite", "hal"])
    assert app.saying("unweighted", "opposite and hal and combined")
    [statistics] = app.rows("μ")
    assert {row["run"] for row in statistics} == {"opposite", "hal", "combined"}
    app = opened(root, "weights", run="hal", versus="unweighted")
    assert app.figures()
    assert not app.rows("DISCREPANCY")  # its weights need no neighbours


def test_extreme_pairs_follow_the_weights_and_the_slice(root, opened):
    run = open_run(root / "combined")
    weights = run.analysis("dev").array("sample_weight")
    lowest = int(weights.argmin())
    highest = int(weights.argmax())
    app = opened(root, "weights", run="combined", versus="—")
    for caption in (lowest, highest):
        assert f"{weights[caption]:.3f}</span>" in app.texts()
        assert f'data-open="caption-{caption}"' in app.texts()
    assert app.value("weighed") == highest
    assert app.change(ranked_weights="low").change(weighed=lowest).saying(f"Caption {lowest}")
    assert app.click("weighed-next").value("weighed") == weights.argsort(kind="stable")[1]
    app.change(slice="image >= 2")
    captions = np.flatnonzero(run.image_of_text("dev") >= 2)
    inside = weights[captions]
    shown = [re.findall(r"<span>(\d\.\d{3})</span>", grid)[0] for grid in app.cards()]
    assert shown == [f"{inside.max():.3f}", f"{inside.min():.3f}"]
    assert app.saying(len(captions), len(weights))
    assert numbers(app.figures()[0]["data"][0]["y"]).sum() == len(captions)
    expected = correlations(weight_table(run, "dev", "text").iloc[captions])
    *_, agreement = app.rows("CODER’s SD")
    assert agreement[0]["CODER’s SD"] == f"{expected.loc[WEIGHT, CODER]:+.2f}"
    assert app.change(slice="image > 99").answer() == EMPTY_SLICE
    assert not app.figures()


def test_a_hostile_run_name_stays_selected_in_a_copied_link(root, tmp_path, opened):
    names = [picture(9, kind) for kind in ("combined", "opposite")]
    for name, kind in zip(names, ("combined", "opposite"), strict=True):
        shutil.copytree(root / kind, tmp_path / name)
    link = {"run": names[0], "versus": names[1], "weights-of": literal(names[0])}
    assert opened(tmp_path, "weights", **link).value("weights-of") == names[0]


def test_a_run_without_weights_is_named_and_another_offered(root, opened):
    """Beside the first run if both have the same samples, else alone."""
    app = opened(root, "weights", run="clip", versus="—")
    assert app.saying("clip", "--sample-weights diversity")
    assert not app.header
    assert not app.get("plotly_chart")
    app = opened(root, "weights", run="unweighted", versus="—").click("another-run")
    assert app.value("run") == ["unweighted", "combined"]
    assert app.saying("unweighted", "Only combined")
    app = opened(root, "weights", run="plain", versus="clip")
    assert app.labels("Show") == ["Show combined"]
    app.click("another-run")
    assert app.value("run") == ["combined"]
    assert app.get("plotly_chart")


def test_unknown_words_of_a_query_are_named(root, opened):
    app = opened(root, "retrieval", run="combined", versus="—", ask="Free text")
    app.change(text="a dog and a unicorn 🐶")
    assert app.texts().count('class="cl-card') == 6  # every image of the split
    assert app.saying("and, unicorn")
    for query in ("unicorns", "雪里的狗 🐶", "🐶", "?!", "a dog runs " * 273):
        cause = "combined" if len(query) < 3_000 else "3,002"
        assert any(cause in refusal for refusal in app.change(text=query).refusals())
        assert not app.cards()
