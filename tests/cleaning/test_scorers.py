"""The runs that score pairs: which they are, their settings, and when they are refused."""

import itertools
import os
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from sklearn.metrics import roc_auc_score

from coder_core.api import open_run
from coder_core.api.data_quality import cross_fitted, small_losses
from coder_core.cleaning import Origin, scorer_runs, without_wrong_pairs
from coder_core.cleaning.rounds import _with_kind_of_scorers
from coder_core.data.reviews import Review, append_review, read_reviews
from coder_core.runs.record import RunLock
from coder_core.train import main
from tests.support.cleaned_runs import IMAGES, SHARE, command, halves, left_out, train_scorers, wrong_rows
from tests.support.precomp_folders import assert_refused, refusal
from tests.support.run_folders import COLOURS as PAINTS
from tests.support.tiny_runs import changed, printed, quiet
from tests.support.tiny_towers import tower_config, write_tiny_clip


def test_scorers_inherit_the_runs_settings_and_second_round_names_end_in_2(scored):
    config = changed(scored[1], reviews="first.jsonl", concepts=0, loss="infonce", temperature=0.05)
    origin = Origin(scored[0] / "new", shared=False)
    first, second = (scorer_runs(config, origin, ending) for ending in ("", "-2"))
    assert [scorer.folder.name for scorer in second] == ["new-half-2", "new-other-half-2"]
    for scorer, other in zip(first, (False, True), strict=True):
        data = scorer.config.data
        objective = scorer.config.objective
        assert (data.reviews, data.train_part, data.other_part) == ("first.jsonl", 0.5, other)
        assert (objective.loss, objective.temperature) == ("infonce", 0.05), "the run's own"
        assert scorer.config.training.warmup_steps == 2
        assert not scorer.config.cleaning.clean


def test_shared_scorers_are_kept_and_used_as_they_are_and_later_reviews_by_people_win(copied, tmp_path):
    config = copied
    people = tmp_path / "people.jsonl"
    file = Path(without_wrong_pairs(changed(config, clean=True), tmp_path, quiet()).data.reviews)
    pair = read_reviews(file).all[0].pair
    append_review(people, Review(*pair, "label-right", "anna"))
    shared = changed(config, clean=True, clean_scorers=str(tmp_path / "mine"), reviews=str(people))
    shared = replace(changed(shared, keep_scorers=False, image_dropout=0.3), name="other")
    without_wrong_pairs(shared, tmp_path, quiet())
    assert read_reviews(file).verdicts[pair] == "label-right"
    weighed = without_wrong_pairs(changed(shared, clean_weigh=True), tmp_path, quiet()).data.reviews
    assert weighed == str(tmp_path / "mine-weighed.jsonl")
    assert read_reviews(Path(weighed)).verdicts[pair] == "label-right"
    assert all(folder.exists() for folder in halves(tmp_path)), "they belong to the other run"
    for key, value in {"seed": 6, "clean_scorers": str(tmp_path / "mein")}.items():
        config = changed(shared, clean_weigh=key == "seed", **{key: value})
        refusal(without_wrong_pairs, config, tmp_path, quiet())


def test_commands_with_the_same_scorers_take_turns(copied, tmp_path):
    own = changed(copied, clean=True)
    console = quiet()
    shared = replace(changed(own, clean_scorers=str(tmp_path / "mine")), name="other")
    (tmp_path / "logs").mkdir()
    with RunLock(tmp_path / "mine", tmp_path / "logs" / "mine-cleaned.lock") as held:
        assert_refused(f"mine: .* process {os.getpid()} ", without_wrong_pairs, own, tmp_path, quiet())
        console.file.flush = held.__exit__  # frees the lock at the first line
        without_wrong_pairs(shared, tmp_path, console)
    assert f"waiting: {tmp_path / 'mine'} is being written by process {os.getpid()} " in printed(console)


def test_the_reason_of_a_failed_scorer_is_named(scored, tmp_path, capsys):
    assert main([*command(scored[1], tmp_path), "--batch-size=1000", "--clean-by=small-loss"]) == 1
    assert re.search(r"mine-warm-up: .*--batch-size: .* 1000.*mine-warm-up\.log", capsys.readouterr().err)


