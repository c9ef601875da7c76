"""coder-lab evaluate: the table, the files, the analysis folder, the ensemble, and what it refuses."""

import csv
import json
import shutil
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from coder_core.api import open_run
from coder_core.api.reviews import ReviewedSplit, reviewed_recall
from coder_core.data.dataset import read_split
from coder_core.data.embeddings import Embeddings
from coder_core.data.reviews import Review, append_review, image_keys, read_reviews
from coder_core.evaluate import main
from coder_core.evaluating.tables import display_names
from coder_core.evaluation import nearest
from coder_core.evaluation.c_way import Protocol, c_way_accuracy
from coder_core.evaluation.recall import retrieval_metrics
from coder_core.evaluation.scores import check_scores
from coder_core.evaluation.sources import EmbeddingPair
from coder_core.project import main as project
from coder_core.report import main as report
from coder_core.runs.analysis.import_embeddings import import_run
from coder_core.runs.analysis.read import open_analysis
from coder_core.runs.analysis.rows import RunRow, Samples
from coder_core.runs.derived.hub_correction import correction_folder, read_correction
from coder_core.runs.load import load_model, read_config
from coder_core.training.launch import start_run
from tests.reference.graded import label_means
from tests.support.evaluated import printed, rows_of
from tests.support.picture_folders import NAMES
from tests.support.precomp_folders import refusal
from tests.support.run_folders import FINISHED_RUNS, import_run_folder, unit
from tests.support.tiny_runs import quiet, write_tiny_data
from tests.support.tiny_towers import tower_config


def test_evaluate_prints_a_table_and_writes_csv_json_and_an_analysis(runs, tmp_path, capsys):
    sheet = tmp_path / "out.csv"
    rows = rows_of(tmp_path, runs[0], "--split", "test", "--csv", sheet)
    assert "R@sum" in printed(capsys)
    analysis = open_analysis(runs[0], "test", verify=True)
    loaded = load_model(runs[0])
    assert rows == {str(runs[0]): analysis.metrics}
    [line] = csv.DictReader(sheet.open())
    assert (line["run"], float(line["rsum"])) == (str(runs[0]), analysis.metrics["rsum"])
    assert analysis.fingerprint == loaded.fingerprint
    np.testing.assert_allclose(loaded.encode_text(analysis.captions), analysis.text_embeddings, atol=1e-6)
    again = retrieval_metrics(analysis.image_embeddings, analysis.text_embeddings, analysis.image_of_text)
    assert again == analysis.metrics
    (runs[0] / "analysis" / "dev").rename(tmp_path / "dev")
    assert main([str(runs[0]), "--split", "val"]) == 0
    assert {"dev", "val"} & set(open_run(runs[0]).splits) == {"dev"}
    assert report([str(runs[0]), "--split", "val", "--out", str(tmp_path / "report.html")]) == 0


def test_display_names_of_rows_are_unique():
    def row(run, **variant):
        folder = None if run is None else Path(run)
        return RunRow(folder, {}, [], Samples([], np.empty(0, np.int64), []), **variant)

    rows = [row("a/first"), row("a/first", folds=True), row("b/second", hubs_corrected=True), row(None)]
    assert display_names(rows) == ["first", "first (5 × 1K)", "second, hubs corrected", "ensemble"]
    same = [row("a/first"), row("b/first")]
    assert display_names(same) == [row.name for row in same] == ["a/first", "b/first"]
    blends = [row("a/first", alpha=alpha) for alpha in (0.0, 0.5)]
    names = display_names([*blends, row("a/first", alpha=0.5, folds=True)], best=0.5)
    assert names == ["first α=0", "first α=0.5 best", "first α=0.5 (5 × 1K)"]


def test_an_ensemble_mixes_the_branches_of_each_run_first(tmp_path):
    """Every run has an equal share, and within a run the branches have β and 1 − β of it."""
    checkpoints = Path(shutil.copytree(FINISHED_RUNS / "checkpoints", tmp_path / "checkpoints"))
    runs = [checkpoints / "weighted", checkpoints / "whole"]
    rows = rows_of(tmp_path, *runs, "--data", FINISHED_RUNS / "data")
    one, two = (open_analysis(run, "dev") for run in runs)
    beta = read_config(runs[1])[0].model.beta
    scores = 0.5 * one.image_embeddings @ one.text_embeddings.T
    scores += 0.5 * beta * two.image_embeddings @ two.text_embeddings.T
    scores += 0.5 * (1 - beta) * two.concepts.image_embeddings @ two.concepts.text_embeddings.T
    ranks = (scores >= scores[one.image_of_text, np.arange(len(one.captions))]).sum(0) - 1
    assert rows["ensemble"]["t2i_r1"] == pytest.approx(100 * float((ranks < 1).mean()))
    assert rows["ensemble"]["t2i_meanr"] == pytest.approx(1 + float(ranks.mean()))
    assert rows["ensemble"]["t2i_ndcg10"] > rows["ensemble"]["t2i_r1"]
    assert rows[str(runs[1])] == two.metrics


