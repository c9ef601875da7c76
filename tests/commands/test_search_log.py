"""A search log as a split: queries that belong to no picture, with graded judgements, from pictures, from two files of
embeddings and in log_split; metrics against loops; what needs captions is refused."""

import csv
import json

import numpy as np
import pandas as pd
import pytest

from coder_core.api import open_run
from coder_core.console.faults import InputError
from coder_core.data.search_log import NOTHING_RIGHT, UNJUDGED, read_search_log
from coder_core.embed import main as embed
from coder_core.embedding.log import log_split
from coder_core.evaluate import main as evaluate
from coder_core.runs.analysis.read import open_analysis
from coder_core.runs.derived.graded import read_graded
from coder_core.training.launch import start_run
from tests.commands.test_groups_of_data import picture
from tests.reference.graded import metric, order_of
from tests.support.evaluated import row_of
from tests.support.run_folders import unit
from tests.support.tiny_runs import quiet, tiny_config, write_tiny_data
from tests.support.tiny_towers import write_tiny_clip

PICTURES = 12
QUERIES = [f"q{row}" for row in range(9)]
NAMES = [f"shop/{row}.jpg" for row in range(PICTURES)]


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    """Nine queries: q0 to q5 have one to three right pictures, q6 only wrong ones, q7 only a picture of elsewhere, q8 no
    judgement. Return the files, and id → row of a picture (−1: elsewhere) → grade."""
    folder = tmp_path_factory.mktemp("log")
    random = np.random.default_rng(3)
    grades = {}
    for row, name in enumerate(QUERIES[:6]):
        chosen = random.permutation(PICTURES)[:5].tolist()
        grades[name] = dict(zip(chosen, [3, 0, 1 + row % 2, 0, 2 * (row % 2)], strict=True))
    grades["q0"][-1] = 2
    grades["q6"] = {4: 0, 5: 0}
    grades["q7"] = {-1: 3}
    (folder / "queries.tsv").write_text("".join(f"{name}\twhere is thing {name}\n" for name in QUERIES))
    lines = [
        f"{name} 0 {NAMES[image] if image >= 0 else 'elsewhere.jpg'} {grade}\n"
        for name, of_query in grades.items()
        for image, grade in of_query.items()
    ]
    (folder / "qrels.txt").write_text("".join([*lines, "other-query 0 shop/1.jpg 1\n"]))
    return folder, grades


def embeddings():
    random = np.random.default_rng(5)
    return unit(random.normal(size=(PICTURES, 8))), unit(random.normal(size=(len(QUERIES), 8)))


def expected_means(grades, images, texts):
    """Return nDCG@10, MRR@10 and MAP over the judged queries, by loops; those without a right picture count as 0."""
    sums = {"ndcg": 0.0, "mrr": 0.0, "map": 0.0}
    judged = [name for name in QUERIES if name in grades]
    for name in judged:
        scores = (images @ texts[QUERIES.index(name)]).tolist()
        order = order_of(scores, grades[name])
        for measure, k in (("ndcg", 10), ("mrr", 10), ("map", float("inf"))):
            sums[measure] += metric(measure, k, order, grades[name])
    return {measure: 100 * total / len(judged) for measure, total in sums.items()}


def imported(log, tmp_path, *flags):
    folder, _ = log
    images, texts = embeddings()
    np.save(tmp_path / "images.npy", images)
    np.save(tmp_path / "queries.npy", texts)
    (tmp_path / "ids.txt").write_text("".join(f"{name}\n" for name in NAMES))
    named = [f"--images={tmp_path / 'images.npy'}", f"--texts={tmp_path / 'queries.npy'}"]
    named += [f"--captions={folder / 'queries.tsv'}", f"--ids={tmp_path / 'ids.txt'}", "--split=log"]
    named += [f"--qrels={folder / 'qrels.txt'}", f"--root={tmp_path}", "--name=run", *flags]
    return embed(["import", *named])


def test_every_query_is_counted_or_listed_with_the_reason(log):
    folder, grades = log
    found, notes = read_search_log(folder / "queries.tsv", folder / "qrels.txt", NAMES)
    assert found.query_ids == QUERIES[:6]
    assert [(name, reason) for name, _, reason in found.others] == [
        ("q6", NOTHING_RIGHT),
        ("q7", NOTHING_RIGHT),
        ("q8", UNJUDGED),
    ]
    for row, image in enumerate(found.image_of_text.tolist()):
        right = {picture: grade for picture, grade in grades[QUERIES[row]].items() if picture >= 0}
        assert right[image] == max(right.values())

    assert {tuple(of) for of in found.judgements.tolist()} == {
        (QUERIES.index(name), image, grade) for name in QUERIES[:6] for image, grade in grades[name].items()
    }
    text = " ".join(map(str, notes))
    assert "6 queries have a right picture; 2 are listed, not counted (judged, without a right" in text
    assert "1 are listed, not counted (no judgment)" in text
    assert (
        "1 pictures are not in the data and count as not found; 1 judged queries are not in queries.tsv"
        in text
    )
    beir = folder / "queries.jsonl"
    rows = [{"_id": name, "text": f"where is thing {name}"} for name in QUERIES]
    beir.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    again, _ = read_search_log(beir, folder / "qrels.txt", NAMES)
    assert again.texts == found.texts
    kept = found.keep(np.arange(PICTURES) != found.image_of_text[0])
    assert kept.query_ids == QUERIES[1:6] or found.image_of_text.tolist().count(found.image_of_text[0]) > 1
    assert kept.others[-1][2] == "its best picture is left out"


