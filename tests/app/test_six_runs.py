"""Pages with up to six runs, and their numbers for a slice."""

import html
import re
from urllib.parse import parse_qs, urlsplit

import numpy as np
import pandas as pd
import pytest

from app.choice import named_runs
from app.components.answers import EMPTY_SLICE
from app.components.words import gain_cell
from coder_core.api import open_run
from coder_core.api.retrieval import gains
from coder_core.api.saved_views import saved_views
from coder_core.api.slices import slice_metrics
from coder_core.evaluation.metrics import label_metrics
from tests.support.run_folders import write_run

NAMES = ["base", "b", "c", "d", "e", "last"]


@pytest.fixture(scope="module")
def six(tmp_path_factory):
    root = tmp_path_factory.mktemp("six") / "runs"
    for seed, name in enumerate(NAMES):
        write_run(root, name, images=16, noise=2.6 - 0.1 * seed, seed=seed, pictures=False)
    return root


@pytest.fixture(scope="module")
def ranks(six):
    """Rank of every caption's image in every run, from 1."""
    return pd.DataFrame({name: open_run(six / name).ranks("dev")["t2i"] + 1 for name in NAMES})


def names_of_traces(figure):
    return [trace["name"] for trace in figure["data"] if "name" in trace]


def links_of(app):
    """Return the parameters of every link on the page."""
    addresses = [html.unescape(address) for address in re.findall(r'href="([^"]*)"', app.texts())]
    return [parse_qs(urlsplit(address).query) for address in addresses]


def test_an_address_names_at_most_six_runs():
    """The first six of `run`, each once; older addresses name the last run in `versus`, those between in `also`."""

    def named(usual=(), **query):
        return named_runs(lambda key: query.get(key, []), usual)

    seven = [*NAMES, "seventh"]
    assert named(run=seven) == NAMES
    assert named(run=["base", "base", "b", "—", ""]) == ["base", "b"]
    assert named(run=["base"], versus=["last"], also=["b", "c"]) == ["base", "b", "c", "last"]
    assert named(run=["base"], curves=["b"]) == ["base", "b"]
    assert named(["base", "b"], versus=["last"]) == ["base", "last"]
    assert named(["base", "b"], also=["c"]) == ["base", "c", "b"]
    assert named(["base", "b"]) == []


def test_six_runs_are_side_by_side_and_in_links(six, ranks, opened):
    app = opened(six, "retrieval", run=NAMES)
    right = ranks <= 1
    assert app.saying("by all", int(right.all(axis=1).sum()))
    assert app.saying("by none", int((~right.any(axis=1)).sum()))
    [alone] = app.rows("hit by this run alone")
    single = right.sum(axis=1) == 1
    assert [int(row["hit by this run alone"]) for row in alone] == [
        int((right[n] & single).sum()) for n in NAMES
    ]
    for name, row in zip(NAMES[1:], alone[1:], strict=True):
        gain = gains(open_run(six / "base"), open_run(six / name), "dev")["t2i_r1"]
        assert row["text → image R@1"] == gain_cell(gain.mean, gain.low, gain.high)
        assert row["text → image R@1"].endswith(" may be noise") is not gain.beyond_noise
    [rows] = app.rows("rank in base")
    order = np.argsort(-(ranks.max(axis=1) - ranks.min(axis=1)).to_numpy(), kind="stable")[: len(rows)]
    shown = [[int(row[f"rank in {name}"]) for name in NAMES] for row in rows]
    assert shown == ranks.iloc[order].to_numpy().tolist()
    assert names_of_traces(app.figures()[0]) == NAMES
    label = r'class="cl-run" title="([^"]*)"><span[^>]*></span>[^<]*</span>'
    columns = re.findall(label + r'<span class="cl-beside">match at rank ([^< ]*)', app.texts())
    assert columns == [(name, str(ranks[name][app.value("query-text")])) for name in NAMES]
    assert {tuple(link["run"]) for link in links_of(app)} == {tuple(NAMES)}
    app.change(answered_by="by all but base")
    [rows] = app.rows("rank in base")
    expected = ranks["b"][~right["base"] & (right.sum(axis=1) == 5)]
    assert sorted(int(row["rank in b"]) for row in rows) == sorted(expected)
    [table] = app.change(look="near").tables()
    assert [c["label"] for c in table["columns"]][-5:] == [f"margin in {name}" for name in NAMES[:-1]]
    app.change(look="hubs")
    assert [row["run"] for row in app.rows("skewness")[0]] == NAMES


