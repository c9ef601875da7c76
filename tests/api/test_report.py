"""Reports: contents of the file, which cannot run or load anything, and inputs that the command refuses."""

import html
import json
import re

import numpy as np
import pandas as pd
import pytest

from coder_core.api import causes, compare, open_run
from coder_core.api.report import Supplements, gather, render, sections
from coder_core.api.retrieval import gain_in_words, gains, judged_recall, judged_values, run_judgements
from coder_core.api.reviews import Review, ReviewedSplit, append_review
from coder_core.api.slices import Queries, slice_columns, slice_table, usual_slices
from coder_core.evaluation.bootstrap import count_hits, difference
from coder_core.evaluation.metrics import label_metrics
from coder_core.report import main
from tests.support.run_folders import write_run

HOSTILE = ["<script>alert(1)</script>", "{{ 7 * 7 }} {% raw %}", '"><img src=x onerror=alert(1)>']
HOSTILE += ["</style><b>", "a & b"]


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    root = tmp_path_factory.mktemp("report") / "runs"
    noises = {"first": 3.0, "second": 2.0}
    return [write_run(root, name, noise=noise, images=80) for name, noise in noises.items()]


def test_the_report_is_one_file_with_all_changes(folders, tmp_path, capsys, complaint):
    out = tmp_path / "report.html"
    judged = tmp_path / "<i>.tsv"
    reviews = tmp_path / "reviews.jsonl"
    first, second = map(open_run, folders)
    append_review(reviews, Review(*ReviewedSplit.of(second, "dev").pair(1, 7), "wrong-caption", "anna <b>"))
    reviews.write_text(f'{reviews.read_text()}{{"version')
    judged.write_text("1.png#0\t2.png\n")
    arguments = [*map(str, folders), "--split", "dev", "--out", str(out)]
    assert main([*arguments, "--reviews", str(reviews), "--positives", str(judged)]) == 0
    source = out.read_text()
    page = html.unescape(source)
    sentence = gain_in_words(first, second, "dev")
    printed = " ".join(capsys.readouterr().out.split())
    assert sentence[:60] in printed
    assert f"{reviews} line 2: " in printed
    counts = compare(first, second, "dev").query("direction == 't2i'")["outcome"].value_counts()
    facts = (
        f"{second.metrics['dev']['rsum']:.1f}<br>",
        f"{counts['fixed']:,} captions are hits only in the last run",
    )
    for fact in (sentence, *facts, "coder-lab report"):
        assert fact in page
    sections = re.findall(r"<h2>(.*?)</h2>", page)
    assert len(sections) == len(set(sections)) == 11
    assert page.count("data:image/jpeg;base64,") >= 12
    assert out.stat().st_size < 15e6
    misses = causes.causes_of_run(second, "dev", causes.Question("t2i"))
    of_misses = page.partition("<h2>Why queries miss</h2>")[2].partition("<h2>")[0]
    for cause, number in zip(causes.CAUSES, causes.error_budget(misses)["count"], strict=True):
        assert re.search(rf"{cause}.*?{number:,}", of_misses, re.DOTALL)
    averaged = causes.averaged_with(second, first, "dev", misses, "t2i")
    sentence = causes.gain_sentence(causes.what_would_fix(misses, averaged), 1)
    assert sentence in of_misses
    assert f"second: {sentence}" in page
    recall = page.partition("<h2>Recall</h2>")[2].partition("<h2>")[0]
    for way, mean in label_metrics(second.analysis("dev"), second.image_of_text("dev")).items():
        [low, high] = re.findall(rf">{mean:.1f}<br>\s*<span.*?>(\S+) to (\S+)</span>", recall)[0]
        assert float(low) < mean < float(high), way
    sliced = page.partition("<h2>Slices</h2>")[2].partition("<h2>")[0]
    cells = re.findall(r"<td.*?>(.*?)</td>", sliced, re.DOTALL)
    columns = slice_columns(second, "dev")
    table = slice_table([first, second], "dev", Queries("t2i"), usual_slices(columns), columns).head(14)
    table = table.sort_values("excess", ascending=False, kind="stable")
    for column, name in ((4, "mrr_1"), (5, "ndcg10_1")):
        assert [float(cell) for cell in cells[column::7]] == table[name].round(1).tolist()
    row = "1 wrong-caption</td></tr><tr><th>reviewers</th><td>anna &lt;b&gt;"
    assert row in source.replace("\n", "")
    assert "&lt;i&gt;.tsv</h2>" in source
    values = judged_values(second, "dev", run_judgements(second, "dev", judged))
    [row] = judged_recall(["second"], [values]).query("direction == 't2i'")["map_at_r"]
    assert f"{row:.1f}" in page.partition("<i>.tsv</h2>")[2].partition("<h2>")[0]
    assert "exists" in complaint(main, arguments, status=2)