@pytest.mark.parametrize(
    ("queries", "qrels", "message"),
    [
        ("q0 no tab\n", "q0 0 shop/1.jpg 1\n", "expected the id of a query, a tab, and its text"),
        ("q0\ta\nq0\tb\n", "q0 0 shop/1.jpg 1\n", "the id 'q0' is also that of an earlier query"),
        ("q0\ta\n", "q0 0 shop/1.jpg 1\nq0 0 shop/1.jpg 2\n", "grades a pair 2 that was already graded 1"),
        ("q0\ta\n", "q0 0 none.jpg 1\n", "judges no picture of the data as right"),
        ("q0\ta\n", "q0 shop/1.jpg\n", "is 'q0 shop/1.jpg'"),
    ],
)
def test_files_of_another_form_are_refused(tmp_path, queries, qrels, message):
    (tmp_path / "queries.tsv").write_text(queries)
    (tmp_path / "qrels.txt").write_text(qrels)
    with pytest.raises(InputError) as refused:
        read_search_log(tmp_path / "queries.tsv", tmp_path / "qrels.txt", NAMES)
    assert message in str(refused.value)


def test_two_files_of_embeddings_become_a_split_whose_judgements_decide(log, tmp_path, capsys, complaint):
    _, grades = log
    images, texts = embeddings()
    assert imported(log, tmp_path) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert printed.index("nDCG@10") < printed.index("R@1/5/10"), "nDCG@10 leads"
    assert "if equal texts match" not in printed
    analysis = open_analysis(tmp_path / "run", "log")
    expected = expected_means(grades, images, texts)
    [stored] = read_graded(tmp_path / "run", "log", analysis)
    row = stored.rows["t2i"]
    assert row["queries"] == 8
    assert row["nDCG@10"][0] == pytest.approx(expected["ndcg"], abs=1e-6)
    assert row["MRR@10"][0] == pytest.approx(expected["mrr"], abs=1e-6)
    assert row["MAP"][0] == pytest.approx(expected["map"], abs=1e-6)
    assert row["nDCG@10"][1] < row["nDCG@10"][0] < row["nDCG@10"][2]
    counted = {name: of for name, of in grades.items() if name in QUERIES[:6]}
    of_counted = expected_means(counted, images, texts)
    assert analysis.metrics["t2i_ndcg10"] == pytest.approx(of_counted["ndcg"], abs=1e-6)
    for query in range(6):
        scores = images @ texts[query]
        right = [image for image, grade in grades[QUERIES[query]].items() if image >= 0 and grade > 0]
        assert analysis.text_ranks[query] == min((scores > scores[image]).sum() for image in right)

    run = open_run(tmp_path / "run")
    best = run.best("log", "t2i")
    match = run.matches("log", "t2i", np.arange(6)[:, None], best)
    for query in range(6):
        of_query = grades[QUERIES[query]]
        assert match[query].tolist() == [of_query.get(image, 0) > 0 for image in best[query].tolist()]
    table = run.search(0, split="log")
    assert isinstance(table, pd.DataFrame)
    assert table["match"].tolist() == [
        grades["q0"].get(image, 0) > 0 for image in table["candidate"].tolist()
    ]

    out = tmp_path / "out.json"
    assert evaluate([str(tmp_path / "run"), "--split=log", f"--json={out}"]) == 0
    [metrics] = json.loads(out.read_text())["runs"].values()
    assert metrics["t2i_ndcg10"] == pytest.approx(of_counted["ndcg"], abs=1e-6)
    assert metrics["t2i_qrels_ndcg@10"] == pytest.approx(expected["ndcg"], abs=1e-6)
    printed = " ".join(capsys.readouterr().out.split())
    assert printed.index("the judges of the search log") < printed.index("R@1/5/10")
    qrels = log[0] / "qrels.txt"
    assert (
        evaluate([str(tmp_path / "run"), "--split=log", f"--qrels={qrels}", f"--json={out}", "--overwrite"])
        == 0
    )
    [metrics] = json.loads(out.read_text())["runs"].values()
    assert metrics["t2i_qrels_ndcg@10"] == pytest.approx(expected["ndcg"], abs=1e-6)
    refused = complaint(evaluate, [str(tmp_path / "run"), "--split=log", "--ways", "3"])
    assert "--ways: needs captions of pictures, but split log is a search log" in refused


