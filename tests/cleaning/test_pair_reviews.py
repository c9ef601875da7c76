"""The reviews of a cleaned run: which pairs they are about, their rule, their weights."""

import numpy as np
import pandas as pd

from coder_core.ablation.results import _found
from coder_core.api import open_run
from coder_core.api.data_quality import cross_fitted, error_probability
from coder_core.cleaning import Cleaned, write_reviews
from coder_core.data.reviews import Review, append_review, read_reviews
from coder_core.runs.load import read_config
from coder_core.train import main
from coder_core.training.prepare import Inputs, prepare
from coder_core.training.reviewed import apply_reviews, named_reviews, reviews_of_run
from tests.support.cleaned_runs import command, halves
from tests.support.tiny_runs import changed, printed, quiet


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
