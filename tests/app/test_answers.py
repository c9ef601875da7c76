"""Answers are stored under the run, its state and all arguments: equal questions share one, all others have their own."""

import shutil
from itertools import combinations

import numpy as np
import pytest

from app.ask import all_runs, ask, ask_all, keyed
from coder_core.api import LossSettings
from coder_core.api.sampling import Sample
from tests.support.run_folders import write_run

LONG = np.arange(5_000)
CHANGED = np.where(LONG == 2_500, -1, LONG)  # in the part that a printed array leaves out
DIFFERENT = (
    None,
    1,
    1.0,
    True,
    "1",
    b"1",
    ("a", "b"),
    ("ab",),
    {"a": 1},
    LONG,
    CHANGED,
    LONG.reshape(50, 100),
    LONG.astype(np.float64),
    LossSettings(),
    LossSettings(temperature=0.5),
    Sample(LONG, LONG, 9_000, 9_000),
    Sample(LONG, CHANGED, 9_000, 9_000),
    keyed("a", 1),
    keyed("b", 1),
)
ARRAY = next(place for place, argument in enumerate(DIFFERENT) if argument is LONG)


def computed(run, *args, **kwargs):
    """A question whose every computation is a new object."""
    return object()


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    root = tmp_path_factory.mktemp("answers")
    for name in ("first", "second"):
        write_run(root, name, images=4, pictures=False)
    return root


@pytest.fixture
def runs(root, monkeypatch):
    monkeypatch.setenv("CODER_CHECKPOINTS", str(root))
    return all_runs()


def test_different_arguments_have_different_answers_and_equal_ones_the_same(runs):
    answers = [ask(computed, runs[0], argument) for argument in DIFFERENT]
    assert all(a is not b for a, b in combinations(answers, 2))
    assert ask(computed, runs[0], LONG.copy()) is answers[ARRAY]
    assert ask(computed, runs[0], Sample(LONG.copy(), CHANGED.copy(), 9_000, 9_000)) is answers[-3]
    assert ask(computed, runs[0], keyed("a", 2)) is answers[-2]  # the key alone counts


def test_runs_their_order_and_names_of_arguments_count(runs):
    first, second = runs
    asked = [ask(computed, first), ask(computed, second), ask(computed, first, 1), ask(computed, first, a=1)]
    asked += [
        ask(computed, first, b=1),
        ask_all(computed, [first, second]),
        ask_all(computed, [second, first]),
    ]
    assert all(a is not b for a, b in combinations(asked, 2))
    assert ask(computed, first, a=1) is asked[3]


def test_an_argument_of_unknown_identity_is_refused(runs):
    with pytest.raises(TypeError, match="cannot be cached under object"):
        ask(computed, runs[0], object())


def test_a_rewritten_analysis_has_new_answers(root, runs):
    before = ask(computed, runs[0])
    shutil.rmtree(root / "first")
    write_run(root, "first", images=5, pictures=False)
    all_runs(["a run that is not there"])  # lists them again
    assert ask(computed, all_runs()[0]) is not before
