"""python -m coder_core.evaluate: the table, the files, the analysis folder, the ensemble, and what it refuses."""

from __future__ import annotations

import csv
import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from coder_core.api import open_run
from coder_core.api.reviews import ReviewedSplit, reviewed_recall
from coder_core.data.dataset import read_split
from coder_core.data.reviews import Review, append_review, image_keys, read_reviews
from coder_core.evaluate import display_names, main
from coder_core.evaluation import EmbeddingPair, c_way_accuracy, retrieval_metrics, score_tiles
from coder_core.runs.analysis.read import Analysis, open_analysis
from coder_core.runs.analysis.rows import RunRow, Samples
from coder_core.runs.derived.hub_correction import correction_folder, read_correction
from coder_core.runs.load import load_model, read_config
from coder_core.training.launch import start_run
from tests.support.run_folders import import_run_folder
from tests.support.tiny_runs import quiet, write_tiny_data
from tests.support.tower_runs import tower_config


def evaluated(run: Path, split: str) -> Analysis:
    """The analysis of a split, evaluated now."""
    assert main([str(run), "--split", split]) == 0
    return open_analysis(run, split)


def test_it_prints_a_table_and_writes_csv_json_and_the_analysis(
    runs: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sheet, document = tmp_path / "out.csv", tmp_path / "out.json"
    assert main([str(runs[0]), "--split", "test", "--csv", str(sheet), "--json", str(document)]) == 0
    printed = capsys.readouterr().out
    assert "R@sum" in printed
    assert "pessimistic ties" in printed
    analysis = open_analysis(runs[0], "test", verify=True)
    rows = list(csv.DictReader(sheet.open()))
    assert [row["run"] for row in rows] == [str(runs[0])]
    assert float(rows[0]["rsum"]) == analysis.metrics["rsum"]
    assert json.loads(document.read_text())["runs"][str(runs[0])] == analysis.metrics


def test_names_of_rows_in_a_terminal() -> None:
    def row(run: str | None, **variant: Any) -> RunRow:
        folder = None if run is None else Path(run)
        return RunRow(folder, {}, [], Samples([], np.empty(0, np.int64), []), **variant)

    rows = [row("a/first"), row("a/first", folds=True), row("b/second", hubs_corrected=True), row(None)]
    assert display_names(rows) == ["first", "first (5 × 1K)", "second, hubs corrected", "ensemble"]
    same = [row("a/first"), row("b/first")]
    assert display_names(same) == [one.name for one in same] == ["a/first", "b/first"]
    blends = [row("a/first", alpha=alpha) for alpha in (0.0, 0.5)]
    assert display_names([*blends, row("a/first", alpha=0.5, folds=True)], best=0.5) == [
        "first α=0",
        "first α=0.5 best",
        "first α=0.5 (5 × 1K)",
    ]


def test_the_analysis_holds_what_the_model_says_now(runs: list[Path]) -> None:
    main([str(runs[0]), "--split", "test"])
    analysis, loaded = open_analysis(runs[0], "test"), load_model(runs[0])
    assert analysis.fingerprint == loaded.fingerprint
    np.testing.assert_allclose(loaded.encode_text(analysis.captions), analysis.text_embeddings, atol=1e-6)
    again = retrieval_metrics(analysis.image_embeddings, analysis.text_embeddings, analysis.image_of_text)
    assert again == analysis.metrics


def test_several_runs_get_an_ensemble_row_of_their_averaged_scores(runs: list[Path], tmp_path: Path) -> None:
    document = tmp_path / "out.json"
    assert main([*map(str, runs), "--json", str(document)]) == 0
    found = json.loads(document.read_text())["runs"]["ensemble"]
    one, two = (open_analysis(run, "dev") for run in runs)
    images = np.concatenate([one.image_embeddings, two.image_embeddings], axis=1)
    texts = np.concatenate([one.text_embeddings, two.text_embeddings], axis=1)
    expected = retrieval_metrics(
        images, texts, one.image_of_text
    )  # the sum of the scores ranks like their mean
    assert found["rsum"] == pytest.approx(expected["rsum"])


def test_an_ensemble_mixes_the_branches_of_each_run_first(runs: list[Path], tmp_path: Path) -> None:
    """Every run has an equal share, and within a run the branches have β and 1 − β of it."""
    config, _ = read_config(runs[0])
    both = replace(config, name="both", model=replace(config.model, concepts=10, beta=0.6))
    third = start_run(both, tmp_path, Console(quiet=True))
    document = tmp_path / "out.json"
    assert main([str(runs[0]), str(third), "--json", str(document)]) == 0
    found = json.loads(document.read_text())["runs"]
    one, two = open_analysis(runs[0], "dev"), open_analysis(third, "dev")
    assert two.concepts is not None
    scores = 0.5 * one.image_embeddings @ one.text_embeddings.T
    scores += 0.5 * 0.6 * two.image_embeddings @ two.text_embeddings.T
    scores += 0.5 * 0.4 * two.concepts.image_embeddings @ two.concepts.text_embeddings.T
    own = scores[one.image_of_text, np.arange(len(one.captions))]
    ranks = (scores >= own).sum(0) - 1
    assert found["ensemble"]["t2i_r1"] == pytest.approx(100 * float((ranks < 1).mean()))
    assert found["ensemble"]["t2i_meanr"] == pytest.approx(1 + float(ranks.mean()))
    assert found[str(third)] == two.metrics


def test_c_way_accuracy_of_every_run_and_what_the_split_is_too_small_for(
    runs: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sheet, document = tmp_path / "out.csv", tmp_path / "out.json"
    asked = ["--ways", "2", "4", "500", "--ways-repeats", "4", "--csv", str(sheet), "--json", str(document)]
    assert main([*map(str, runs), *asked]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "warning: t2i 500-way: the split has" in printed
    assert "mean of 4 draws ± 95%" in printed
    found = json.loads(document.read_text())["runs"]
    one = open_analysis(runs[0], "dev")
    scored = score_tiles(
        [EmbeddingPair(one.image_embeddings, one.text_embeddings)], np.asarray(one.image_of_text)
    )
    for way in ("i2t", "t2i"):
        expected = c_way_accuracy(scored, (2, 4), way, repeats=4)  # type: ignore[arg-type]
        for c, accuracy in expected.items():
            assert found[str(runs[0])][f"{way}_{c}way"] == accuracy.mean
            assert found[str(runs[0])][f"{way}_{c}way_interval"] == accuracy.interval
            assert found["ensemble"][f"{way}_{c}way"] >= 0
        assert f"{way}_500way" not in found[str(runs[0])]
    rows = list(csv.DictReader(sheet.open()))
    assert float(rows[1]["t2i_4way"]) == found[str(runs[1])]["t2i_4way"]


def test_reviewed_labels_stand_beside_the_labels(
    runs: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, document, plain = tmp_path / "reviews.jsonl", tmp_path / "out.json", tmp_path / "plain.json"
    assert main([str(runs[0]), "--json", str(plain)]) == 0
    file.touch()
    asked = [str(runs[0]), "--reviews", str(file), "--json", str(document), "--overwrite"]
    assert main(asked) == 0
    labels = json.loads(plain.read_text())["runs"][str(runs[0])]
    untouched = json.loads(document.read_text())["runs"][str(runs[0])]
    recalls = [f"{way}_{{}}r{k}" for way in ("i2t", "t2i") for k in (1, 5, 10)]
    for recall in recalls:
        assert untouched[recall.format("reviewed_")] == pytest.approx(untouched[recall.format("")])

    split = read_split(read_config(runs[0])[0].data.data, "dev")
    keys = image_keys(split.image_names, split.captions, split.image_of_text, split.n_images)
    one = open_analysis(runs[0], "dev")
    missed = int(np.flatnonzero(np.asarray(one.text_ranks) > 0)[0])
    first = int(one.text_best[missed, 0])
    wrong = next(text for text in range(split.n_texts) if text != missed)
    append_review(file, Review(keys[first], split.captions[missed], "also-matches", "anna"))
    append_review(
        file, Review(keys[split.image_of_text[wrong]], split.captions[wrong], "wrong-caption", "anna")
    )
    append_review(file, Review("elsewhere.jpg", "a caption of train", "too-vague", "anna"))
    capsys.readouterr()
    assert main(asked) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "labels judged wrong: 1, other matches: 1, verdicts about pairs elsewhere: 1" in printed
    assert "R@K by the labels, and as reviews.jsonl corrects them" in printed
    reviewed = json.loads(document.read_text())["runs"][str(runs[0])]
    assert {key: reviewed[key] for key in labels} == labels, "the labels' metrics stay"
    right = (np.asarray(one.text_ranks) == 0) | (np.arange(split.n_texts) == missed)
    assert json.loads(document.read_text())["reviews_sha256"] == read_reviews(file).fingerprint()
    run = open_run(runs[0])  # the app takes the same from the ten best results of every query
    recall = reviewed_recall(run, "dev", ReviewedSplit.of(run, "dev"), read_reviews(file))
    for row in recall[recall["queries"] == "all"].to_dict("records"):
        for k in (1, 5, 10):
            assert row[f"reviewed_{k}"] == pytest.approx(reviewed[f"{row['direction']}_reviewed_r{k}"])
    assert reviewed["t2i_reviewed_r1"] == pytest.approx(100 * np.delete(right, wrong).mean())

    file.write_text("")
    append_review(file, Review("elsewhere.jpg", "a caption of train", "too-vague", "anna"))
    assert main(asked) == 1
    assert "no verdict in it is about a caption and an image of this split" in capsys.readouterr().err
    assert main([str(runs[0]), "--reviews", str(tmp_path / "none.jsonl")]) == 1


def test_hub_correction_is_a_row_beside_the_run_and_stored_for_the_app(
    runs: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    document = tmp_path / "out.json"
    assert main([*map(str, runs), "--split", "test", "--hub-correction", "--json", str(document)]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "chosen on dev" in printed
    rows = json.loads(document.read_text())["runs"]
    assert list(rows) == [*map(str, runs), "ensemble", *(f"{run}, hubs corrected" for run in runs)]
    analysis, train = open_analysis(runs[0], "test"), evaluated(runs[0], "train")
    stored = read_correction(correction_folder(runs[0], "test", analysis))
    assert stored is not None
    assert stored.metrics == rows[f"{runs[0]}, hubs corrected"]
    scores = analysis.image_embeddings @ analysis.text_embeddings.T
    for way, candidates, queries, axis in (
        ("t2i", analysis.image_embeddings, train.text_embeddings, 1),
        ("i2t", analysis.text_embeddings, train.image_embeddings, 0),
    ):
        k, alpha = stored.strengths[way]
        bias = np.sort(candidates @ queries.T, 1)[:, -k:].mean(1)
        corrected = scores - alpha * np.expand_dims(bias, axis)
        own = corrected[analysis.image_of_text, np.arange(len(analysis.captions))]
        if way == "t2i":
            ranks = (corrected > own).sum(0)
        else:
            best = np.array(
                [own[analysis.image_of_text == image].max() for image in range(analysis.n_images)]
            )
            ranks = (corrected > best[:, None]).sum(1)
        assert stored.metrics[f"{way}_r5"] == pytest.approx(100 * float((ranks < 5).mean()))


def test_hub_correction_reads_pictures_from_where_the_run_has_them(
    towers_folder: Path, tmp_path: Path
) -> None:
    shutil.copytree(towers_folder / "data", tmp_path / "data")
    (tmp_path / "data" / "Flicker8k_Dataset").rename(tmp_path / "pictures")
    config = tower_config(
        towers_folder, epochs=1, data=str(tmp_path / "data"), pictures=str(tmp_path / "pictures")
    )
    run = start_run(config, tmp_path, quiet())
    assert main([str(run), "--split", "test", "--hub-correction"]) == 0
    assert read_correction(correction_folder(run, "test", open_analysis(run, "test"))) is not None


def test_a_run_of_embeddings_is_evaluated_from_what_it_holds(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = import_run_folder(tmp_path, "clip")
    document = tmp_path / "out.json"
    assert main([str(run), "--ways", "5", "--json", str(document)]) == 0
    row = json.loads(document.read_text())["runs"][str(run)]
    assert row["rsum"] == open_analysis(run, "dev").metrics["rsum"]
    assert row["t2i_5way"] > 20
    for asked in (["--split", "test"], ["--hub-correction"]):
        assert main([str(run), *asked]) == 1
        missing = "test" if "test" in asked else "train"
        assert f"holds no embeddings of {missing}" in capsys.readouterr().err


def test_probes_of_pictures_that_the_run_knows(
    runs: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    analysis = evaluated(runs[0], "dev")
    first = np.array(
        [np.flatnonzero(analysis.image_of_text == image)[0] for image in range(analysis.n_images)]
    )
    files, expected = [], {}
    for kind, shift in (("swap_obj", 1), ("add_att", 5)):
        negatives = np.roll(first, shift)
        entries = {
            str(image): {
                "filename": f"{analysis.image_names[image]}.jpg",
                "caption": analysis.captions[first[image]],
                "negative_caption": analysis.captions[negatives[image]],
            }
            for image in range(analysis.n_images)
        }
        entries["unknown"] = {"filename": "other.jpg", "caption": "a dog", "negative_caption": "a cat"}
        (tmp_path / f"{kind}.json").write_text(json.dumps(entries))
        files.append(str(tmp_path / f"{kind}.json"))
        right, wrong = (
            np.einsum("nd,nd->n", analysis.image_embeddings, analysis.text_embeddings[texts])
            for texts in (first, negatives)
        )
        expected[kind] = 100 * float((right > wrong).mean())
    document = tmp_path / "out.json"
    assert main([str(runs[0]), "--probe", *files, "--json", str(document)]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert (
        f"2 of {2 * analysis.n_images + 2} probes are of pictures that it neither knows nor reads" in printed
    )
    row = json.loads(document.read_text())["runs"][str(runs[0])]
    for kind, accuracy in expected.items():
        assert row[f"probe_{kind}"] == pytest.approx(accuracy)
    assert row["probe_all"] == pytest.approx(sum(expected.values()) / 2)
    (tmp_path / "bad.json").write_text(json.dumps({"7": {"filename": "x.jpg", "caption": "a dog"}}))
    assert main([str(runs[0]), "--probe", str(tmp_path / "bad.json")]) == 1
    assert "bad.json entry '7'" in capsys.readouterr().err


def test_similarities_of_every_run_become_a_sheet_of_densities(runs: list[Path], tmp_path: Path) -> None:
    sheet = tmp_path / "similarities.csv"
    assert main([str(runs[0]), "--similarities", str(sheet)]) == 0
    rows = list(csv.DictReader(sheet.open()))
    one = open_analysis(runs[0], "dev")
    n, m = len(one.image_embeddings), len(one.text_embeddings)
    assert sum(int(row["matching"]) for row in rows) == m
    assert sum(int(row["others"]) for row in rows) == n * m - m
    middle = np.array([(float(row["low"]) + float(row["high"])) / 2 for row in rows])
    means = [np.average(middle, weights=[int(row[kind]) for row in rows]) for kind in ("matching", "others")]
    assert means[0] - means[1] == pytest.approx(one.metrics["md"], abs=0.02)
    assert main([str(runs[0]), "--similarities", str(sheet)]) == 1


@pytest.mark.parametrize(
    ("flags", "said"), [(["1", "5"], "2 options or more"), (["5", "--ways-repeats", "1"], "2 or")]
)
def test_choices_that_leave_nothing_to_choose_are_refused(
    runs: list[Path], flags: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([str(runs[0]), "--ways", *flags]) == 1
    assert said in capsys.readouterr().err


def test_a_file_that_exists_is_replaced_only_when_asked(runs: list[Path], tmp_path: Path) -> None:
    kept = tmp_path / "kept.csv"
    kept.write_text("mine")
    assert main([str(runs[0]), "--csv", str(kept)]) == 1
    assert kept.read_text() == "mine"
    assert main([str(runs[0]), "--csv", str(kept), "--overwrite"]) == 0
    assert kept.read_text().startswith("run,split")


@pytest.mark.parametrize("flag", ["--csv", "--json", "--similarities", "--curve"])
def test_a_file_that_cannot_be_written_is_refused_before_the_work(
    tmp_path: Path, flag: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for file, said in (
        (tmp_path / "missing" / "a", "there is no folder"),
        (tmp_path / (300 * "a"), "too long"),
    ):
        assert main([str(tmp_path / "no-run"), flag, str(file)]) == 1
        told = capsys.readouterr().err
        assert f"error: {flag} {file}: " in told
        assert said in told
        assert "no-run" not in told.replace(str(file), "")


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (
            ["--blend", "0.5", "1.00001", "nan"],
            "error: --blend: holds 1.00001 nan; expected numbers from 0 to 1",
        ),
        (["--blend", "0.5", "1", ".5"], "error: --blend: holds 0.5 more than once"),
        (["--blend", "0.5", "1"], "has no tuned tower that --blend could blend"),
        (["--curve", "curve.html"], "error: --curve: is R@sum against α; expected --blend 0.0 0.5 1.0"),
    ],
)
def test_what_cannot_be_blended_is_refused(
    runs: list[Path], flags: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([str(runs[0]), *flags]) == 1
    assert said in capsys.readouterr().err
    assert main([*map(str, runs), "--blend", "1"]) == 1
    assert "is given with 2 runs" in capsys.readouterr().err


def test_it_refuses_missing_runs_splits_and_other_features(
    runs: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([str(tmp_path / "nothing")]) == 1
    assert "nothing" in capsys.readouterr().err
    assert main([str(runs[0]), "--split", "nosplit"]) == 1
    assert 'there is no split "nosplit"' in capsys.readouterr().err
    other = write_tiny_data(tmp_path / "wide")
    wide = read_split(other, "dev").features
    np.save(other / "dev_ims.npy", np.concatenate([wide, wide], axis=-1))
    assert main([str(runs[0]), "--data", str(other)]) == 1
    assert "numbers a region" in capsys.readouterr().err


def test_a_broken_split_is_refused_in_the_words_of_check_data(
    runs: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = write_tiny_data(tmp_path / "broken")
    features = np.array(read_split(broken, "dev").features)
    features[3, 1, 0] = np.nan
    np.save(broken / "dev_ims.npy", features)
    assert main([str(runs[0]), "--data", str(broken)]) == 1
    message = capsys.readouterr().err
    assert "dev_ims.npy" in message
    assert "NaN" in message or "finite" in message
