"""coder-lab evaluate --qrels and --run-out: judgements and runs in TREC's formats."""

import csv
import html
import shutil

import numpy as np
import pytest

from coder_core.api import open_run
from coder_core.api.retrieval import graded_evaluations, graded_tables
from coder_core.data.qrels import SampleIds, read_qrels, sample_ids
from coder_core.evaluate import main
from coder_core.evaluation.recall import ensemble_metrics
from coder_core.evaluation.scores import EVERY, check_scores
from coder_core.evaluation.sources import ScoreMatrix
from coder_core.report import main as report
from coder_core.runs.analysis.read import open_analysis
from tests.reference.graded import metric
from tests.support.evaluated import row_of
from tests.support.precomp_folders import assert_refused, refusal
from tests.support.run_folders import flip, synthetic, write_embeddings

NAMES = ["a/x y.jpg", "b/z.jpg", "100%25.jpg"]
OWNER = np.array([0, 1, 0, 2])


def test_labels_as_qrels_reproduce_the_stored_metrics_in_both_formats(runs, tmp_path, capsys):
    metrics = open_analysis(runs[0], "dev").metrics
    owner = np.asarray(open_analysis(runs[0], "dev").image_of_text).tolist()
    counts = [owner[:text].count(image) for text, image in enumerate(owner)]
    captions = [f"image {image}#{count}" for image, count in zip(owner, counts, strict=True)]
    pairs = [(caption, f"image {image}") for caption, image in zip(captions, owner, strict=True)]
    pairs += [pair[::-1] for pair in pairs]
    trec = tmp_path / "qrels.txt"
    beir = tmp_path / "test.tsv"
    escaped = [tuple(name.replace(" ", "%20") for name in pair) for pair in pairs]
    trec.write_text("".join(f"{query} 0  {document} 1\n" for query, document in escaped))
    lines = ["query-id\tcorpus-id\tscore", *(f"{query}\t{document}\t1" for query, document in pairs)]
    beir.write_text("\n".join(lines) + "\n")
    flags = ["--qrels-metrics", "success@1", "nDCG@10", "mrr", f"--csv={tmp_path / 'out.csv'}"]
    rows = [row_of(runs[0], tmp_path, f"--qrels={file}", *flags) for file in (trec, beir)]
    assert rows[0] == rows[1]
    assert "nDCG@10" in capsys.readouterr().out
    for way in ("i2t", "t2i"):
        for key, stored in (("success@1", "r1"), ("ndcg@10", "ndcg10"), ("mrr", "mrr")):
            assert rows[0][f"{way}_qrels_{key}"] == pytest.approx(metrics[f"{way}_{stored}"], abs=1e-9)
        assert rows[0][f"{way}_qrels_mrr_low"] < metrics[f"{way}_mrr"] < rows[0][f"{way}_qrels_mrr_high"]

    assert rows[0]["t2i_qrels_queries"] == len(owner)
    [line] = csv.DictReader((tmp_path / "out.csv").open())
    assert float(line["t2i_qrels_mrr_low"]) == rows[0]["t2i_qrels_mrr_low"]


