"""The lists of another system: a TREC run file becomes a run beside ours, with ranks, metrics, fixed and broken queries and
without embeddings; malformed files are refused with their line."""

import math

import numpy as np
import pytest

from coder_core.api import open_run
from coder_core.api.retrieval import UNLISTED, compare, gains
from coder_core.embed import main as embed
from coder_core.evaluate import main as evaluate
from coder_core.report import main as report
from coder_core.runs.analysis.read import open_analysis
from tests.commands.test_search_log import NAMES, QUERIES, imported, log  # noqa: F401  a fixture
from tests.reference.graded import metric
from tests.support.evaluated import printed, row_of, rows_of
from tests.support.run_folders import synthetic, write_embeddings

IMAGES = 30
DEPTH = 12


@pytest.fixture(scope="module")
def ours(tmp_path_factory):
    """A run on 30 images with five captions each."""
    v, w, owner = synthetic(IMAGES, noise=2.0)
    folder = tmp_path_factory.mktemp("runs") / "ours"
    write_embeddings(folder, v, w, owner, kind="embeddings")
    return folder


@pytest.fixture(scope="module")
def reranked(ours):
    """A file of another system's lists of 12 for every caption, as `evaluate --run-out` writes them, but noisier; two
    captions have no list. Return the file and caption → listed images, best first."""
    analysis = open_analysis(ours, "dev")
    random = np.random.default_rng(4)
    scores = analysis.text_embeddings @ analysis.image_embeddings.T
    scores += 0.4 * random.normal(size=scores.shape)
    lists = {}
    lines = []
    seen = dict.fromkeys(range(IMAGES), 0)
    for caption, image in enumerate(analysis.image_of_text.tolist()):
        name = f"{analysis.image_names[image].replace(' ', '%20')}#{seen[image]}"
        seen[image] += 1
        if caption in (3, 77):
            continue
        lists[caption] = np.argsort(-scores[caption], kind="stable")[:DEPTH].tolist()
        lines += [
            f"{name} Q0 {analysis.image_names[candidate].replace(' ', '%20')} {place} {scores[caption, candidate]} other\n"
            for place, candidate in enumerate(lists[caption], 1)
        ]

    file = ours.parent / "other.txt"
    file.write_text("".join(lines))
    return file, lists


@pytest.fixture(scope="module")
def theirs(ours, reranked):
    """The lists as a run."""
    flags = [f"--run={reranked[0]}", f"--like={ours}", f"--root={ours.parent}"]
    assert embed(["import", *flags, "--split=dev", "--name=theirs"]) == 0
    return ours.parent / "theirs"


def test_ranks_and_metrics_of_lists_are_those_of_a_loop(ours, reranked, theirs):
    _, lists = reranked
    analysis = open_analysis(theirs, "dev")
    owner = analysis.image_of_text.tolist()
    assert owner == open_analysis(ours, "dev").image_of_text.tolist()
    expected = []
    for caption, image in enumerate(owner):
        listed = lists.get(caption, [])
        expected.append(listed.index(image) if image in listed else UNLISTED)

    assert analysis.text_ranks.tolist() == expected
    assert expected.count(UNLISTED) > 2
    assert (analysis.image_ranks == -1).all()
    for k in (1, 5, 10):
        hits = sum(rank < k for rank in expected)
        assert analysis.metrics[f"t2i_r{k}"] == pytest.approx(100 * hits / len(owner))

    reciprocal = sum(1 / (rank + 1) for rank in expected if rank != UNLISTED)
    assert analysis.metrics["t2i_mrr"] == pytest.approx(100 * reciprocal / len(owner))
    assert "t2i_meanr" not in analysis.metrics
    assert not [name for name in analysis.metrics if name.startswith("i2t") or name in ("rsum", "md")]
    run = open_run(theirs)
    found = run.search(0, split="dev", top=5)
    assert found["candidate"].tolist() == lists[0][:5]
    assert found["match"].tolist() == [image == owner[0] for image in lists[0][:5]]
    assert len(run.search(3, split="dev")) == 0


def test_a_run_of_lists_is_compared_with_ours(ours, theirs, tmp_path, capsys, complaint):
    first = open_run(ours)
    last = open_run(theirs)
    before = first.ranks("dev")["t2i"]
    after = last.ranks("dev")["t2i"]
    table = compare(first, last, "dev")
    assert set(table["direction"]) == {"t2i"}
    fixed = table[table["outcome"] == "fixed"]["query"].tolist()
    assert fixed == [query for query in range(len(before)) if before[query] >= 1 > after[query]]
    missing = table[table["rank_b"] == math.inf]
    assert missing["query"].tolist() == np.flatnonzero(after == UNLISTED).tolist()
    changes = gains(first, last, "dev")
    assert set(changes) == {"t2i_r1", "t2i_r5", "t2i_r10"}
    expected = 100 * ((after < 1).mean() - (before < 1).mean())
    assert changes["t2i_r1"].mean == pytest.approx(expected)
    rows = rows_of(tmp_path, ours, theirs, output=capsys)
    assert set(rows) == {str(ours), str(theirs)}, "an ensemble needs scores of all pairs"
    assert rows[str(theirs)]["t2i_r1"] == pytest.approx(100 * (after < 1).mean())
    capsys.readouterr()
    out = tmp_path / "report.html"
    assert report([str(ours), str(theirs), "--split=dev", f"--out={out}"]) == 0
    page = out.read_text()
    assert "theirs" in page
    assert "2,147,483,6" not in page.replace("2147483", "2,147,483,6")
    for flag in ("--ways=3", f"--run-out={tmp_path / 'again.txt'}"):
        refused = complaint(evaluate, [str(theirs), "--split=dev", flag])
        assert "needs scores of all pairs" in refused

    assert "has only lists" in complaint(evaluate, [str(theirs), "--split=dev", "--hub-correction"])