def test_c_way_accuracy_of_every_run_and_warnings_on_a_small_split(runs, tmp_path, capsys):
    sheet = tmp_path / "out.csv"
    rows = rows_of(tmp_path, *runs, *["--ways", "2", "4", "500", "--ways-repeats", "4"], "--csv", sheet)
    assert "warning: t2i 500-way: " in printed(capsys)
    one = open_analysis(runs[0], "dev")
    first = rows[str(runs[0])]
    pair = EmbeddingPair(one.image_embeddings, one.text_embeddings)
    scored = check_scores([pair])
    for way in ("i2t", "t2i"):
        for c, accuracy in c_way_accuracy(
            scored, np.asarray(one.image_of_text), (2, 4), way, Protocol(repeats=4)
        ).items():
            assert first[f"{way}_{c}way"] == accuracy.mean
            assert first[f"{way}_{c}way_interval"] == accuracy.interval
            assert rows["ensemble"][f"{way}_{c}way"] >= 0
        assert f"{way}_500way" not in first
    _, second, _ = csv.DictReader(sheet.open())
    assert float(second["t2i_4way"]) == rows[str(runs[1])]["t2i_4way"]


def test_metrics_by_reviewed_labels_are_printed_beside_the_others(runs, tmp_path, capsys, complaint):
    file = tmp_path / "reviews.jsonl"
    labels = rows_of(tmp_path, runs[0])[str(runs[0])]
    file.touch()
    command = [runs[0], "--reviews", file]
    untouched = rows_of(tmp_path, *command)[str(runs[0])]
    for way, name in product(("i2t", "t2i"), ("r1", "r5", "r10", "mrr", "ndcg10")):
        assert untouched[f"{way}_reviewed_{name}"] == pytest.approx(untouched[f"{way}_{name}"])

    split = read_split(read_config(runs[0])[0].data.data, "dev")
    keys = image_keys(split.image_names, split.captions, split.image_of_text, split.n_images)
    one = open_analysis(runs[0], "dev")
    missed = int(np.flatnonzero(np.asarray(one.text_ranks) > 0)[0])
    first = int(one.text_best[missed, 0])
    wrong = next(text for text in range(split.n_texts) if text != missed)
    elsewhere = Review("elsewhere.jpg", "a caption of train", "too-vague", "anna")
    append_review(file, Review(keys[first], split.captions[missed], "also-matches", "anna"))
    owner = keys[split.image_of_text[wrong]]
    append_review(file, Review(owner, split.captions[wrong], "wrong-caption", "anna"))
    append_review(file, elsewhere)
    with file.open("a") as reviews:
        reviews.write('{"version\n{"version\n')  # lines 4 and 5
    reviewed = rows_of(tmp_path, *command, output=capsys)[str(runs[0])]
    text = printed(capsys)
    assert "wrong: 1, other matches: 1, verdicts on pairs outside this split: 1" in text
    assert all(f"{file} line {number}: " in text for number in (4, 5))
    assert all(f"{reviewed[f'{way}_reviewed_mrr']:.1f}/" in text for way in ("i2t", "t2i"))
    assert {key: reviewed[key] for key in labels} == labels, "the labels' metrics stay"
    document = json.loads((tmp_path / "out.json").read_text())
    assert document["reviews_sha256"] == read_reviews(file).fingerprint()
    run = open_run(runs[0])  # the app computes the same from the ten best results of every query
    recall = reviewed_recall(run, "dev", ReviewedSplit.of(run, "dev"), read_reviews(file))
    for row in recall[recall["queries"] == "all"].to_dict("records"):
        for name, key in (("1", "r1"), ("5", "r5"), ("10", "r10"), ("ndcg10", "ndcg10")):
            assert row[f"reviewed_{name}"] == pytest.approx(reviewed[f"{row['direction']}_reviewed_{key}"])
    right = (np.asarray(one.text_ranks) == 0) | (np.arange(split.n_texts) == missed)
    assert reviewed["t2i_reviewed_r1"] == pytest.approx(100 * np.delete(right, wrong).mean())
    reciprocal = np.where(np.arange(split.n_texts) == missed, 1, 1 / (np.asarray(one.text_ranks) + 1))
    assert reviewed["t2i_reviewed_mrr"] == pytest.approx(100 * np.delete(reciprocal, wrong).mean())

    file.write_text("")
    append_review(file, elsewhere)
    for unusable in (file, tmp_path / "none.jsonl"):
        assert str(unusable) in complaint(main, [str(runs[0]), "--reviews", str(unusable)])