def test_judgements_are_stored_with_every_run_and_reported(runs, tmp_path):
    file = tmp_path / "<judges>.txt"
    other = tmp_path / "more.txt"
    out = tmp_path / "report.html"
    file.write_text("image%200#0 0 image%200 3\nimage%201 0 image%201#0 1\n")
    other.write_text("".join(f"image%20{image} 0 image%20{image}#0 1\n" for image in range(4)))
    skip = shutil.ignore_patterns("derived")
    runs = [shutil.copytree(run, tmp_path / "runs" / run.name, ignore=skip) for run in runs]
    one, two = map(open_run, runs)

    def stored_tables():
        return graded_tables({run.name: graded_evaluations(run, "dev") for run in (one, two)})

    both = [*map(str, runs), f"--qrels={file}", "--hub-correction"]
    assert main([*both, "--qrels-metrics", "ndcg@10", "mAP"]) == 0
    row = row_of(runs[0], tmp_path, f"--qrels={other}", "--qrels-metrics", "MRR")
    row_of(runs[1], tmp_path, f"--qrels={file}", "--qrels-metrics", "mrr")  # replaces its first result
    [(result, table), (_, alone)] = stored_tables()
    ends = tuple(row[f"i2t_qrels_mrr{end}"] for end in ("", "_low", "_high"))
    assert ends[1] < ends[0] < ends[2]
    assert alone.to_numpy().tolist() == [["i2t", "one", 4, ends]]
    assert table["run"].tolist() == ["one", "two"] * 2
    assert table["nDCG@10"].isna().tolist() == table["MRR"].notna().tolist() == [False, True] * 2
    assert report([*map(str, runs), "--out", str(out)]) == 0
    section = out.read_text().partition(f"Judged by {html.escape(result.file)}</h2>")[2]
    assert '{:.1f}<br><span class="interval">{:.1f} to {:.1f}'.format(*table["nDCG@10"][0]) in section

    file.write_text(file.read_text() + "image%203 0 image%203#0 1\n")
    row_of(runs[1], tmp_path, f"--qrels={file}")
    assert [of_file["run"].tolist() for _, of_file in stored_tables()] == [["one"] * 2, ["one"], ["two"] * 2]
    [folder] = (runs[1] / "derived" / "dev").glob("qrels-*")
    flip(folder / "manifest.json")
    assert report([*map(str, runs), "--out", str(out), "--overwrite"]) == 0
    assert str(folder) in out.read_text()
    row_of(runs[1], tmp_path, f"--qrels={file}")
    assert len(stored_tables()) == 3


def test_judgements_of_outdated_scores_are_not_shown(tmp_path):
    v, w, owner = synthetic(12, noise=1.0)
    file = tmp_path / "qrels.txt"
    file.write_text("0.png#0 0 0.png 1\n")
    for scores in (v @ w.T, w[::5] @ w.T):  # a run that scores pair by pair
        metrics = ensemble_metrics([ScoreMatrix(scores)], owner)
        write_embeddings(tmp_path / "run", v, w, owner, scores=scores, kind="embeddings", metrics=metrics)
        assert graded_evaluations(open_run(tmp_path / "run"), "dev") == []
        row_of(tmp_path / "run", tmp_path, f"--qrels={file}")
        assert len(graded_evaluations(open_run(tmp_path / "run"), "dev")) == 1


def test_a_trec_run_reads_back_exactly(runs, tmp_path):
    file = tmp_path / "run.txt"
    depth = 12
    row_of(runs[0], tmp_path, f"--run-out={file}", f"--run-depth={depth}")
    analysis = open_analysis(runs[0], "dev")
    owner = np.asarray(analysis.image_of_text)
    scores = check_scores(analysis.sources).exact(EVERY).numpy()
    ids = SampleIds(analysis.image_names, owner)
    listed = {}
    for line in file.read_text().splitlines():
        query, _, document, rank, score, tag = line.split(" ")
        (side, row) = ids.find(query)
        (_, candidate) = ids.find(document)
        own = scores[row, candidate] if side == "image" else scores[candidate, row]
        assert (np.float32(score), tag) == (own, "one")
        places = listed.setdefault((side, row), [])
        places.append(candidate)
        assert int(rank) == len(places)

    assert len(listed) == len(owner) + len(analysis.image_names)
    for (side, row), places in listed.items():
        best = analysis.image_best if side == "image" else analysis.text_best
        assert places[:10] == np.asarray(best)[row].tolist()
        assert len(places) == min(depth, len(analysis.image_names) if side == "text" else len(owner))

    # a judgement of the run's own first result
    query, document = file.read_text().split("\n")[0].split(" ")[0:3:2]
    (tmp_path / "q.txt").write_text(f"{query} 0 {document} 2\n{query} 0 elsewhere.jpg 1\n")
    row = row_of(runs[0], tmp_path, f"--qrels={tmp_path / 'q.txt'}")
    expected = metric("ndcg", 10, ["d"], {"d": 2, "elsewhere": 1})
    assert row["t2i_qrels_ndcg@10"] == pytest.approx(100 * expected)
    assert row["t2i_qrels_recall@100"] == 50