def test_cells_of_rank_changes_are_green_above_and_red_below_the_diagonal(folders):
    """Rows are bands of the rank in the first run: a query below the diagonal has moved to a better band."""
    first, second = map(open_run, folders)
    page = render(gather([first, second], "dev"))
    changes = compare(first, second, "dev").query("direction == 't2i'")
    bands = [np.searchsorted(sections.BANDS, changes[rank]) for rank in ("rank_a", "rank_b")]
    table = page.partition("Text → image</h3>")[2].partition("</table>")[0]
    cells = re.findall(r"rgba\((\d+),(\d+),(\d+),([\d.]+)\)[^>]*>\s*([\d,]*)", table)
    width = len(sections.LABELS)
    assert len(cells) == width**2
    for place, (red, green, blue, share, count) in enumerate(cells):
        row, column = divmod(place, width)
        expected = int(((bands[0] == row) & (bands[1] == column)).sum())
        assert int(count.replace(",", "") or 0) == expected
        most = max(int(count.replace(",", "") or 0) for *_, count in cells)
        strength = 0.08 + 0.62 * (expected / most) ** 0.5 if expected else 0.0
        assert float(share) == pytest.approx(strength, abs=0.0051)
        colour = (
            "green" if int(green) > max(int(red), int(blue)) else "red" if int(red) > int(green) else "grey"
        )
        assert colour == ("grey" if row == column else "green" if row > column else "red")


def test_the_gain_in_words_matches_the_bootstrap(folders):
    first, second = map(open_run, folders)
    ranks = [run.ranks("dev") for run in (first, second)]
    before, after = (count_hits(of["i2t"], of["t2i"], first.image_of_text("dev")) for of in ranks)
    gain = difference([after], [before])
    interval = f"{gain.mean:+.1f} vs first (95% CI {gain.low:+.1f} to {gain.high:+.1f}): significant."
    assert interval in gain_in_words(first, second, "dev")
    assert "no difference" in gain_in_words(first, first, "dev")
    some = np.arange(7)  # of a slice: these captions and their images
    change = np.subtract(*(100 * (of["t2i"][some] < 1).mean() for of in reversed(ranks)))
    sentence = gain_in_words(first, second, "dev", "t2i_r1", some)
    assert f"R@1 of second: {change:+.1f} vs first (" in sentence


@pytest.mark.parametrize(("excess", "high", "named"), [(1.2, 79, True), (1.2, 82, False), (0.9, 79, False)])
def test_the_worst_slice_is_named_only_beyond_noise(folders, monkeypatch, excess, high, named):
    values = {"label": ["A", "word “b”", "C"], "queries": 20, "excess": [0.7, excess, -0.3], "recall_0": 75.0}
    values |= {"low_0": 60, "high_0": high, "mrr_0": 80.0, "ndcg10_0": 80.0}  # 75 + 1.2 / 20 is 81 %
    monkeypatch.setattr(sections, "slice_table", lambda *_: pd.DataFrame(values))
    run = open_run(folders[0])
    run.config["objective"]["epsilon"] = 0.4
    report = gather([run], "dev")
    [ambiguity] = [section.blocks for section in report.sections if section.heading == "Ambiguity"]
    assert dict(ambiguity)["histogram"][1] == run.diversity("dev", epsilon=0.4)["diversity"].min()
    [(_, table)] = next(section.blocks for section in report.sections if section.heading == "Slices")
    assert table["slice"].tolist() == ["word “b”", "A", "C"]
    of_slices = [sentence for sentence in report.short if "worst slice" in sentence]
    assert [": word “b”, R@1 75.0 %" in sentence for sentence in of_slices] == [True] * named


def test_hostile_text_is_escaped_and_nothing_is_loaded(tmp_path):
    texts = [f"{HOSTILE[number % 5]}{number}" for number in range(60)]
    values = {"captions": texts, "pictures": False, "picture_names": texts[:12]}
    run = open_run(write_run(tmp_path, "evil", images=12, **values))
    page = render(gather([run], "dev", Supplements(" ".join(HOSTILE), HOSTILE[2])))
    for tag in ("<script", "<img", "<b>", "<link", "<iframe"):
        assert tag not in page
    assert html.escape(" ".join(HOSTILE)).replace("&quot;", "&#34;") in page
    assert not re.findall(r"""(?:src|href)=["'](?!data:)|url\(|@import""", page)
    assert "default-src &#39;none&#39;" in page


