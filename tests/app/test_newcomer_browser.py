"""A newcomer's first ten minutes with two trained runs: from a comparison to a training run that uses verdicts, and
from suspicious pairs to a training run without them."""

import re

import numpy as np
import pytest

from app.views.train.runs import RESULTS
from coder_core.api import open_run
from coder_core.api.data_quality import cross_fitted, error_probability
from coder_core.config.schema import differences
from coder_core.data.reviews import read_reviews
from coder_core.runs.load import read_config
from coder_core.runs.record import read_status
from coder_core.training.launch import start_run
from tests.console.test_processes import until
from tests.support.cleaned_runs import VALUES, left_out, train_scorers, write_told_data
from tests.support.numerics import numerics_unchanged
from tests.support.tiny_runs import quiet, tiny_config, write_tiny_data

MOST_CLICKS = 12


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Folder of two runs, beside the data set on which they were trained."""
    base = tmp_path_factory.mktemp("newcomer")
    data = write_tiny_data(base / "sets" / "tiny", images=120)
    with numerics_unchanged():
        for seed, name in enumerate(("baseline", "coder")):
            start_run(tiny_config(data, name, seed=seed, epochs=1), base / "runs", quiet())
    return base / "runs"


class Newcomer:
    """User who clicks on what the page shows."""

    def __init__(self, visit):
        self.visit = visit
        self.page = visit.page

    def click(self, target):
        target.first.click()
        self.visit.settle()

    def button(self, name):
        self.click(self.page.get_by_role("button", name=name, exact=True))

    def link(self, name):
        self.click(self.page.get_by_role("link", name=name, exact=True))


def verdicts(file):
    """Return caption and verdict of every judged pair."""
    return [(review.caption, review.verdict) for review in read_reviews(file).all] if file.exists() else []


def test_a_newcomer_gets_from_a_comparison_to_training_with_verdicts(trained, visit, move):
    file = trained.parent / "sets" / "tiny" / "reviews.jsonl"
    new = trained / "coder-reviewed"
    move(trained.parent)
    one = Newcomer(visit)
    page = visit.page
    visit.open("")
    visit.clicks = 0
    visit.show(re.compile("R@sum"))
    one.click(page.locator(".st-key-broken tbody tr"))
    visit.titled("Retrieval")
    broken = visit.number("Caption number")
    ranks = [open_run(trained / name).ranks("dev")["t2i"][broken] for name in ("baseline", "coder")]
    assert ranks[0] == 0 < ranks[1]
    panel = page.locator(".st-key-opened")
    one.click(panel.get_by_role("link", name="diversity", exact=True))  # the cause
    visit.titled("Diversity")
    assert visit.number("Caption number") == broken
    one.click(panel.get_by_role("button", name="Too vague"))
    panel.get_by_role("button", name="Undo", exact=True).wait_for()
    assert verdicts(file) == [(open_run(trained / "coder").captions("dev")[broken], "too-vague")]
    one.link("Data")
    visit.titled("Data")
    one.link("Reviews")
    visit.titled("Reviews")
    one.button("Evaluate on train")
    page.get_by_role("button", name="Evaluate on train").wait_for(state="detached")
    one.click(page.get_by_label("Split", exact=True))
    one.click(page.get_by_role("option", name="train", exact=True))
    one.click(page.locator(".st-key-queue-review").get_by_role("button", name="Wrong caption"))
    until(lambda: len(verdicts(file)) == 2)
    assert verdicts(file)[1][1] == "wrong-caption"
    assert verdicts(file)[1][0] in open_run(trained / "coder").captions("train")
    one.link("Train with these verdicts")
    visit.titled("Train")
    one.click(page.locator(".st-key-train-start button"))
    until(lambda: (read_status(new) or {}).get("state") == "finished" if new.is_dir() else False)
    page.get_by_text("finished").first.wait_for()
    assert read_config(new)[0].data.reviews == str(file)
    assert 8 < visit.clicks <= MOST_CLICKS


def test_a_newcomer_gets_from_suspicious_pairs_to_training_without_them(visit, move, tmp_path):
    """The run leaves out the pairs that the Data page counts, by the same two scorers."""
    root = tmp_path / "runs"
    new = tmp_path / "runs" / "mine-other-half-cleaned"
    scorers = [root / "mine-half", root / "mine-other-half"]
    data = write_told_data(tmp_path / "sets" / "told", 2)
    with numerics_unchanged():
        train_scorers(tiny_config(data, "mine", **VALUES | {"epochs": 4}), root)
    table = cross_fitted(*map(open_run, scorers))
    probability = error_probability(table["random"].to_numpy())
    out = sorted(table["caption"][probability >= 0.95])
    assert 0 < len(out) < (probability >= 0.5).sum(), "the threshold matters"
    move(tmp_path)
    one = Newcomer(visit)
    page = visit.page
    visit.open("data?run=mine-half&run=mine-other-half&split=train", charts=False)
    for _ in range(9):
        page.get_by_role("slider").press("ArrowRight")
    visit.show(f"{len(out)} of {len(table)} pairs")
    one.link("Train without suspicious pairs")
    visit.titled("Train")
    one.click(page.locator(".st-key-train-start button"))
    one.click(page.get_by_role("link", name=RESULTS))
    visit.titled(f"Overview · {new.name}")
    assert list(open_run(new).splits) == ["dev"]
    configs = (read_config(run)[0] for run in (scorers[1], new))
    changed = {key.partition(".")[2] for key in differences(*configs)}
    assert changed == {
        "train_part",
        "other_part",
        "reviews",
        "clean",
        "clean_by",
        "clean_above",
        "clean_scorers",
    }
    assert [path.parent for path in sorted(root.glob("*/config.toml"))] == [*scorers, new]
    assert np.flatnonzero(left_out(new)).tolist() == out