def test_images_and_captions_are_found_by_id():
    ids = SampleIds(NAMES, OWNER, np.array([7, 8, 9, 7]))
    for name, sample in (
        ("a/x y.jpg", ("image", 0)),
        ("x%20y.jpg", ("image", 0)),
        ("other/b/z.jpg#0", ("text", 1)),
        ("a/x%20y.jpg#1", ("text", 2)),
        ("100%25.jpg", ("image", 2)),
        ("8", ("text", 1)),
        ("7", ("text", -1)),
        ("z.jpg#1", None),
        ("412", None),
    ):
        assert ids.find(name) == sample

    images, texts = sample_ids(NAMES, OWNER)
    assert [ids.find(name) for name in images] == [("image", row) for row in range(3)]
    assert [ids.find(name) for name in texts] == [("text", row) for row in range(4)]
    twins = SampleIds(["a/x.jpg", "b/x.jpg"], np.array([0, 1]))
    names = ("x.jpg", "x.jpg#0", "c/x.jpg", "d/a/x.jpg", "a/x.jpg")
    assert [*map(twins.find, names)] == [("image", -1), ("text", -1), None, ("image", 0), ("image", 0)]
    assert_refused(r"x\.jpg", sample_ids, ["x.jpg", "x.jpg"], np.array([0, 1]))


def test_tab_separated_names_keep_their_spaces(tmp_path):
    (tmp_path / "qrels.txt").write_text("z.jpg#0\t0\ta/x y.jpg\t2\n")
    judged = read_qrels(tmp_path / "qrels.txt", SampleIds(NAMES, OWNER), "z.jpg#0").pairs["t2i"]
    assert (judged.candidates.tolist(), judged.grades.tolist()) == ([0], [2])


@pytest.mark.parametrize(
    ("lines", "where"),
    [
        ("z.jpg#0 0 z.jpg 1.5", "line 1"),
        ("z.jpg#0 0 z.jpg 1\nz.jpg#0 z.jpg 1", "line 2"),
        ("z.jpg#0 0 z.jpg 1\nz.jpg#0 0 b/z.jpg 2", "line 2"),
        ("z.jpg 0 a/x%20y.jpg 1", "line 1"),
        ("7 0 z.jpg 1", "line 1"),
        ("query-id\tcorpus-id\tscore\nz.jpg#0\tz.jpg", "line 2"),
        ("other.jpg#0 0 z.jpg 1", "qrels.txt"),
    ],
)
def test_invalid_judgement_lines_are_named(tmp_path, lines, where):
    file = tmp_path / "qrels.txt"
    file.write_text(lines + "\n")
    ids = SampleIds(NAMES, OWNER, np.array([7, 8, 9, 7]))
    [fault] = refusal(read_qrels, file, ids, "z.jpg#0").faults
    assert fault.place.endswith(where)


def test_invalid_qrels_and_run_flags_are_refused(runs, tmp_path, complaint):
    (tmp_path / "mine.txt").write_text("mine")
    for flags, fact in (
        (["--qrels", str(tmp_path / "none.txt")], "none.txt"),
        (["--qrels-metrics", "map@10"], "--qrels-metrics map@10"),
        (["--run-out", str(tmp_path / "mine.txt")], "mine.txt"),
        (["--run-out", str(tmp_path / "a.txt"), "--run-depth", "0"], "--run-depth"),
        ([str(runs[1]), "--run-out", str(tmp_path / "a.txt")], "--run-out"),
    ):
        assert fact in complaint(main, [str(runs[0]), *flags])
    assert (tmp_path / "mine.txt").read_text() == "mine"