def test_small_loss_selection_ranks_exchanged_captions_first(scored):
    config = changed(scored[1], clean=True, clean_by="small-loss")
    [scorer] = scorer_runs(config, Origin.of(config, scored[0]))
    assert (scorer.config.training.epochs, scorer.config.data.train_part) == (2, 1.0)
    train_scorers(config, scored[0])
    table = small_losses(open_run(scorer.folder))
    assert sorted(table["caption"]) == list(range(IMAGES * 5))
    assert (np.diff(table["score"]) <= 0).all()
    assert roc_auc_score(wrong_rows(5)[table["caption"]], table["probability"]) > 0.8


@pytest.mark.parametrize(
    ("changes", "by"),
    [
        ({}, "regression"),
        ({"clean_loss": "dcl"}, "halves"),
        ({"wrong_captions": 1.0}, "halves"),  # then no pair is better than a random one
    ],
)
def test_a_regression_judges_if_its_evidence_is_strong_and_no_scorers_are_asked_for(
    scored, tmp_path, changes, by
):
    config = changed(scored[1], clean=True, **changes)
    chosen, found = _with_kind_of_scorers(config, Origin.of(config, tmp_path), quiet())
    assert chosen == changed(config, clean_by=by)
    assert (found is not None) == (by == "regression")
    (tmp_path / "mine-half").mkdir()  # a scorer has begun
    assert (
        _with_kind_of_scorers(config, Origin.of(config, tmp_path), quiet())[0].cleaning.clean_by == "halves"
    )
    asked = changed(config, clean_by="small-loss")
    assert _with_kind_of_scorers(asked, Origin.of(asked, tmp_path), quiet()) == (asked, None)


def test_scorers_that_learned_nothing_are_refused(scored, tmp_path, complaint):
    config = changed(scored[1], epochs=1, learning_rate=1e-9, wrong_captions=1.0)
    train_scorers(config, tmp_path)
    assert "mine-half and mine-other-half" in complaint(main, command(config, tmp_path))
    assert not (tmp_path / "mine").exists()


def write_painted_data(folder):
    """Write 36 train and 6 dev pictures of two colours, with three captions each that name both."""
    folder.mkdir()
    names = ("red", "blue", "lime", "gold", "teal", "navy", "pink")
    lines = ["image,caption,split"]
    scenes = np.random.default_rng(0).permutation(list(itertools.permutations(range(7), 2))).tolist()
    for number, (above, below) in enumerate(scenes):
        picture = Image.new("RGB", (32, 32), PAINTS[above])
        picture.paste(PAINTS[below], (0, 16, 32, 32))
        picture.save(folder / f"{number}.png")
        for way in ("{} {}", "a {} {}", "{} on {}"):
            caption = way.format(names[above], names[below])
            lines.append(f"{number}.png,{caption},{'train' if number < 36 else 'dev'}")
    (folder / "captions.csv").write_text("\n".join(lines))
    return folder


@pytest.fixture(scope="module")
def painted(tmp_path_factory):
    """Folder with a tiny CLIP, and pictures that match their captions."""
    folder = tmp_path_factory.mktemp("painted")
    write_tiny_clip(folder / "clip")
    write_painted_data(folder / "data")
    return folder


def test_tower_scorers_drop_exchanged_captions_at_twice_the_rate_of_others(painted, tmp_path):
    values = {"image_tuning": "lora", "text_tuning": "lora", "learning_rate": 1e-2, "epochs": 4}
    config = tower_config(painted, "mine", batch_size=12, wrong_captions=SHARE, **values)
    train_scorers(config, tmp_path)
    assert main(command(config, tmp_path)) == 0
    table = cross_fitted(*map(open_run, halves(tmp_path)))
    wrong = wrong_rows(3, 36)
    assert roc_auc_score(wrong[table["caption"]], table["score"]) > 0.7
    gone = left_out(tmp_path / "mine")
    assert gone[wrong].mean() > 2 * gone[~wrong].mean()


@pytest.mark.parametrize(
    "flags", ["--train-part=0.5", "--clean-above=0", "--temperature=0", "--clean-scorers=a:b:c", "torchrun"]
)
def test_invalid_values_and_several_processes_are_refused(scored, tmp_path, flags, monkeypatch, complaint):
    if flags == "torchrun":
        monkeypatch.setenv("WORLD_SIZE", "2")
    given = [flags] if flags.startswith("--") else []
    assert flags.partition("=")[0] in complaint(main, [*command(scored[1], tmp_path / "runs"), *given])
    assert not (tmp_path / "runs").exists()
