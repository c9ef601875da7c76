"""A queue judged by keys in two tabs, texts that would do harm, a card's menu, a training with verdicts, a report."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from coder_core.data.reviews import Reviews, read_reviews
from coder_core.evaluate import main as evaluate
from coder_core.report import main as write_report
from coder_core.runs.load import read_config
from coder_core.runs.status import read_status
from coder_core.training.launch import start_run
from tests.app.test_train_page import TINY, until
from tests.support.tiny_runs import quiet, tiny_config, write_tiny_data
from tests.support.visits import PATIENCE, Visit

pytestmark = [
    pytest.mark.browser,
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.usefixtures("own_threads"),
]
CAPTIONS = 40
RUN = {"run": "first", "versus": "—", "split": "train"}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with data/tiny and runs/first, which was trained on it and analysed on its train split."""
    folder = tmp_path_factory.mktemp("reviews")
    data = write_tiny_data(folder / "data" / "tiny")
    first = start_run(tiny_config(data, "first", bank_size=0, epochs=1), folder / "runs", quiet())
    assert evaluate([str(first), "--split", "train"]) == 0
    return folder


@pytest.fixture(scope="module")
def tabs(place: Path, serve: Callable[[Path], int], browser: Any) -> Iterator[tuple[Visit, Visit]]:
    """Two tabs of an app that was started with the folder of data."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CODER_DATA", str(place / "data"))
        patch.delenv("CODER_REVIEWS", raising=False)
        port = serve(place / "runs")
    both = Visit(browser, port), Visit(browser, port)
    yield both
    for visit in both:
        visit.context.close()


def queue(visit: Visit, reviewer: str, name: str) -> None:
    query = RUN | {"queue": name, "reviewer": reviewer}
    visit.open(f"reviews?{urlencode(query)}", charts=False)


def press(visit: Visit, key: str, done: int) -> None:
    """Press a key and wait until so many pairs are done."""
    visit.page.keyboard.press(key)
    visit.page.get_by_text(re.compile(rf"^{done} of \d+ judged or skipped")).wait_for(timeout=PATIENCE)
    visit.settle()


def test_from_keys_to_a_training_that_leaves_out_what_was_judged_wrong(
    place: Path, tabs: tuple[Visit, Visit], listener: tuple[int, list[str]]
) -> None:
    anna, ben = tabs
    file = place / "data" / "tiny" / "reviews.jsonl"

    def said() -> Reviews:
        return read_reviews(file)

    queue(anna, "anna", "Most ambiguous")
    queue(ben, "ben", "Most ambiguous")
    for done, key in enumerate("wvl", 1):  # in two tabs at once
        press(anna, key, done)
        if done < 3:
            press(ben, "w", done)
    press(anna, "d", 4)
    press(anna, "u", 3)
    assert [review.verdict for review in said().by_reviewer["anna"].values()] == [
        "wrong-caption",
        "too-vague",
        "label-right",
    ]
    assert len(said().by_reviewer["ben"]) == 2
    assert len(file.read_text().splitlines()) == 3 + 2 + 2
    assert anna.page.get_by_role("table", name="pairs of reviewers").inner_text().split()[-2:] == [
        "%",
        "0.00",
    ]

    listener[1].clear()
    to = f"http://127.0.0.1:{listener[0]}"
    note = f"<img src={to}/a> ![w]({to}/b) [v]({to}/c) \u202ewml"
    anna.page.get_by_role("button", name="Tags and note").click()
    anna.page.get_by_label("Note", exact=True).fill(note)
    anna.page.get_by_label("Tags, with commas").click()
    tags = ("wvdl <b>m</b>", f"<img src={to}/t>", f"![w]({to}/u)")
    anna.page.keyboard.type(", ".join(tags))  # words, not verdicts
    anna.page.keyboard.press("Tab")
    anna.page.get_by_role("button", name="Save", exact=True).click()
    anna.page.get_by_role("table", name="verdicts").get_by_text("remark").wait_for(timeout=PATIENCE)
    anna.settle()
    remark = next(review for review in said().standing if review.verdict == "none")
    assert (remark.note, remark.tags) == (note, tags)
    assert len(said().by_reviewer["anna"]) == 4
    assert anna.page.get_by_text("<b>m</b>").count() >= 1
    assert listener[1] == []
    anna.check_accessibility()

    anna.open(f"slices?{urlencode(RUN | {'slice': f'{tags[1]!r} in tags'})}", charts=False)
    anna.page.get_by_text("1 of 40 captions").first.wait_for(timeout=PATIENCE)
    field = anna.page.get_by_role("textbox", name="Search or slice")
    for asked, answer in (
        (f"'![x]({to}/d)' in caption", "0 of 40 captions"),
        (f"'<img src={to}/e>' in '![x]({to}/f)'", "not a condition"),
        (f'dog "<img src={to}/s>"', f"With “dog” and “<img src={to}/s>”"),
        (note, "cannot be read"),
    ):
        field.fill(asked)
        field.press("Enter")
        anna.page.get_by_text(answer).first.wait_for(timeout=PATIENCE)
    anna.settle()
    assert listener[1] == []

    queue(ben, "ben", "Near misses")
    press(ben, "m", int(re.match(r"\d+", ben.page.get_by_text("judged or skipped").inner_text())[0]) + 1)  # type: ignore[index]
    ben.open("retrieval?run=first&versus=—&split=train&reviewer=ben&query-text=5", charts=False)
    card = ben.page.locator(".cl-card:not(.cl-is-match) .cl-review").first
    card.locator("summary").click()
    card.get_by_role("button", name="Also matches").click()
    ben.page.get_by_text("✓ Also matches").first.wait_for(timeout=PATIENCE)
    verdicts = list(said().verdicts.values())
    assert verdicts.count("also-matches") == 2
    wrong = verdicts.count("wrong-caption")
    assert wrong >= 1

    queue(anna, "anna", "Most ambiguous")
    anna.page.get_by_role("link", name="Train with these verdicts").click()
    anna.page.wait_for_url("**/train?*use-reviews=true*", timeout=PATIENCE)
    values = {f"demo-{key}": value for key, value in TINY.items()} | {"demo-epochs": 1}
    named = [key.replace("_", " ") for key in ("epochs", *TINY)]
    query = {"data": "tiny", "use-reviews": "true", "name": "second", "set": named, **values}
    anna.open(f"train?{urlencode(query, doseq=True)}", charts=False)
    anna.page.get_by_role("button", name="Train second").click()
    anna.page.get_by_role("button", name="Start it").click()
    second = place / "runs" / "second"
    until(lambda: second.is_dir() and (read_status(second) or {}).get("state") == "finished")
    config, about = read_config(second)
    assert config.data.reviews == str(file)
    assert about["train_captions"] == CAPTIONS - wrong + 2
    kept = json.loads((second / "reviews.json").read_text())
    assert kept["fingerprint"] == about["reviews_sha256"] == said().fingerprint()
    output = place / "runs" / ".work" / f"train-{b'second'.hex()}" / "output.log"
    assert f"pairs left out (wrong-caption): {wrong}" in " ".join(output.read_text().split())
    for visit in tabs:
        visit.check()

    report = place / "report.html"
    arguments = [
        str(place / "runs" / "first"),
        "--split",
        "train",
        "--reviews",
        str(file),
        "--out",
        str(report),
    ]
    assert write_report([*arguments, "--question", note]) == 0
    requests: list[str] = []
    anna.page.on("request", lambda request: requests.append(request.url))
    anna.page.goto(report.as_uri())
    assert "wrong-caption" in anna.page.locator("body").inner_text()
    assert f"<img src={to}/a>" in anna.page.locator("body").inner_text()
    assert [url for url in requests if not url.startswith("data:")] == [report.as_uri()]
    assert listener[1] == []
    assert anna.errors == []