def test_diversity_page_shows_six_runs(six, opened):
    app = opened(six, "diversity", run=NAMES)
    assert [names_of_traces(figure) for figure in app.figures()].count(NAMES) == 2  # histogram and recall
    [table, _] = app.tables()
    assert {f"diversity in {name}" for name in NAMES} <= {column["label"] for column in table["columns"]}
    traces = [name for figure in app.figures() for name in names_of_traces(figure)]
    negatives = [name for name in traces if name.startswith("negatives · ")]
    assert negatives == [f"negatives · {name}" for name in NAMES]
    weights = app.change(anchor_figure="weights").figures()
    traces = [name for figure in weights for name in names_of_traces(figure)]
    assert traces.count("with diversity") == len(NAMES)
    [rows] = app.rows("μ·div")
    anchors = [open_run(six / name).anchor(app.value("caption"), split="dev") for name in NAMES]
    expected = [(name, f"{anchor.diversity:.4f}") for name, anchor in zip(NAMES, anchors, strict=True)]
    assert [(row["run"], row["diversity"]) for row in rows] == expected


def test_a_page_about_two_runs_keeps_the_others_in_links(six, opened):
    app = opened(six, "similarity", run=NAMES)
    assert app.saying(6, "base and last")
    assert all(link["run"] == NAMES for link in links_of(app) if "run" in link)
    assert app.query_params["run"] == NAMES
    app.widget("view-name").set_value("all six")
    app.click("save-view")
    assert parse_qs(urlsplit(saved_views(six)["all six"]).query)["run"] == NAMES
    app = opened(six, "overview", run="base", versus="last", also=["b", "gone", "last", "b"])
    assert app.value("run") == ["base", "b", "gone", "last"]
    assert app.saying("gone", "Only base, b and last")
    assert [row["run"] for row in app.rows("hits")[0]] == ["base", "b", "last"]
    assert app.change(answers_of="image").saying("16 queries")


def test_the_overview_follows_the_slice(six, ranks, opened):
    """Slices of 32 captions and all 16 images, of one image's captions, and of none."""
    run = open_run(six / "last")
    base = open_run(six / "base")
    app = opened(six, "overview", run="base", versus="last", slice='"0" in words or "1" in words')
    words = [set(caption.replace(",", " ").split()) for caption in run.captions("dev")]
    inside = np.flatnonzero([bool(present & {"0", "1"}) for present in words])
    assert app.saying(len(inside), 16)
    right = ranks.iloc[inside][["base", "last"]] <= 1
    expected = 100 * right.mean()
    stored = run.metrics["dev"]
    assert not np.isclose(expected["last"], stored["t2i_r1"])
    assert app.saying("R@1", f"{expected['last']:.1f}")
    for recall in ("rsum", "i2t_r1", "t2i_r1"):
        gain = gains(base, run, "dev", inside)[recall]
        assert f"{gain.low:+.1f}, {gain.high:+.1f}" in app.texts()
    assert [trace["text"][3] for trace in app.figures()[1]["data"]] == [f"{value:.1f}" for value in expected]
    assert not app.rows("hits")  # two runs have fixed and broken queries instead
    [listed, _] = app.rows("now")
    assert len(listed) == min(8, int((right["last"] & ~right["base"]).sum()))
    [table] = app.rows("loss")
    [recall] = [row["t→i R@1"] for row in table if row["run"] == "last"]
    assert recall == f"{stored['t2i_r1']:.1f}"  # of the whole split
    assert app.change(slice="image == 3").saying(5, 1)
    assert app.change(slice="length > 1000").answer() == EMPTY_SLICE
    whole = slice_metrics(run, "dev", np.arange(80))
    stored |= label_metrics(run.analysis("dev"), run.image_of_text("dev"))
    assert whole == {name: stored[name] for name in whole}
    assert {"rsum", "i2t_medr", "t2i_meanr"} <= set(whole)
