"""Reports: what is in the file, that nothing in it can run or load anything, and what the command refuses."""

import html
import re

import numpy as np
import pytest

from coder_core.api import compare, open_run
from coder_core.api.report import gather, render
from coder_core.api.retrieval import gain_in_words, judged_recall, judged_values, run_judgements
from coder_core.api.reviews import Review, ReviewedSplit, append_review
from coder_core.evaluation.bootstrap import count_hits, difference
from coder_core.report import main
from tests.support.run_folders import write_run

HOSTILE = ["<script>alert(1)</script>", "{{ 7 * 7 }} {% raw %}", '"><img src=x onerror=alert(1)>']
HOSTILE += ["</style><b>", "a & b"]


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    root, noises = tmp_path_factory.mktemp("report") / "runs", {"first": 3.0, "second": 2.0}
    return [write_run(root, name, noise=noise, images=80) for name, noise in noises.items()]


def test_one_file_says_what_moved(folders, tmp_path, capsys):
    out, judged, reviews = tmp_path / "report.html", tmp_path / "<i>.tsv", tmp_path / "reviews.jsonl"
    first, second = map(open_run, folders)
    append_review(reviews, Review(*ReviewedSplit.of(second, "dev").pair(1, 7), "wrong-caption", "anna <b>"))
    judged.write_text("1.png#0\t2.png\n")
    arguments = [*map(str, folders), "--split", "dev", "--out", str(out)]
    assert main([*arguments, "--reviews", str(reviews), "--positives", str(judged)]) == 0
    source = out.read_text()
    page, sentence = html.unescape(source), gain_in_words(first, second, "dev")
    assert sentence[:60] in " ".join(capsys.readouterr().out.split())
    counts = compare(first, second, "dev").query("direction == 't2i'")["outcome"].value_counts()
    facts = f"{second.metrics['dev']['rsum']:.1f}<br>", f"{counts['fixed']:,} captions"
    for fact in (sentence, *facts, "python -m coder_core.report"):
        assert fact in page
    sections = re.findall(r"<h2>(.*?)</h2>", page)
    assert len(sections) == len(set(sections)) == 10
    assert page.count("data:image/jpeg;base64,") >= 12
    assert out.stat().st_size < 15e6
    row = "1 wrong-caption</td></tr><tr><th>by</th><td>anna &lt;b&gt;"
    assert row in source.replace("\n", "")
    assert "&lt;i&gt;.tsv</h2>" in source
    values = judged_values(second, "dev", run_judgements(second, "dev", judged))
    [row] = judged_recall(["second"], [values]).query("direction == 't2i'")["map_at_r"]
    assert f"{row:.1f}" in page.partition("<i>.tsv</h2>")[2].partition("<h2>")[0]
    assert main(arguments) == 1
    assert "exists" in capsys.readouterr().err


def test_the_gain_in_words_is_that_of_the_bootstrap(folders):
    first, second = map(open_run, folders)
    ranks = [run.ranks("dev") for run in (first, second)]
    before, after = (count_hits(of["i2t"], of["t2i"], first.image_of_text("dev")) for of in ranks)
    gain = difference([after], [before])
    interval = f"{gain.mean:+.1f} (95% interval {gain.low:+.1f} to {gain.high:+.1f}"
    assert interval in gain_in_words(first, second, "dev")
    assert "no difference" in gain_in_words(first, first, "dev")
    some = np.arange(7)  # of a slice: these captions and their images
    change = np.subtract(*(100 * (of["t2i"][some] < 1).mean() for of in reversed(ranks)))
    sentence = gain_in_words(first, second, "dev", "t2i_r1", some)
    assert f"R@1 of second against that of first: {change:+.1f} (" in sentence


def test_hostile_text_is_only_text_and_nothing_is_loaded(tmp_path):
    texts = [f"{HOSTILE[number % 5]}{number}" for number in range(60)]
    values = {"captions": texts, "pictures": False, "picture_names": texts[:12]}
    run = open_run(write_run(tmp_path, "evil", images=12, **values))
    page = render(gather([run], "dev", question=" ".join(HOSTILE), command=HOSTILE[2]))
    for tag in ("<script", "<img", "<b>", "<link", "<iframe"):
        assert tag not in page
    assert html.escape(" ".join(HOSTILE)).replace("&quot;", "&#34;") in page
    assert not re.findall(r"""(?:src|href)=["'](?!data:)|url\(|@import""", page)
    assert "default-src &#39;none&#39;" in page


def test_other_samples_and_splits_are_refused(folders, tmp_path, capsys):
    other, out = write_run(tmp_path, "other", images=9, pictures=False), tmp_path / "r.html"
    for arguments, fact in (
        ([str(folders[0]), str(other)], "run first"),
        ([str(folders[0]), "--split", "test"], "'test'"),
        ([], "RUN"),
    ):
        assert main([*arguments, "--out", str(out)]) == 1
        assert fact in capsys.readouterr().err
    assert not out.exists()
