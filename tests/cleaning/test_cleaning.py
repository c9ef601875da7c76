"""train --clean: scorers trained on halves find the exchanged captions; the command resumes from any point."""

import itertools
import os
import re
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image
from sklearn.metrics import roc_auc_score

from coder_core.ablation.results import _found, collect_results
from coder_core.ablation.rows import AblationTable, Row
from coder_core.api import open_run
from coder_core.api.data_quality import cross_fitted, error_probability, small_losses
from coder_core.cleaning import (
    Cleaned,
    Origin,
    _scorers_of,
    _with_kind_of_scorers,
    read_cleaning,
    scorer_runs,
    without_wrong_pairs,
    write_reviews,
)
from coder_core.config.schema import Config, changed_flags
from coder_core.data.augmentation import exchange_captions
from coder_core.data.reviews import CLEANING, Review, append_review, read_reviews
from coder_core.evaluate import main as evaluate
from coder_core.model.run_towers import open_towers
from coder_core.queue.planned import commands
from coder_core.runs.load import read_config
from coder_core.runs.record import RunLock, read_status
from coder_core.train import main
from coder_core.training.launch import start_run
from coder_core.training.prepare import Inputs, prepare
from coder_core.training.reviewed import apply_reviews, named_reviews, reviews_of_run
from tests.support.precomp_folders import assert_refused, refusal
from tests.support.run_folders import COLOURS as PAINTS
from tests.support.tiny_runs import changed, newest_state, printed, quiet, tiny_config
from tests.support.tiny_towers import tower_config, write_tiny_clip

COLOURS = ("red", "blue", "green", "black", "white")
THINGS = ("dog", "cat", "car", "boat", "bird")
PLACES = "park", "lake", "hill"
WAYS = "{} {} {}", "a {} {} in the {}", "{} {} at a {}", "one {} {} near the {}", "the {} {} and a {}"
IMAGES = 75
SHARE = 0.2
SEED = 5
VALUES = {"concepts": 0, "bank_size": 0, "dimension": 16, "epochs": 10, "batch_size": 25, "warmup_steps": 4}
VALUES |= {"text_layers": 1, "learning_rate": 3e-2, "evaluate_every": 10}
VALUES |= {"image_dropout": 0.0, "embedding_dropout": 0.0, "wrong_captions": SHARE, "seed": SEED}


def write_told_data(folder, captions):
    """Write images that each show a different combination of colour, thing and place, which its captions name."""
    folder.mkdir(parents=True)
    random = np.random.default_rng(0)
    codes = {word: random.normal(size=12) for word in (*COLOURS, *THINGS, *PLACES)}
    scenes = [(colour, thing, place) for colour in COLOURS for thing in THINGS for place in PLACES]
    for split, count in (("train", IMAGES), ("dev", 15)):
        shown = [np.stack([codes[word] for word in scene]) for scene in scenes[:count]]
        np.save(folder / f"{split}_ims.npy", np.array(shown, np.float32))
        lines = [way.format(*scene) for scene in scenes[:count] for way in WAYS[:captions]]
        (folder / f"{split}_caps.txt").write_text("".join(f"{line}\n" for line in lines))
    return folder


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


def wrong_rows(captions, images=IMAGES):
    """Return (m,) bool: the captions that are exchanged for another image's."""
    owner = np.repeat(np.arange(images), captions)
    return exchange_captions(owner, SHARE, SEED) != np.arange(len(owner))


def command(config, root):
    """Return the arguments that train a configuration with --clean."""
    return [*changed_flags(Config(), config), f"--root={root}", f"--name={config.name}", "--clean"]


def left_out(run, reviews="cleaned.jsonl"):
    """Return (m,) bool: the pairs that a finished run did not train on."""
    assert (read_status(run) or {})["state"] == "finished"
    trained = read_config(run)[0]
    assert (trained.cleaning.clean, trained.data.reviews) == (True, f"{run}-{reviews}")
    data = prepare(trained, Inputs(towers=open_towers(trained), reviews=named_reviews(trained))).data
    stay = set(zip(data.train.captions, data.train.image_of_text.tolist(), strict=True))
    pairs = zip(data.as_read.captions, data.as_read.image_of_text.tolist(), strict=True)
    return np.array([pair not in stay for pair in pairs])


def halves(root):
    return [root / "mine-half", root / "mine-other-half"]


def train_scorers(config, root, ending="", count=2):
    """Train and evaluate the first `count` scorers of a round in this process, as the command does in others."""
    for scorer in scorer_runs(config, Origin.of(config, root), ending)[:count]:
        start_run(scorer.config, root, quiet())
        [evaluation] = commands(scorer, "train")
        arguments = evaluation[evaluation.index("coder_core.evaluate") + 1 :]
        assert evaluate([*arguments, "--device=cpu"]) == 0
        assert not (open_run(scorer.folder).ranks("train")["t2i"] >= 0).any()  # cleaning reads no ranks


@pytest.fixture(scope="module")
def scored(tmp_path_factory):
    """Folder of two finished scorers, trained with five captions per image, and the configuration of their run."""
    root = tmp_path_factory.mktemp("cleaned")
    config = tiny_config(write_told_data(root / "data", 5), "mine", **VALUES)
    train_scorers(config, root)
    return root, config


@pytest.fixture
def copied(scored, tmp_path):
    """Copy the scorers to `tmp_path`; the configuration of their run."""
    for folder in halves(scored[0]):
        shutil.copytree(folder, tmp_path / folder.name)
    return scored[1]


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