def test_hub_correction_is_a_row_beside_the_run_and_stored_for_the_app(runs, tmp_path, capsys):
    rows = rows_of(tmp_path, *runs, "--split", "test", "--hub-correction")
    assert "on dev" in printed(capsys)
    assert list(rows) == [*map(str, runs), "ensemble", *(f"{run}, hubs corrected" for run in runs)]
    assert main([str(runs[0]), "--split", "train"]) == 0
    analysis, train = (open_analysis(runs[0], split) for split in ("test", "train"))
    stored = read_correction(correction_folder(runs[0], "test", analysis))
    assert stored is not None
    assert stored.metrics == rows[f"{runs[0]}, hubs corrected"]
    owner = analysis.image_of_text
    scores = analysis.image_embeddings @ analysis.text_embeddings.T
    for way, candidates, queries, axis in (
        ("t2i", analysis.image_embeddings, train.text_embeddings, 1),
        ("i2t", analysis.text_embeddings, train.image_embeddings, 0),
    ):
        k, alpha = stored.strengths[way]
        corrected = scores - alpha * np.expand_dims(np.sort(candidates @ queries.T, 1)[:, -k:].mean(1), axis)
        positives = corrected[owner, np.arange(len(analysis.captions))]
        best = np.array([positives[owner == image].max() for image in range(analysis.n_images)])
        ranks = (corrected > positives).sum(0) if way == "t2i" else (corrected > best[:, None]).sum(1)
        assert stored.metrics[f"{way}_r5"] == pytest.approx(100 * float((ranks < 5).mean()))
        expected = label_means(corrected.tolist(), owner.tolist())[f"{way}_ndcg10"]
        assert stored.metrics[f"{way}_ndcg10"] == pytest.approx(expected)


def test_an_evaluation_reads_the_pictures_of_the_run(towers_folder, tmp_path, complaint):
    data = tmp_path / "data"
    pictures = tmp_path / "pictures"
    shutil.copytree(towers_folder / "data", data)
    (data / "Flicker8k_Dataset").rename(pictures)
    config = tower_config(towers_folder, epochs=1, data=str(data), pictures=str(pictures))
    run = start_run(config, tmp_path, quiet())
    assert main([str(run), "--split", "test", "--hub-correction"]) == 0
    assert read_correction(correction_folder(run, "test", open_analysis(run, "test"))) is not None
    (pictures / NAMES[-1]).unlink()
    assert "--skip-broken" not in (message := complaint(main, [str(run), "--split", "test"]))
    assert f"1 of 3 pictures are missing; the first: '{NAMES[-1]}'" in message


def test_an_imported_run_is_evaluated_from_its_embeddings(tmp_path, complaint):
    run = import_run_folder(tmp_path, "clip")
    row = rows_of(tmp_path, run, "--ways", "5")[str(run)]
    assert row["rsum"] == open_analysis(run, "dev").metrics["rsum"]
    assert row["t2i_5way"] > 20
    for flags, missing in ((["--split", "test"], "test"), (["--hub-correction"], "train")):
        message = complaint(main, [str(run), *flags])
        assert f"one of dev. coder-lab embed import … --split {missing} --name clip" in message
    assert "--data elsewhere: " in complaint(main, [str(run), "--data", "elsewhere"])


def test_probe_accuracy_covers_pictures_of_the_split(runs, tmp_path, capsys, complaint):
    analysis = open_analysis(runs[0], "dev")
    n = analysis.n_images
    first = np.array([np.flatnonzero(analysis.image_of_text == image)[0] for image in range(n)])
    v = analysis.image_embeddings
    w = analysis.text_embeddings
    files = []
    expected = {}
    keys = ("filename", "caption", "negative_caption")
    for kind, shift in (("swap_obj", 1), ("add_att", 5)):
        negatives = np.roll(first, shift)
        captions = [[analysis.captions[text] for text in texts] for texts in (first, negatives)]
        pictures = [f"{name}.jpg" for name in analysis.image_names]
        probes = [*zip(pictures, *captions, strict=True), ("other.jpg", "a dog", "a cat")]
        entries = {str(number): dict(zip(keys, probe, strict=True)) for number, probe in enumerate(probes)}
        files.append(tmp_path / f"{kind}.json")
        files[-1].write_text(json.dumps(entries))
        right, wrong = (np.einsum("nd,nd->n", v, w[rows]) for rows in (first, negatives))
        expected[kind] = 100 * float((right > wrong).mean())

    row = rows_of(tmp_path, runs[0], "--probe", *files)[str(runs[0])]
    assert f"2 of {2 * n + 2} probes" in printed(capsys)
    for kind, accuracy in expected.items():
        assert row[f"probe_{kind}"] == pytest.approx(accuracy)

    assert row["probe_all"] == pytest.approx(sum(expected.values()) / 2)
    (tmp_path / "bad.json").write_text(json.dumps({"7": {"filename": "x.jpg", "caption": "a dog"}}))
    assert "bad.json entry '7'" in complaint(main, [str(runs[0]), "--probe", str(tmp_path / "bad.json")])


