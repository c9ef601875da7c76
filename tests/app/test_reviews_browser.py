"""A queue judged by keys in two tabs, texts that would do harm, a card's menu, a training with verdicts, a report."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlencode

import pytest

from coder_core.data.reviews import read_reviews
from coder_core.evaluate import main as evaluate
from coder_core.report import main as write_report
from coder_core.runs.load import read_config
from coder_core.runs.status import read_status
from coder_core.training.launch import start_run
from tests.app.test_train_page import TINY, until
from tests.support.numerics import numerics_unchanged
from tests.support.tiny_runs import quiet, tiny_config
from tests.support.visits import Listener, Visit

CAPTIONS = 40
RUN = {"run": "first", "versus": "—", "split": "train"}
TAGS = ("wvdl <b>m</b>", "<img src={to}/t>", "![w]({to}/u)")
NOTE = "<img src={to}/a> ![w]({to}/b) [v]({to}/c) \u202ewml"


@pytest.fixture(scope="module")
def file(runs: Path) -> Path:
    """The file of reviews of the data set "tiny", on which the run "first" is trained and analysed on its train split."""
    data = runs.parent / "sets" / "tiny"
    with numerics_unchanged():
        first = start_run(tiny_config(data, "first", bank_size=0, epochs=1), runs, quiet())
        assert evaluate([str(first), "--split", "train"]) == 0
    return data / "reviews.jsonl"


@pytest.fixture(scope="module")
def to(listener: Listener) -> str:
    return f"http://127.0.0.1:{listener[0]}"


@pytest.fixture
def unheard(listener: Listener) -> Iterator[None]:
    """Nothing is requested from the listener during the test."""
    listener[1].clear()
    yield
    assert listener[1] == []


def queue(visit: Visit, reviewer: str, name: str) -> None:
    visit.open(f"reviews?{urlencode(RUN | {'queue': name, 'reviewer': reviewer})}", charts=False)


def press(visit: Visit, key: str, done: int) -> None:
    """Press a key and wait until so many pairs are done."""
    visit.page.bring_to_front()
    visit.page.keyboard.press(key)
    visit.show(re.compile(rf"^{done} of \d+ "))


@pytest.fixture(scope="module")
def judged(file: Path, tab: Visit) -> Path:
    """Five verdicts and one taken back, given with keys in two tabs at once."""
    anna, ben = tab, tab.another_tab()
    queue(anna, "anna", "Most ambiguous")
    queue(ben, "ben", "Most ambiguous")
    for done, key in enumerate("wvl", 1):
        press(anna, key, done)
        if done < 3:
            press(ben, "w", done)
    press(anna, "d", 4)
    press(anna, "u", 3)
    ben.check()
    ben.page.close()
    return file


def test_keys_in_two_tabs_are_verdicts_of_two_reviewers(judged: Path, visit: Visit) -> None:
    reviews = read_reviews(judged)
    verdicts = [review.verdict for review in reviews.by_reviewer["anna"].values()]
    assert verdicts[:3] == ["wrong-caption", "too-vague", "label-right"]
    assert len(reviews.by_reviewer["ben"]) >= 2
    assert len(judged.read_text().splitlines()) >= 3 + 2 + 2
    queue(visit, "anna", "Most ambiguous")
    table = visit.page.get_by_role("table", name="pairs of reviewers")
    assert table.inner_text().split()[-2:] == ["%", "0.00"]


@pytest.mark.usefixtures("unheard")
def test_tags_and_notes_are_text_also_in_a_slice(judged: Path, visit: Visit, to: str) -> None:
    tags, note = [tag.format(to=to) for tag in TAGS], NOTE.format(to=to)
    before = len(read_reviews(judged).by_reviewer["anna"])
    queue(visit, "anna", "Most ambiguous")
    visit.page.get_by_role("button", name="Tags and note").click()
    visit.page.get_by_label("Note", exact=True).fill(note)
    visit.page.get_by_label("Tags, with commas").click()
    visit.page.keyboard.type(", ".join(tags))  # words, not verdicts
    visit.page.keyboard.press("Tab")
    visit.page.get_by_role("button", name="Save", exact=True).click()
    visit.page.get_by_role("table", name="verdicts").get_by_text("<b>m</b>").first.wait_for()
    visit.settle()
    remark = next(review for review in read_reviews(judged).standing if review.verdict == "none")
    assert (remark.note, remark.tags) == (note, tuple(tags))
    assert len(read_reviews(judged).by_reviewer["anna"]) == before + 1
    visit.check_accessibility()
    visit.open(f"slices?{urlencode(RUN | {'slice': f'{tags[1]!r} in tags'})}", charts=False)
    visit.show(f"1 of {CAPTIONS} captions")
    for expression, shown in (
        (f"'![x]({to}/d)' in caption", f"0 of {CAPTIONS} captions"),
        (f"'<img src={to}/e>' in '![x]({to}/f)'", ""),  # not a condition
        (f'dog "<img src={to}/s>"', f"“<img src={to}/s>”"),
        (note, ""),
    ):
        visit.enter("Search or slice", expression)
        visit.show(shown) if shown else visit.unsliced()


def test_a_menu_of_a_card_and_a_key_say_that_a_pair_also_matches(judged: Path, visit: Visit) -> None:
    before = list(read_reviews(judged).verdicts.values()).count("also-matches")
    queue(visit, "ben", "Near misses")
    progress = visit.page.get_by_text(re.compile(r"^\d+ of \d+ ")).first.inner_text()
    press(visit, "m", int(progress.split()[0]) + 1)
    visit.open("retrieval?run=first&versus=—&split=train&reviewer=ben&query-text=5", charts=False)
    card = visit.page.locator(".cl-card:not(.cl-is-match) .cl-review").first
    card.locator("summary").click()
    card.get_by_role("button", name="Also matches").click()
    visit.page.get_by_text("✓ Also matches").first.wait_for()
    assert list(read_reviews(judged).verdicts.values()).count("also-matches") == before + 2


def test_a_training_leaves_out_what_was_judged_wrong(judged: Path, runs: Path, visit: Visit) -> None:
    verdicts = list(read_reviews(judged).verdicts.values())
    wrong, also = verdicts.count("wrong-caption"), verdicts.count("also-matches")
    assert wrong >= 1
    queue(visit, "anna", "Most ambiguous")
    visit.page.get_by_role("link", name="Train with these verdicts").click()
    visit.reach("/train[?].*use-reviews=true")
    values = {f"demo-{key}": value for key, value in TINY.items()} | {"demo-epochs": 1}
    named = [key.replace("_", " ") for key in ("epochs", *TINY)]
    query = {"data": "tiny", "use-reviews": "true", "name": "second", "set": named, **values}
    visit.open(f"train?{urlencode(query, doseq=True)}", charts=False)
    visit.page.get_by_role("button", name="Train second").click()
    visit.page.get_by_role("button", name="Start it").click()
    second = runs / "second"
    until(lambda: second.is_dir() and (read_status(second) or {}).get("state") == "finished")
    config, facts = read_config(second)
    assert config.data.reviews == str(judged)
    assert facts["train_captions"] == CAPTIONS - wrong + also
    kept = json.loads((second / "reviews.json").read_text())
    assert kept["fingerprint"] == facts["reviews_sha256"] == read_reviews(judged).fingerprint()
    output = runs / ".work" / f"train-{b'second'.hex()}" / "output.log"
    assert f"(wrong-caption): {wrong}" in " ".join(output.read_text().split())


@pytest.mark.usefixtures("unheard")
def test_a_report_requests_nothing(judged: Path, runs: Path, visit: Visit, to: str, tmp_path: Path) -> None:
    report, question = tmp_path / "report.html", NOTE.format(to=to)
    arguments = [str(runs / "first"), "--split", "train", "--reviews", str(judged), "--out", str(report)]
    assert write_report([*arguments, "--question", question]) == 0
    page = visit.context.new_page()
    requests: list[str] = []
    page.on("request", lambda request: requests.append(request.url))
    page.goto(report.as_uri())
    text = page.locator("body").inner_text()
    assert "wrong-caption" in text
    assert f"<img src={to}/a>" in text
    assert [url for url in requests if not url.startswith("data:")] == [report.as_uri()]
    page.close()