def test_our_own_run_file_read_again_has_our_metrics(ours, tmp_path):
    """All candidates of both directions are listed, so every metric but MD is the same."""
    file = tmp_path / "own.txt"
    assert evaluate([str(ours), "--split=dev", f"--run-out={file}", "--run-depth=1000"]) == 0
    flags = [f"--run={file}", f"--like={ours}", f"--root={tmp_path}", "--split=dev", "--name=again"]
    assert embed(["import", *flags]) == 0
    metrics = open_analysis(tmp_path / "again", "dev").metrics
    own = {name: value for name, value in open_analysis(ours, "dev").metrics.items() if name in metrics}
    assert {name: metrics[name] for name in own} == pytest.approx(own)
    assert "rsum" in metrics
    both = [row_of(run, tmp_path) for run in (ours, tmp_path / "again")]
    assert both[0]["i2t_ndcg10"] == pytest.approx(both[1]["i2t_ndcg10"])


def test_lists_for_a_search_log_are_judged_by_its_judges(log, tmp_path, capsys):  # noqa: F811
    folder, grades = log
    assert imported(log, tmp_path) == 0
    run = tmp_path / "run"
    random = np.random.default_rng(1)
    lists = {name: random.permutation(len(NAMES))[:8].tolist() for name in QUERIES[:7]}
    lines = [
        f"{name} Q0 {NAMES[image]} {place} {1 / place} monoT5\n"
        for name, listed in lists.items()
        for place, image in enumerate(listed, 1)
    ]
    (tmp_path / "run.txt").write_text("".join(lines))
    capsys.readouterr()
    flags = [f"--run={tmp_path / 'run.txt'}", f"--like={run}", "--split=log", f"--root={tmp_path}"]
    assert embed(["import", *flags, "--name=reranker"]) == 0
    assert "1 queries without a right picture are left out" in printed(capsys)
    row = row_of(tmp_path / "reranker", tmp_path, "--split=log")
    counted = [name for name in QUERIES if name in grades]
    for measure, k in (("ndcg", 10), ("mrr", 10)):
        values = [metric(measure, k, lists.get(name, []), grades[name]) for name in counted[:6]]
        assert row[f"t2i_qrels_{measure}@{k}"] == pytest.approx(100 * sum(values) / len(counted), abs=1e-6)

    graded = row_of(tmp_path / "reranker", tmp_path, "--split=log", f"--qrels={folder / 'qrels.txt'}")
    assert graded["t2i_qrels_ndcg@10"] == pytest.approx(row["t2i_qrels_ndcg@10"])


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ("Q1 Q0 D1 1 0.5\n", "line 1: is 'Q1 Q0 D1 1 0.5'"),
        ("Q1 Q0 D1 one 0.5 x\n", "line 1: is 'Q1 Q0 D1 one 0.5 x'"),
        ("Q1 Q0 D1 1 nan x\n", "line 1: has the score 'nan'"),
        ("Q1 Q0 D1 1 0.5 x\nnobody Q0 D1 2 0.4 x\n", "line 2: names the query 'nobody'"),
        ("Q1 Q0 none.jpg 1 0.5 x\n", "line 1: names the document 'none.jpg'"),
        (
            "Q1 Q0 D1 1 0.5 x\nQ1 Q0 D2 2 0.4 x\nQ1 Q0 D1 3 0.3 x\n",
            "line 3: lists 'D1' for 'Q1' again, after line 1",
        ),
        (
            "Q1 Q0 D1 1 0.5 x\nQ1 Q0 D2 2 0.9 x\n",
            "line 2: has score 0.9 at rank 2, above 0.5 at rank 1 (line 1)",
        ),
        ("Q1 Q0 D1 1 0.5 x\nQ1 Q0 D2 1 0.4 x\n", "line 2: has rank 1, as line 1 of the same query"),
        ("D1 Q0 D2 1 0.5 x\n", "line 1: lists 'D2' for 'D1', which are both images"),
        ("Q1 Q0 D1 1 0.5 x\n\nQ1 Q0 D2 2 0.4 x\n", "line 2: the line is empty"),
    ],
)
def test_malformed_run_files_are_refused_with_their_line(tmp_path, ours, lines, message, complaint):
    names = open_analysis(ours, "dev").image_names
    first, second = (name.replace(" ", "%20") for name in names[:2])
    text = lines.replace("Q1", f"{first}#0").replace("D1", first).replace("D2", second)
    (tmp_path / "run.txt").write_text(text)
    flags = [f"--run={tmp_path / 'run.txt'}", f"--like={ours}", f"--root={tmp_path}", "--split=dev"]
    refused = complaint(embed, ["import", *flags, "--name=new"])
    expected = message.replace("Q1", f"{first}#0").replace("D1", first).replace("D2", second)
    assert expected in refused
    assert not (tmp_path / "new").exists()


def test_lists_do_not_replace_or_join_embeddings(tmp_path, ours, reranked, complaint):
    write_embeddings(tmp_path / "clip", *synthetic(IMAGES, noise=1.0), kind="embeddings")
    flags = [f"--run={reranked[0]}", f"--like={ours}", f"--root={tmp_path}", "--split=dev", "--name=clip"]
    assert "has embeddings" in complaint(embed, ["import", *flags, "--overwrite"])
