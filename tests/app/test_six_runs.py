"""Pages with up to six runs, and what they say about a slice."""

from __future__ import annotations

import base64
import json
import re
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import numpy as np
import pandas as pd
import pytest

from app.components.words import gain_cell
from coder_core.api import open_run
from coder_core.api.retrieval import gain_in_words, gains
from coder_core.api.slices import slice_metrics
from tests.support.pages import Opened, shown_tables, table_rows, texts
from tests.support.run_folders import write_run

NAMES = ("base", "b", "c", "d", "e", "last")
LINK = {"run": "base", "versus": "last", "also": ["b", "c", "d", "e"]}


@pytest.fixture(scope="module")
def six(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("six") / "runs"
    for seed, name in enumerate(NAMES):
        write_run(root, name, images=16, noise=2.6 - 0.1 * seed, seed=seed, pictures=False)
    return root


@pytest.fixture(scope="module")
def ranks(six: Path) -> pd.DataFrame:
    """Rank of every caption's image in every run, from 1."""
    return pd.DataFrame({name: open_run(six / name).ranks("dev")["t2i"] + 1 for name in NAMES})


def names_of_traces(spec: str) -> list[str]:
    return [trace["name"] for trace in json.loads(spec)["data"] if "name" in trace]


def test_six_runs_are_shown_side_by_side_and_links_carry_them(
    six: Path, ranks: pd.DataFrame, opened: Opened
) -> None:
    app = opened(six, "retrieval", **LINK)
    said = texts(app)
    assert app.title[0].value == "Which of these 6 runs retrieves best?"
    right = ranks <= 1
    for label, queries in (("by all", right.all(axis=1)), ("by none", ~right.any(axis=1))):
        assert f"answered {label}: {int(queries.sum())} " in said
    [alone] = table_rows(app, "answers alone")
    single = right.sum(axis=1) == 1
    assert [int(row["answers alone"]) for row in alone] == [
        int((right[name] & single).sum()) for name in NAMES
    ]
    for name, row in zip(NAMES[1:], alone[1:], strict=True):
        gain = gains(open_run(six / "base"), open_run(six / name), "dev")["t2i_r1"]
        assert row["text → image R@1"] == gain_cell(gain.mean, gain.low, gain.high)
        assert row["text → image R@1"].endswith(" may be noise") is not gain.beyond_noise
    [rows] = table_rows(app, "rank in base")
    spread = (ranks.max(axis=1) - ranks.min(axis=1)).to_numpy()
    order = np.argsort(-spread, kind="stable")[: len(rows)]
    shown = [[int(row[f"rank in {name}"]) for name in NAMES] for row in rows]
    assert shown == ranks.iloc[order].to_numpy().tolist()
    assert names_of_traces(app.get("plotly_chart")[0].proto.spec) == list(NAMES)
    columns = re.findall(r'class="cl-cut" title="([^"]*)">[^<]*</div>match at rank ([^<]*)<', said)
    query = int(app.number_input(key="query-text").value)
    assert columns == [(name, str(ranks[name][query])) for name in NAMES]
    linked = [
        parse_qs(urlsplit(link.replace("&amp;", "&")).query) for link in re.findall(r'href="([^"]*)"', said)
    ]
    assert linked
    assert all(link["also"] == ["b", "c", "d", "e"] and link["versus"] == ["last"] for link in linked)
    app.selectbox(key="answered-by").set_value("by all but base").run()
    [rows] = table_rows(app, "rank in base")
    assert sorted(int(row["rank in b"]) for row in rows) == sorted(
        ranks["b"][~right["base"] & (right.sum(axis=1) == 5)]
    )
    app.segmented_control(key="look").set_value("near").run()
    [table] = shown_tables(app)
    assert [c["label"] for c in table["columns"]][-5:] == [f"margin in {name}" for name in NAMES[:-1]]
    app.segmented_control(key="look").set_value("hubs").run()
    assert [row["run"] for row in table_rows(app, "skewness")[0]] == list(NAMES)
    assert not app.exception


def test_diversity_of_six_runs_and_pages_about_two(six: Path, opened: Opened) -> None:
    app = opened(six, "diversity", **LINK)
    assert names_of_traces(app.get("plotly_chart")[0].proto.spec) == list(NAMES)
    [table, _] = shown_tables(app)
    assert {f"diversity in {name}" for name in NAMES} <= {column["label"] for column in table["columns"]}
    anchor = [names for chart in app.get("plotly_chart") for names in names_of_traces(chart.proto.spec)]
    assert [name for name in anchor if name.startswith("negatives · ")] == [
        f"negatives · {name}" for name in NAMES
    ]
    assert anchor.count("with diversity") == len(NAMES)
    number, [numbers] = int(app.number_input(key="caption").value), table_rows(app, "μ·div")
    diversity = [open_run(six / name).anchor(number, split="dev").diversity for name in NAMES]
    assert [(row["run"], row["diversity"]) for row in numbers] == [
        (name, f"{value:.4f}") for name, value in zip(NAMES, diversity, strict=True)
    ]
    app = opened(six, "similarity", **LINK)
    assert "This page compares two runs: the first and the last of 6, base and last." in texts(app)
    assert all("also=b&amp;also=c" in link for link in re.findall(r'href="([^"]*run=[^"]*)"', texts(app)))
    assert app.query_params["also"] == ["b", "c", "d", "e"]
    app.text_input(key="view-name").set_value("all six").run()
    app.button(key="save-view").click().run()
    address = json.loads((six / ".views.json").read_text())["all six"]
    assert parse_qs(urlsplit(address).query)["also"] == ["b", "c", "d", "e"]
    app = opened(six, "overview", **LINK | {"also": ["b", "gone", "last", "b"]})
    assert app.multiselect(key="also").value == ["b", "gone"]
    assert "There is no run gone in " in texts(app)
    assert "Only base, b and last are shown." in texts(app)
    app.selectbox(key="versus").set_value("—").run()
    assert [row["run"] for row in table_rows(app, "answered")[0]] == ["base", "b"]


def test_figures_and_numbers_follow_the_slice(six: Path, ranks: pd.DataFrame, opened: Opened) -> None:
    """ "way 0" or "way 1": 32 of the 80 captions."""
    pair = {"run": "base", "versus": "last", "slice": '"0" in words or "1" in words'}
    run = open_run(six / "last")
    words = [caption.replace(",", " ").split() for caption in run.captions("dev")]
    inside = np.flatnonzero(["0" in own or "1" in own for own in words])
    say = f"Numbers, figures and tables are over the slice: {len(inside)} of 80 captions."
    app = opened(six, "diversity", **pair)
    assert say in texts(app)
    [_, own] = json.loads(app.get("plotly_chart")[0].proto.spec)["data"]
    heights = np.frombuffer(base64.b64decode(own["y"]["bdata"]), own["y"]["dtype"])
    assert heights.sum() == len(inside) < run.count("dev", "text")
    app = opened(six, "retrieval", **pair)
    assert say in texts(app)
    assert gain_in_words(open_run(six / "base"), run, "dev", "t2i_r1", inside) in texts(app)
    app.segmented_control(key="look").set_value("hubs").run()
    assert f"mean {10 * len(inside) / 16:.1f} queries" in texts(app)
    app = opened(six, "retrieval", **pair | {"versus": "—"})
    assert say in texts(app)


def test_the_overview_follows_the_slice(six: Path, ranks: pd.DataFrame, opened: Opened) -> None:
    """Two captions of five: 32 of the 80, of all 16 images, one image's, and none."""
    pair = {"run": "base", "versus": "last", "split": "dev"}
    run, base = open_run(six / "last"), open_run(six / "base")
    words = [caption.replace(",", " ").split() for caption in run.captions("dev")]
    inside = np.flatnonzero(["0" in own or "1" in own for own in words])
    app = opened(six, "overview", **pair, slice='"0" in words or "1" in words')
    said = texts(app)
    assert f"over the {len(inside)} captions (16 images) of the slice" in said
    assert "The slice does not narrow the report, the training curves, the table of all runs" in said
    assert "Percentages of queries on the whole of dev." in said
    right = ranks.iloc[inside] <= 1
    expected = {name: 100 * right[name].mean() for name in ("base", "last")}
    assert not np.isclose(expected["last"], run.metrics("dev")["t2i_r1"])
    assert f"text → image R@1: {expected['last']:.1f} " in said
    for recall in ("rsum", "i2t_r1", "t2i_r1"):
        assert gain_in_words(base, run, "dev", recall, inside) in said
    bars = json.loads(app.get("plotly_chart")[0].proto.spec)["data"]
    assert [trace["text"][3] for trace in bars] == [f"{expected[name]:.1f}" for name in ("base", "last")]
    [answered] = table_rows(app, "answered")
    assert [int(row["answered"]) for row in answered] == [int(right[name].sum()) for name in ("base", "last")]
    assert (
        f"Of {len(inside)} queries {int(right[['base', 'last']].all(axis=1).sum())} are answered by all"
        in said
    )
    [table] = table_rows(app, "loss")
    [recall] = [row["t→i R@1"] for row in table if row["run"] == "last"]
    assert recall == f"{run.metrics('dev')['t2i_r1']:.1f}"  # of the whole split
    app.segmented_control(key="answers-of").set_value("i2t").run()
    assert "Of 16 queries" in texts(app)
    app.text_input(key="slice").set_value("image == 3").run()
    assert "over the 5 captions (1 image) of the slice" in texts(app)
    app.text_input(key="slice").set_value("length > 1000").run()
    assert "The slice holds no caption." in texts(app)
    assert not app.exception
    whole = slice_metrics(run, "dev", np.arange(80))
    stored = run.metrics("dev")
    assert whole == {name: stored[name] for name in whole}
    assert {"rsum", "i2t_medr", "t2i_meanr"} <= set(whole)