def test_pairs_are_weighted_by_their_probability_of_being_right(scored, tmp_path):
    root, config = scored
    short = command(changed(config, epochs=1), tmp_path)
    assert main([*short, "--clean-weigh", f"--clean-scorers={root / 'mine'}"]) == 0
    trained, about = read_config(tmp_path / "mine")
    file = root / "mine-weighed.jsonl"
    assert trained.data.reviews == str(file)
    table = cross_fitted(*map(open_run, halves(root)))
    expected = np.ones(len(table))
    probability = error_probability(table["random"].to_numpy())
    expected[table["caption"]] = np.where(probability >= 0.05, 1 - probability, 1)
    used = named_reviews(trained)
    result = apply_reviews(prepare(trained, Inputs(reviews=used)).data.as_read, used, trained.data)
    stay = expected >= 0.0005
    assert result.split.n_texts == stay.sum()
    weights = np.ones(stay.sum()) if result.weights is None else result.weights
    np.testing.assert_allclose(weights, expected[stay], atol=0.0006)
    again = reviews_of_run(tmp_path / "mine", trained, trained, about)
    assert (again.weights, again.fingerprint) == (used.weights, used.fingerprint)
    pair = next(iter(used.weights))
    append_review(file, Review(*pair, "label-right", "anna"))
    assert named_reviews(trained).weights == {name: w for name, w in used.weights.items() if name != pair}


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


def test_copies_of_a_pair_are_left_out_only_together_and_every_file_names_its_rule(scored, tmp_path):
    pairs = [("a", "x"), ("a", "x"), ("b", "y"), ("b", "y")]
    table = pd.DataFrame({"pair": pairs, "probability": [0.9, 0.1, 0.9, 0.8], "scorer": "half"})
    tags = set()
    names = ("file", "other")
    for name, left in zip(names, (table, table[:2]), strict=True):
        config = changed(scored[1], data="long" * 20 + name)
        write_reviews(tmp_path / name, left, config, quiet())
        [review] = read_reviews(tmp_path / name).all
        assert (review.image, review.verdict) == (("b", "wrong-caption") if name == "file" else ("a", "none"))
        tags.add(review.tags)
    assert len(tags) == 2
    console = quiet()
    people = tmp_path / "people"
    append_review(people, Review("b", "", "label-right", "anna"))
    append_review(people, Review("c", "z", "too-vague", "anna"))
    more = pd.DataFrame({"pair": [("c", "z"), ("d", "z")], "probability": [0.2, 0.9], "scorer": "half"})
    config = changed(scored[1], reviews=str(people))
    write_reviews(tmp_path / "all", pd.concat([table, more], ignore_index=True), config, console)
    assert "left out: 1 of 6, given less weight: 1;" in printed(console)
    assert _found([Cleaned(1.0, np.nan, 0.0), Cleaned(1.0, 90.0, 80.0)]) is None, "one left nothing out"


def test_doubtful_pairs_get_less_weight_and_surely_wrong_ones_none(scored, tmp_path):
    probabilities = [1.0, 0.7, 0.2, 0.01]
    pairs = [(f"{number}.jpg", "a dog") for number in range(4)]
    table = pd.DataFrame({"pair": pairs, "probability": probabilities, "scorer": "half"})
    write_reviews(tmp_path / "file", table, changed(scored[1], clean_weigh=True), quiet())
    weights = read_reviews(tmp_path / "file").weights
    assert {pair: float(weight) for pair, weight in weights.items()} == {
        pairs[0]: 0.0,
        pairs[1]: 0.3,
        pairs[2]: 0.8,
    }


def test_small_loss_selection_ranks_exchanged_captions_first(scored):
    config = changed(scored[1], clean=True, clean_by="small-loss")
    [scorer] = scorer_runs(config, Origin.of(config, scored[0]))
    assert (scorer.config.training.epochs, scorer.config.data.train_part) == (2, 1.0)
    train_scorers(config, scored[0])
    table = small_losses(open_run(scorer.folder))
    assert sorted(table["caption"]) == list(range(IMAGES * 5))
    assert (np.diff(table["score"]) <= 0).all()
    assert roc_auc_score(wrong_rows(5)[table["caption"]], table["probability"]) > 0.8


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


def test_error_probability_is_calibrated_on_a_known_mixture():
    random = np.random.default_rng(0)
    wrong = np.arange(20_000) < 8_000
    share = np.where(wrong, random.uniform(0, 100, 20_000), np.minimum(random.exponential(4, 20_000), 100))
    probability = error_probability(share)
    assert (np.diff(probability[np.argsort(share)]) >= 0).all()
    assert abs(probability.mean() - 0.4) < 0.01
    for low, high in ((0.0, 0.2), (0.2, 0.5), (0.5, 0.9), (0.9, 1.1)):
        within = (probability >= low) & (probability < high)
        assert abs(wrong[within].mean() - probability[within].mean()) < 0.05
    assert error_probability(np.zeros(10)).tolist() == [0.0] * 10
    rare = np.repeat([0.0, 80.0], [29_994, 6])  # right pairs that look like random ones
    assert not error_probability(rare).any()
    assert error_probability(np.repeat([0.0, 80.0], [29_940, 60]))[-1] == 1


@pytest.mark.parametrize(
    "flags", ["--train-part=0.5", "--clean-above=0", "--temperature=0", "--clean-scorers=a:b:c", "torchrun"]
)
def test_invalid_values_and_several_processes_are_refused(scored, tmp_path, flags, monkeypatch, complaint):
    if flags == "torchrun":
        monkeypatch.setenv("WORLD_SIZE", "2")
    given = [flags] if flags.startswith("--") else []
    assert flags.partition("=")[0] in complaint(main, [*command(scored[1], tmp_path / "runs"), *given])
    assert not (tmp_path / "runs").exists()