def test_similarities_are_written_as_histogram_counts(runs, tmp_path):
    sheet = tmp_path / "similarities.csv"
    assert main([str(runs[0]), "--similarities", str(sheet)]) == 0
    rows = list(csv.DictReader(sheet.open()))
    one = open_analysis(runs[0], "dev")
    n = len(one.image_embeddings)
    m = len(one.text_embeddings)
    assert sum(int(row["matching"]) for row in rows) == m
    assert sum(int(row["others"]) for row in rows) == n * m - m
    middle = np.array([(float(row["low"]) + float(row["high"])) / 2 for row in rows])
    means = [np.average(middle, weights=[int(row[kind]) for row in rows]) for kind in ("matching", "others")]
    assert means[0] - means[1] == pytest.approx(one.metrics["md"], abs=0.02)
    assert main([str(runs[0]), "--similarities", str(sheet)]) == 1  # which exists


@pytest.mark.parametrize("flag", ["--csv", "--json", "--similarities", "--curve"])
def test_an_unwritable_file_is_refused_before_the_work(tmp_path, flag, complaint):
    for file in (tmp_path / "missing" / "a", tmp_path / (300 * "a")):
        message = complaint(main, [str(tmp_path / "no-run"), flag, str(file)])
        assert f"error: {flag} {file}: " in message
        assert "no-run" not in message.replace(str(file), "")


@pytest.mark.parametrize(
    ("flags", "culprit"),
    [
        (["--ways", "1", "5"], "--ways: are 1 5"),
        (["--ways", "5", "--ways-repeats", "1"], "--ways-repeats: is 1"),
        (["--blend", "0.5", "1.00001", "nan"], "--blend: contains 1.00001 nan"),
        (["--blend", "0.5", "1", ".5"], "--blend: contains 0.5 more than once"),
        (["--blend", "0.5", "1"], "--blend"),
        (["--curve", "curve.html"], "--curve: "),
        (["--split", "nosplit"], '"nosplit"'),
        (["nothing", "--blend", "1"], "--blend: is given with 2 runs"),
        (["nothing"], "nothing"),
    ],
)
def test_invalid_flags_are_refused(runs, flags, culprit, complaint):
    assert culprit in complaint(main, [str(runs[0]), *flags])


def test_folders_that_are_not_runs_are_refused_with_the_runs_nearby(runs, complaint):
    root = runs[0].parent
    folder = str(runs[0])
    for path, near in (
        (root, folder),
        (runs[0] / "analysis", folder),
        (root / "twoo", f"{runs[1]}, {folder}"),
    ):
        for command in (main, project):
            assert f"error: {path}: " in (message := complaint(command, [str(path)]))
            assert near in message


def test_features_of_another_size_and_broken_splits_are_refused(runs, tmp_path, complaint):
    data = write_tiny_data(tmp_path / "data")
    features = np.array(read_split(data, "dev").features)
    np.save(data / "dev_ims.npy", np.concatenate([features, features], axis=-1))
    command = [str(runs[0]), "--data", str(data)]
    assert f"{2 * features.shape[-1]} numbers per region" in complaint(main, command)
    features[3, 1, 0] = np.nan
    np.save(data / "dev_ims.npy", features)
    message = complaint(main, command)
    assert all(str(fault) in message for fault in refusal(read_split, data, "dev").faults)


def test_hubs_are_corrected_by_an_index_of_many_pairs_and_the_message_says_what_it_may_miss(
    tmp_path, monkeypatch, capsys
):
    """An index of few candidates is exact, so the corrected metrics are those of all pairs."""
    random = np.random.default_rng(0)
    for split, count in (("train", 60), ("dev", 30)):
        images, texts = (unit(random.standard_normal((count, 8))).astype(np.float32) for _ in range(2))
        captions = [f"caption {number} of {split}" for number in range(count)]
        import_run(Embeddings(images, texts, captions, np.arange(count)), tmp_path, "run", split)
    metrics = []
    for most in (nearest.COMPARED_PAIRS, 0):
        monkeypatch.setattr(nearest, "COMPARED_PAIRS", most)
        assert main([str(tmp_path / "run"), "--split", "dev", "--hub-correction"]) == 0
        correction = read_correction(
            correction_folder(tmp_path / "run", "dev", open_analysis(tmp_path / "run", "dev"))
        )
        metrics.append((correction.strengths, correction.metrics))
        shutil.rmtree(tmp_path / "run" / "derived")
        message = " ".join(capsys.readouterr().out.split())
        assert ("may have missed a few. It finds about 99% of the ten nearest" in message) == (most == 0)
    assert metrics[0] == metrics[1]
