"""Reports: what is in the file, that nothing in it can run or load anything, and what the command refuses."""

from __future__ import annotations

import html
import re
from pathlib import Path

import numpy as np
import pytest

from coder_core.api import compare, open_run
from coder_core.api.report import gather, render
from coder_core.api.retrieval import gain_in_words, judged_recall, judged_values, run_judgements
from coder_core.api.reviews import Review, ReviewedSplit, append_review
from coder_core.evaluation.bootstrap import count_hits, difference, recall_intervals
from coder_core.report import main
from tests.support.run_folders import write_run

HOSTILE = [
    "<script>alert(1)</script>",
    "{{ 7 * 7 }} {% raw %}",
    '"><img src=x onerror=alert(1)>',
    "</style><b>",
    "a & b",
]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    root = tmp_path_factory.mktemp("report") / "runs"
    return [
        write_run(root, name, noise=noise, images=80) for name, noise in (("first", 3.0), ("second", 2.0))
    ]


def test_one_file_says_what_moved_with_pictures(
    runs: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "report.html"
    assert main([*map(str, runs), "--split", "dev", "--out", str(out)]) == 0
    page = html.unescape(out.read_text())
    first, second = (open_run(run) for run in runs)
    sentence = gain_in_words(first, second, "dev")
    assert sentence in page
    assert sentence[:60] in " ".join(capsys.readouterr().out.split())
    assert f"{second.metrics('dev')['rsum']:.1f}<br>" in page
    changes = compare(first, second, "dev")
    counts = changes[changes["direction"] == "t2i"]["outcome"].value_counts()
    assert f"{counts['fixed']:,} captions find their image first only in the last run" in page
    for heading in (
        "Wrong first, then right",
        "Near misses",
        "Slices",
        "Ambiguity",
        "Settings that differ",
        "How to rep",
    ):
        assert heading in page
    assert page.count("data:image/jpeg;base64,") >= 12
    assert "python -m coder_core.report" in page
    assert out.stat().st_size < 15e6
    key, text = ReviewedSplit.of(second, "dev").pair(1, 7)
    append_review(tmp_path / "reviews.jsonl", Review(key, text, "wrong-caption", "anna <b>"))
    reviewed = ["--reviews", str(tmp_path / "reviews.jsonl"), "--overwrite"]
    judged = tmp_path / "<i>.tsv"
    judged.write_text("1.png#0\t2.png\n")
    reviewed += ["--positives", str(judged)]
    assert main([*map(str, runs), "--out", str(out), *reviewed]) == 0
    assert "1 wrong-caption</td></tr><tr><th>by</th><td>anna &lt;b&gt;" in "".join(
        out.read_text().split("\n")
    )
    assert "<h2>By the judgements of &lt;i&gt;.tsv</h2>" in out.read_text()
    page = re.sub(r"<[^>]*>|\s+", " ", out.read_text()).replace("  ", " ")
    [row] = judged_recall(
        ["second"], [judged_values(second, "dev", run_judgements(second, "dev", judged))]
    ).query("direction == 't2i'")["map_at_r"]
    assert f"{row:.1f}" in page.partition("By the judgements")[2].partition("What moved")[0]
    assert main([*map(str, runs), "--out", str(out)]) == 1
    assert "exists" in capsys.readouterr().err


def test_the_gain_in_words_is_that_of_the_bootstrap(runs: list[Path]) -> None:
    first, second = (open_run(run) for run in runs)
    hits = []
    for run in (first, second):
        ranks = run.ranks("dev")
        hits.append(count_hits(ranks["i2t"], ranks["t2i"], run.image_of_text("dev")))
    gain = difference([hits[1]], [hits[0]])
    assert f"{gain.mean:+.1f} (95% interval {gain.low:+.1f} to {gain.high:+.1f}" in gain_in_words(
        first, second, "dev"
    )
    assert "no difference" in gain_in_words(first, first, "dev")
    some = np.arange(7)  # of a slice: these captions and their images
    ranks = [run.ranks("dev")["t2i"][some] for run in (first, second)]
    change = 100 * float((ranks[1] < 1).mean() - (ranks[0] < 1).mean())
    assert gain_in_words(first, second, "dev", "t2i_r1", some).startswith(
        f"Text → image R@1 of {second.name} against that of {first.name}: {change:+.1f} (95% interval"
    )
    intervals = recall_intervals(hits[1])
    names = [f"{way}_r{k}" for way in ("i2t", "t2i") for k in (1, 5, 10)] + ["rsum"]
    np.testing.assert_allclose(intervals[:, 0], [second.metrics("dev")[name] for name in names])
    assert (intervals[:, 1] <= intervals[:, 0]).all()
    assert (intervals[:, 0] <= intervals[:, 2]).all()


def test_hostile_text_is_only_text_and_nothing_is_loaded(tmp_path: Path) -> None:
    captions = [HOSTILE[number % 5] for number in range(60)]
    names = [f"{HOSTILE[number % 5]}{number}" for number in range(12)]
    run = open_run(
        write_run(tmp_path, "evil", images=12, captions=captions, pictures=False, picture_names=names)
    )
    page = render(gather([run], "dev", question=" ".join(HOSTILE), command=HOSTILE[2]))
    for tag in ("<script", "<img", "<b>", "<link", "<iframe"):
        assert tag not in page
    assert html.escape(" ".join(HOSTILE)).replace("&quot;", "&#34;") in page
    assert not re.findall(r"""(?:src|href)=["'](?!data:)""", page)
    assert not re.findall(r"url\(|@import", page)
    assert "default-src &#39;none&#39;" in page


def test_runs_on_other_samples_and_missing_splits_are_refused(
    runs: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = write_run(tmp_path, "other", images=9)
    assert main([str(runs[0]), str(other), "--out", str(tmp_path / "r.html")]) == 1
    assert "holds other captions" in capsys.readouterr().err
    assert main([str(runs[0]), "--split", "test", "--out", str(tmp_path / "r.html")]) == 1
    assert "has no analysis of split 'test'" in capsys.readouterr().err
    assert main(["--out", str(tmp_path / "r.html")]) == 1
    assert not (tmp_path / "r.html").exists()
