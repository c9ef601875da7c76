"""The Overview: groups of runs, saved views, and what an imported run lacks."""

import html
import json
import re
import shutil
from itertools import product
from urllib.parse import parse_qsl

import numpy as np
import pytest

from app.choice import DIRECTIONS
from coder_core.api import causes, compare, open_run, retrieval
from coder_core.api.joint_space import score_separation
from coder_core.api.saved_views import save_view, saved_views
from coder_core.api.slices import slice_metrics
from coder_core.embedding.log import log_split
from coder_core.evaluate import main
from tests.support.precomp_folders import assert_refused
from tests.support.run_folders import CONCEPTS, flip, import_run_folder, write_run


def test_runs_are_grouped_by_data_and_follow_the_sidebar(tmp_path, opened):
    root = tmp_path / "runs"
    for name, images in (("a", 12), ("b", 12), ("c", 12), ("elsewhere", 14), ("new", 12)):
        folder = write_run(root, name, images=images, pictures=False)
    shutil.rmtree(folder / "analysis")
    app = opened(root, "overview", run=["a", "b"], also=["c", "elsewhere", "new"])
    field = app.multiselect(key="run")
    assert field.options == ["a", "b", "c", "new", "elsewhere"]
    assert field.value == ["a", "c", "elsewhere", "new", "b"]
    assert "elsewhere" in field.help
    assert app.saying("a", "elsewhere", "dev")
    tables = [[row["run"] for row in rows] for rows in app.rows("i→t R@1")]
    assert tables == [["a", "b", "c"], ["elsewhere"], ["new"]]
    for images in (12, 14):
        assert app.saying("demo", images, 5 * images)
    app.change(run=["a", "c"])
    assert [trace["name"] for trace in app.figures()[1]["data"]] == ["a", "c"]


def test_runs_are_sorted_by_score_the_best_values_bold_and_the_chosen_marked(tmp_path, opened):
    root = tmp_path / "runs"
    for name, noise in (("a", 3.0), ("b", 1.0), ("c", 2.0)):
        write_run(root, name, images=20, noise=noise, pictures=False)
    app = opened(root, "overview", run=["a", "c"])
    labelled = [([column["label"] for column in table["columns"]], table) for table in app.tables()]
    [(labels, table)] = [(labels, table) for labels, table in labelled if "R@sum" in labels]
    names = [row["cells"][labels.index("run")] for row in table["rows"]]
    assert names == ["b", "c", "a"]
    column = labels.index("R@sum")
    scores = [float(row["cells"][column]) for row in table["rows"]]
    assert scores == sorted(scores, reverse=True)
    assert [row["cells"][column] for row in table["rows"] if row.get("bold", [False] * 99)[column]] == [
        f"{scores[0]:.1f}"
    ]
    colours = dict(zip(names, [row["colour"] for row in table["rows"]], strict=True))
    assert not colours["b"]  # it is not chosen
    assert colours["a"] != colours["c"]


def test_similarities_of_any_number_of_runs_are_side_by_side(tmp_path, opened):
    root = tmp_path / "runs"
    for seed, name in enumerate(("a", "b", "c")):
        write_run(root, name, images=12, seed=seed, noise=1.0 + seed, pictures=False)
    captions = [f"scene {i}, told in way {k}" for i in range(12) for k in range(5)]
    write_run(root, "both", images=12, captions=captions, concepts=CONCEPTS)
    app = opened(root, "overview", run=["a", "b"], curves=["c", "both"])  # as older links have it
    assert app.value("run") == app.query_params["run"] == ["a", "c", "both", "b"]
    assert "curves" not in app.query_params
    [table] = app.rows("matching pairs")
    assert [row["run"] for row in table] == ["a", "c", "both", "b"]
    run = open_run(root / "both")
    v, w = run.embeddings("dev")
    branches = run.analysis("dev").concepts
    scores = 0.6 * v @ w.T + 0.4 * branches.image_embeddings @ branches.text_embeddings.T
    positives = scores[run.image_of_text("dev"), np.arange(60)]
    md = positives.mean() - (scores.sum() - positives.sum()) / (scores.size - 60)
    exact = score_separation(run, "dev").mean_distance
    assert exact == pytest.approx(float(md), abs=1e-5)
    assert table[2]["MD"] == f"{exact:.3f}"
    assert len(app.figures()) == 4


