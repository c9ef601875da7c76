"""train --clean from end to end: exchanged captions are found; the command resumes from any point."""

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import roc_auc_score

from coder_core.ablation.results import collect_results
from coder_core.ablation.rows import AblationTable, Row
from coder_core.api import open_run
from coder_core.api.data_quality import cross_fitted
from coder_core.cleaning import Origin, read_cleaning, scorer_runs, without_wrong_pairs, write_reviews
from coder_core.cleaning.accuracy import _scorers_of
from coder_core.config.schema import Config, changed_flags
from coder_core.data.reviews import CLEANING, Review, append_review, read_reviews
from coder_core.runs.load import read_config
from coder_core.runs.record import read_status
from coder_core.train import main
from coder_core.training.prepare import Inputs, prepare
from coder_core.training.reviewed import named_reviews
from tests.support.cleaned_runs import (
    IMAGES,
    VALUES,
    command,
    halves,
    left_out,
    train_scorers,
    write_told_data,
    wrong_rows,
)
from tests.support.tiny_runs import changed, newest_state, quiet, tiny_config


def test_cleaning_drops_most_exchanged_captions_and_few_others(copied, tmp_path):
    config = copied
    wrong = wrong_rows(5)
    assert main([*command(config, tmp_path), "--no-keep-scorers"]) == 0
    assert not any(folder.exists() for folder in halves(tmp_path))
    assert np.isnan(read_cleaning(tmp_path / "mine").seconds), "its scorers are gone"
    reviews = read_reviews(tmp_path / "mine-cleaned.jsonl").all
    assert {(review.reviewer, review.verdict) for review in reviews} == {(CLEANING, "wrong-caption")}
    gone = left_out(tmp_path / "mine")
    assert gone.sum() == len(reviews)
    assert gone[wrong].mean() > 0.8
    assert gone[~wrong].mean() < 0.1
    state = newest_state(tmp_path / "mine").fingerprint
    assert main(command(config, tmp_path)) == 0, "the finished run ends at once, without scorers"
    assert newest_state(tmp_path / "mine").fingerprint == state
    assert main([*command(config, tmp_path), "--clean-above=0.9"]) == 1, "it began with another value"
    assert main(command(changed(config, wrong_captions=0.0), tmp_path)) == 1, "and with wrong captions"