def test_pictures_are_embedded_with_the_queries_of_a_log(log, tmp_path, capsys):
    folder, _ = log
    data = tmp_path / "data"
    with (tmp_path / "table.csv").open("w", newline=""):
        pass
    for row, name in enumerate(NAMES):
        picture(data / name, row)
    with (data / "table.csv").open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["image", "title"])
        table.writerows([name, f"thing number {row}"] for row, name in enumerate(NAMES))

    clip = write_tiny_clip(tmp_path / "clip")
    flags = [str(data), f"--model={clip}", "--workers=0", "--name=shop", f"--root={tmp_path}"]
    assert embed(["pictures", *flags, "--split=log", f"--queries={folder / 'queries.tsv'}"]) == 1
    assert "only --queries is given" in " ".join(capsys.readouterr().err.split())
    log_flags = [f"--queries={folder / 'queries.tsv'}", f"--qrels={folder / 'qrels.txt'}"]
    assert embed(["pictures", *flags, "--split=log", *log_flags]) == 0
    assert "nDCG@10" in capsys.readouterr().out
    analysis = open_analysis(tmp_path / "shop", "log")
    assert analysis.captions == [f"where is thing {name}" for name in QUERIES[:6]]
    assert sorted(analysis.image_names) == sorted(NAMES)
    assert analysis.search_log["query_ids"] == QUERIES[:6]
    assert open_run(tmp_path / "shop").has_pictures("log")


def test_log_split_takes_judgements(log, tmp_path):
    _, grades = log
    images, texts = embeddings()
    rows = [
        (QUERIES.index(name), image, grade)
        for name, of_query in grades.items()
        for image, grade in of_query.items()
        if image >= 0
    ]
    captions = [f"where is thing {name}" for name in QUERIES]
    with pytest.warns(UserWarning, match="captions: 3 have no right image and are left out"):
        metrics = log_split(
            tmp_path / "run",
            "log",
            images,
            texts,
            captions=captions,
            pictures=NAMES,
            judgements=np.array(rows),
        )

    without = {
        name: {i: g for i, g in of.items() if i >= 0} for name, of in grades.items() if name in QUERIES[:6]
    }
    assert metrics["t2i_ndcg10"] == pytest.approx(expected_means(without, images, texts)["ndcg"], abs=1e-6)
    arguments = {"captions": captions, "judgements": np.array([[0, 99, 1]])}
    with pytest.raises(InputError, match=r"judgements, row 0: is \(0, 99, 1\)"):
        log_split(tmp_path / "run", "log", images, texts, **arguments)
    with pytest.raises(InputError, match="are both given"):
        log_split(tmp_path / "run", "log", images, texts, image_of_text=np.zeros(9, int), **arguments)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A run trained on region features, whose dev split has twelve pictures with the names of the log."""
    folder = tmp_path_factory.mktemp("trained")
    data = write_tiny_data(folder / "data", images=5 * PICTURES)
    (data / "dev_ids.txt").write_text("".join(f"{name}\n" for name in NAMES))
    return start_run(tiny_config(data, epochs=1), folder / "run", quiet())


def test_a_trained_run_is_evaluated_on_a_search_log(log, trained, tmp_path, capsys, complaint):
    folder, grades = log
    files = [f"--queries={folder / 'queries.tsv'}", f"--qrels={folder / 'qrels.txt'}"]
    before = open_analysis(trained, "dev").fingerprint
    row = row_of(trained, tmp_path, "--split=log", "--pool=dev", *files)
    analysis = open_analysis(trained, "log")
    texts = open_run(trained).encode_text([f"where is thing {name}" for name in QUERIES])
    expected = expected_means(grades, analysis.image_embeddings, texts)
    assert row["t2i_qrels_ndcg@10"] == pytest.approx(expected["ndcg"], abs=1e-3)
    assert row["t2i_qrels_map"] == pytest.approx(expected["map"], abs=1e-3)
    assert analysis.search_log["query_ids"] == QUERIES[:6]
    assert analysis.captions == [f"where is thing {name}" for name in QUERIES[:6]]
    assert len(open_run(trained).uncounted_queries("log")) == 3
    assert open_analysis(trained, "dev").fingerprint == before
    printed = " ".join(capsys.readouterr().out.split())
    assert printed.index("the judges of the search log") < printed.index("R@1/5/10")
    for flags, message in (
        (["--split=log"], "is a search log; expected --queries FILE --qrels FILE --pool SPLIT"),
        (["--split=dev", "--pool=train", *files], "has captions"),
        (["--split=dev", "--pool=dev", *files], "is the pool of pictures"),
        (["--split=log", *files], "is given without --qrels or --pool"),
    ):
        assert message in complaint(evaluate, [str(trained), *flags])