def test_mrr_ndcg_and_metrics_by_a_qrels_file_are_shown(tmp_path, opened):
    root = tmp_path / "runs"
    out = tmp_path / "out.json"
    file = tmp_path / "a *b* <i>.txt"
    runs = [str(import_run_folder(root, name, noise=noise)) for name, noise in (("a", 3.0), ("b", 2.0))]
    ids = [(f"image%20{image}#0", f"image%20{image}") for image in range(30)]
    file.write_text("".join(f"{query} 0 {document} 1\n{document} 0 {query} 1\n" for query, document in ids))
    assert main([*runs, f"--qrels={file}", f"--json={out}"]) == 0
    rows = json.loads(out.read_text())["runs"]
    assert main([runs[1], f"--qrels={file}", "--qrels-metrics", "MAP"]) == 0
    app = opened(root, "overview", slice="image < 9")
    [table] = app.rows("Success@10")
    [of_runs, of_slice] = app.rows("i→t nDCG@10")
    assert [row["run"] for row in of_runs] == ["b", "a"]  # the highest R@sum first
    of_runs.reverse()
    expected = [(way, name, "30") for way, name in product(DIRECTIONS.values(), ("a", "b"))]
    assert [(row["direction"], row["run"], row["queries"]) for row in table] == expected
    for row, (way, name) in zip(table, product(DIRECTIONS, runs), strict=True):
        for label in ("nDCG@10", "MAP", "Success@10"):
            key = f"{way}_qrels_{label.lower()}"
            ends = [f"{rows[name][key + end]:.1f}" for end in ("", "_low", "_high")]
            again = name == runs[0] or label == "MAP"  # b was evaluated by MAP alone
            assert row[label] == ("{} [{}, {}]".format(*ends) if again else "–")
    for row, shown, name in zip(of_runs, of_slice, runs, strict=True):
        assert row["t→i nDCG@10"] == f"{rows[name]['t2i_ndcg10']:.1f}"
        assert row["i→t MRR"] == f"{rows[name]['i2t_mrr']:.1f}"
        metrics = slice_metrics(open_run(name), "dev", np.arange(5 * 9))
        of_ways = [f"{metrics[f'{way}_{key}']:.1f}" for way in ("i2t", "t2i") for key in ("mrr", "ndcg10")]
        assert [*shown.values()][1:] == of_ways
    assert "a \\*b\\* \\<i\\>.txt" in app.headings()
    file.rename(second := tmp_path / "second.txt")
    assert main([runs[0], f"--qrels={second}"]) == 0
    assert [tab.label == second.name for tab in app.again().tabs] == [False, True]
    [folder] = (root / "b" / "derived" / "dev").glob("qrels-*")
    flip(folder / "manifest.json")
    app.again()
    assert {row["run"] for row in app.rows("Success@10")[0]} == {"a"}
    assert app.saying(str(folder))


def test_an_imported_run_has_no_configuration_curves_or_model(roots, opened):
    app = opened(roots["imported"], "overview", run="clip", versus="demo")
    assert any('"imported"' in json.dumps(table) for table in app.tables())
    assert app.saying("clip", "imported")
    differ = "Differences between the configurations"
    assert differ in app.headings()
    assert any("two trained runs" in refusal for refusal in app.refusals())
    app.change(run=["clip"])
    assert differ not in app.headings()
    assert any("no training curves" in refusal for refusal in app.refusals())


def test_the_title_of_one_run_has_its_interval_and_a_split_without_ranks_says_so(roots, tmp_path, opened):
    run = open_run(roots["one"] / "demo")
    low, high = retrieval.recall_ends(run, "dev")["rsum"]
    value = run.metrics["dev"]["rsum"]
    assert low < value < high
    app = opened(roots["one"], "overview")
    assert (
        app.title[0].value.replace("\\", "")
        == f"demo reaches R@sum {value:.1f} [{low:.1f}, {high:.1f}] of 600"
    )
    images, texts = run.embeddings("dev")
    log_split(tmp_path / "bare", "dev", images, texts, captions=list(run.captions("dev")), rank=0)
    app = opened(tmp_path, "overview")
    assert app.title[0].value == "bare has not ranked dev yet"
    app = opened(tmp_path, "retrieval")
    assert app.title[0].value == "bare has not ranked dev yet"
    bare = open_run(tmp_path / "bare")
    queries = np.arange(len(bare.captions("dev")))
    assert (bare.ranks_of("dev", "t2i", queries) == run.ranks("dev")["t2i"]).all()
    worst = int(run.ranks("dev")["t2i"].max()) + 1
    assert app.rows("rank")[0][0]["rank"] == f"{worst}"
    assert app.saying("Sampled", len(queries), len(queries))
    assert app.code[0].value == f"coder-lab evaluate {tmp_path / 'bare'} --split dev --rank all"
    assert app.change(slice="image == 3").saying("Sampled 5 of 5")
    beside = shutil.copytree(roots["one"] / "demo", tmp_path / "demo")
    app = opened(tmp_path, "retrieval", run=[beside.name, "bare"])
    assert app.answer() == "bare has not ranked dev yet"
    assert len(app.code) == 1
    assert len(app.change(answered_by="by all").rows("rank in bare")) == 1