def test_scorers_of_a_second_round_train_on_the_pairs_that_the_first_kept(copied, tmp_path):
    config = changed(copied, clean=True, clean_by="halves")
    wrong = wrong_rows(5)
    first = tmp_path / "mine-cleaned.jsonl"
    without_wrong_pairs(config, tmp_path, quiet())
    train_scorers(changed(config, reviews=str(first)), tmp_path, "-2")
    assert main([*command(config, tmp_path), "--clean-rounds=2"]) == 0
    captions = []
    dropped = {review.caption for review in read_reviews(first).all}  # all captions are different
    for folder in halves(tmp_path):
        scorer = read_config(folder.with_name(f"{folder.name}-2"))[0]
        assert (scorer.data.reviews, scorer.data.train_part) == (str(first), 0.5)
        captions += prepare(scorer, Inputs(reviews=named_reviews(scorer))).data.train.captions
    assert len(captions) == IMAGES * 5 - len(dropped)
    assert not dropped & set(captions)
    gone = left_out(tmp_path / "mine", "cleaned-2.jsonl")
    assert gone[wrong].mean() > 0.8
    assert gone[~wrong].mean() < 0.1
    scorers = [*halves(tmp_path), *(folder.with_name(f"{folder.name}-2") for folder in halves(tmp_path))]
    seconds = [read_status(scorer)["seconds"] for scorer in scorers]
    assert read_cleaning(tmp_path / "mine").seconds == sum(seconds)

    def last_reviews(name):
        """Return the reviews of a run that shares these scorers and lets cleaning decide on a second round."""
        shared = replace(changed(config, clean_scorers=str(tmp_path / "mine")), name=name)
        return Path(without_wrong_pairs(shared, tmp_path, quiet()).data.reviews).name

    assert last_reviews("other") == "mine-cleaned.jsonl", "the first round leaves out less than half"
    suspicious = [(f"{number}.jpg", "a dog") for number in range(IMAGES * 5 // 2 + 1)]
    table = pd.DataFrame({"pair": suspicious, "probability": 0.9, "scorer": "half"})
    write_reviews(first, table[1:], config, quiet())
    assert last_reviews("other") == "mine-cleaned.jsonl", "187 of 375 pairs"
    write_reviews(first, table, config, quiet())
    assert last_reviews("other") == "mine-cleaned-2.jsonl", "188 of 375 pairs"
    started = replace(changed(config, reviews=str(first)), name="mine")
    assert len(_scorers_of(tmp_path / "mine", started)) == 2, "its reviews are those of the first round"
    for folder in halves(tmp_path):
        shutil.rmtree(folder)
    assert last_reviews("other") == "mine-cleaned-2.jsonl", "scorers are removed after the last round"


def test_cleaning_continues_after_one_scorer_with_one_caption_per_image(tmp_path):
    values = VALUES | {"epochs": 30, "batch_size": 40, "warmup_steps": 32}
    config = tiny_config(write_told_data(tmp_path / "data", 1), "mine", **values)
    people = tmp_path / "people.jsonl"
    again = command(config, tmp_path)
    append_review(people, Review("elsewhere.jpg", "a dog", "wrong-caption", "anna"))
    train_scorers(changed(config, reviews=str(people)), tmp_path, count=1)
    first = newest_state(tmp_path / "mine-half").fingerprint
    assert main(again) == 1, "the other scorer would train without reviews"
    assert main([*again, f"--reviews={people}"]) == 0, "trains the other scorer in a process"
    assert newest_state(tmp_path / "mine-half").fingerprint == first
    trained = read_config(tmp_path / "mine-other-half")[0].training
    assert (trained.batch_size, trained.warmup_steps) == (9, 12), "a quarter of 37, a tenth of 120"
    table = cross_fitted(*map(open_run, halves(tmp_path)))
    wrong = wrong_rows(1)
    assert roc_auc_score(wrong[table["caption"]], table["score"]) > 0.8
    reviews = read_reviews(tmp_path / "mine-cleaned.jsonl")
    assert [review.reviewer for review in reviews.all][:2] == ["anna", CLEANING]
    assert len(read_reviews(people).all) == 1, "people's own file stays"
    gone = left_out(tmp_path / "mine")
    assert gone[wrong].mean() > 0.7
    assert gone[~wrong].mean() < 0.1

    # another run can share the scorers, but only with the same cleaning rule
    other = [*changed_flags(Config(), changed(config, epochs=1)), f"--root={tmp_path}", "--name=other-s5"]
    shared = [*other, "--clean", f"--clean-scorers={tmp_path / 'mine'}", f"--reviews={people}"]
    assert [main([*shared, flag]) for flag in ("--clean-above=0.9", "--wrong-captions=0.3")] == [1, 1]
    assert main(shared) == 0
    assert read_config(tmp_path / "other-s5")[0].data.reviews == str(tmp_path / "mine-cleaned.jsonl")
    assert not (tmp_path / "other-s5-half").exists()
    config = changed(config, epochs=1, clean=True, clean_scorers=str(tmp_path / "mine"), reviews="first")
    second = scorer_runs(config, Origin.of(config, tmp_path), "-2")[0]
    assert (second.folder.name, second.config.data.reviews) == ("mine-half-2", "first")
    assert second.config.training.epochs == 30, "of the named run"

    # the row of a table has the scorers' precision and recall, and includes their training time
    table = AblationTable("mine", "mine", (Row("other", "other"),), "other")
    [row] = collect_results(table, tmp_path, "dev").rows
    precision, recall = (value.mean for value in row.cleaning)
    assert precision == pytest.approx(100 * wrong[gone].mean())
    assert recall == pytest.approx(100 * gone[wrong].mean())
    seconds = [read_status(folder)["seconds"] for folder in (*halves(tmp_path), tmp_path / "other-s5")]
    assert row.minutes == pytest.approx(sum(seconds) / 60)


def test_a_regression_finds_exchanged_captions_without_scorers(scored, tmp_path, capsys, complaint):
    config = changed(scored[1], epochs=1, clean_by="regression")
    assert main(command(config, tmp_path)) == 0
    assert f"reviews of train: {tmp_path / 'mine-cleaned.jsonl'}" in capsys.readouterr().out
    assert not (tmp_path / "mine-half").exists()
    gone = left_out(tmp_path / "mine")
    wrong = wrong_rows(5)
    assert gone[wrong].mean() > 0.7
    assert gone[~wrong].mean() < 0.1
    cleaned = read_cleaning(tmp_path / "mine")
    assert cleaned.seconds == 0
    assert cleaned.precision == pytest.approx(100 * wrong[gone].mean())
    assert cleaned.recall == pytest.approx(100 * gone[wrong].mean())
    again = replace(config, name="other")
    for flags in (["--clean-rounds=2"], ["--clean-loss=dcl"], ["--image-tower=tower"]):
        assert "--clean-by regression " in complaint(main, [*command(again, tmp_path), *flags])