def test_runs_on_other_samples_and_missing_splits_are_refused(folders, tmp_path, complaint):
    other = write_run(tmp_path, "other", images=9, pictures=False)
    out = tmp_path / "r.html"
    for arguments, fact in (
        ([str(folders[0]), str(other)], "run first"),
        ([str(folders[0]), "--split", "test"], "'test'"),
        ([], "RUN"),
    ):
        assert fact in complaint(main, [*arguments, "--out", str(out)], status=2)
    assert not out.exists()


def verdict(runs, folder, *flags):
    """Write a report with a gate; return its exit status and its JSON document."""
    out = folder / "report.html"
    status = main([*map(str, runs), *flags, "--out", str(out), "--overwrite"])
    return status, json.loads(out.with_suffix(".json").read_text())


def test_a_gate_fails_only_if_a_drop_exceeds_the_limit_beyond_noise(folders, tmp_path, capsys):
    worse, better = map(open_run, folders)
    loss = gains(better, worse, "dev")["rsum"]
    assert loss.low < loss.mean < loss.high < -1
    status, document = verdict(folders[::-1], tmp_path, "--gate", "rsum=-1", "t2i_r1=-100")
    [check, other] = document["checks"]
    assert (status, document["passed"], check["passed"], other["passed"]) == (1, False, False, True)
    assert [check[key] for key in ("change", "low", "high")] == [loss.mean, loss.low, loss.high]
    assert (document["first"], document["last"], document["split"]) == ("second", "first", "dev")
    within_noise = (loss.mean + loss.high) / 2  # the mean loss is larger, but its interval includes this
    assert verdict(folders[::-1], tmp_path, f"--gate=rsum={within_noise}")[0] == 0
    assert verdict(folders[::-1], tmp_path, f"--gate=rsum={loss.high + 1e-9}")[0] == 1
    assert verdict(folders, tmp_path, "--gate", "rsum=-1")[0] == 0
    same = [folders[0], folders[0]]
    assert verdict(same, tmp_path, "--gate", "rsum=0")[0] == 0
    assert verdict(same, tmp_path, "--gate", "rsum=0.1")[0] == 1
    namesakes = [write_run(tmp_path / root, "x", pictures=False) for root in "ab"]
    document = verdict(namesakes, tmp_path, "--gate", "rsum=0")[1]
    assert [document["first"], document["last"]] == list(map(str, namesakes))
    assert "<h2>Gate</h2>" in (tmp_path / "report.html").read_text()


def test_a_gate_checks_all_queries_of_every_slice_with_enough(tmp_path, capsys):
    captions = [f"a {'red' if number % 2 else 'dog'} thing" for number in range(200)]
    values = {"images": 40, "captions": captions, "pictures": False}
    folders = [write_run(tmp_path, name, noise=noise, **values) for name, noise in (("a", 0.1), ("b", 3.0))]
    first, last = map(open_run, folders)
    status, document = verdict(folders, tmp_path, "--gate-slices", "-5", "--gate-queries", "100")
    checks = {check["name"]: check for check in document["checks"]}
    hits = [run.ranks("dev")["t2i"][1::2] < 1 for run in (first, last)]
    check = checks["t2i_r1, word “red”"]
    assert check["queries"] == 100
    assert check["change"] == pytest.approx(100 * (hits[1].mean() - hits[0].mean()))
    assert check["low"] < check["change"] < check["high"] < -5
    assert (status, check["passed"]) == (1, False)
    assert not any(name.startswith("i2t") for name in checks)  # 40 images are too few
    assert "diversity" not in str(checks)
    assert verdict(folders, tmp_path, "--gate-slices", "-100", "--gate-queries", "100")[0] == 0


def test_invalid_gates_give_an_error_and_no_verdict(folders, tmp_path, complaint):
    runs = [str(folder) for folder in folders]
    out = tmp_path / "report.html"
    for arguments, fact in (
        ([*runs, "--gate", "rsum"], "--gate rsum:"),
        ([*runs, "--gate", "rsum=-1", "rsum=-2"], "--gate rsum=-2:"),
        ([*runs, "--gate", "medr=nan"], "--gate medr=nan:"),
        ([runs[0], "--gate", "rsum=-1"], "1 run"),
        ([*runs, "--gate-slices", "nan"], "--gate-slices:"),
        ([*runs, "--gate-slices", "-5", "--gate-queries", "0"], "--gate-queries:"),
        ([*runs, "--gate-slices", "-5", "--gate-queries", "9999"], "--gate-slices:"),
        ([*runs, "--gate", "rsum=-1", "--out", str(tmp_path / "a.json")], "a.json"),
    ):
        assert fact in complaint(main, ["--out", str(out), *arguments], status=2)
    assert not list(tmp_path.iterdir())
    out.with_suffix(".json").write_text("mine")
    assert main([*runs, "--out", str(out), "--gate", "rsum=-1"]) == 2
    assert out.with_suffix(".json").read_text() == "mine"