def test_a_view_is_saved_under_a_name_and_listed(tmp_path, opened):
    write_run(tmp_path, "demo", images=20)
    app = opened(tmp_path, "retrieval", run="demo", slice="length > 3", at="5")
    app.widget("view-name").set_value("<b>mine</b>")
    app.click("save-view")
    [(name, address)] = saved_views(tmp_path).items()
    page, query = address.split("?")
    assert (name, page) == ("<b>mine</b>", "retrieval")
    assert {"run=demo", "slice=length+%3E+3", "at=5"} <= set(query.split("&"))
    assert f'<a href="{html.escape(address)}" target="_self">&lt;b&gt;mine&lt;/b&gt;</a>' in app.texts()
    app.widget("view-name").set_value("<b>mine</b>")
    assert app.click("save-view").refusals()
    assert saved_views(tmp_path) == {name: address}
    app.click("remove-view-0")
    assert saved_views(tmp_path) == {}
    app = opened(tmp_path, "", run="demo")  # the first page is the overview under another path
    app.widget("view-name").set_value("first")
    app.click("save-view")
    assert saved_views(tmp_path)["first"].startswith("overview?")


def test_an_invalid_file_of_views_is_named_and_kept(tmp_path):
    file = tmp_path / ".views.json"
    addresses = ("https://x.org/?y", "javascript:1", 3)
    for content in ("{", '["a"]', '{"": "joint?run=a"}', *(json.dumps({"a": value}) for value in addresses)):
        file.write_text(content)
        assert_refused(str(file), saved_views, tmp_path)
        assert_refused(str(file), save_view, tmp_path, "b", "joint?run=a")
        assert file.read_text() == content


def test_fixed_and_broken_queries_are_listed_and_open_in_retrieval(roots, opened):
    app = opened(roots["two"], "overview")
    fixed, *broken = app.rows("now")
    for rows, expected in ((fixed, (False, True)), *((rows, (True, False)) for rows in broken)):
        assert {(row["before"] == "1", row["now"] == "1") for row in rows} == {expected}
    tables = [table for table in app.tables() if table["addresses"]]
    [row, address] = tables[0]["rows"][0], dict(parse_qsl(tables[0]["addresses"][0].partition("?")[2]))
    changes = compare(*(open_run(roots["two"] / name) for name in ("demo-baseline", "demo")), "dev")
    outcomes = changes[changes["direction"] == "t2i"]["outcome"].value_counts()
    counts = [f"{outcomes.get(outcome, 0)} {outcome}" for outcome in ("fixed", "broken")]
    assert set(counts) <= set(app.headings().splitlines())  # of all, not of the rows shown
    assert f"{counts[0]}, {counts[1]}" in app.title[0].value
    assert f"open all {counts[0].split()[0]} →" in app.texts()
    assert row["sample"]["name"] == f"caption {address['query-text']}"
    assert address["run"] == "demo"  # the last of both


def test_the_causes_of_the_misses_add_up_and_lead_to_their_queries(roots, opened):
    app = opened(roots["two"], "overview", misses_of="Image → captions", misses_at="1")
    names = ("demo-baseline", "demo")
    budgets = {}
    for name in names:
        run = open_run(roots["two"] / name)
        misses = causes.causes_of_run(run, "dev", causes.Question("i2t", 1))
        budgets[name] = causes.error_budget(misses)
        assert budgets[name]["count"].sum() == (run.ranks("dev")["i2t"] >= 1).sum()
    traces = app.figures()[0]["data"]
    assert [trace["name"] for trace in traces] == list(causes.CAUSES)
    for row, trace in enumerate(traces):
        counts = [numbers[1] for numbers in trace["customdata"]]
        assert counts == [budgets[name]["count"].iloc[row] for name in names]
    totals = [sum(trace["x"][position] for trace in traces) for position in (0, 1)]
    assert totals == pytest.approx([100, 100])
    linked = dict(
        parse_qsl(html.unescape(re.search(r'href="retrieval\?([^"]*cause=[^"]*)"', app.texts())[1]))
    )
    assert (linked["direction"], linked["at"], linked["cause-of"]) == ("Image → captions", "1", "demo")
    [rows] = app.rows("misses fixed")
    assert next(row["demo"] for row in rows) == "as it is"
    assert len(rows) == 5


def test_an_overview_without_misses_has_no_causes(tmp_path, opened):
    write_run(tmp_path / "runs", "perfect", images=12, noise=0.01, pictures=False, per_image=1)
    app = opened(tmp_path / "runs", "overview")
    assert "perfect misses no query among the first 1" in app.headings()
    assert not app.rows("misses fixed")
