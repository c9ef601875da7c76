"""A queue judged by keys in two tabs, texts that would do harm, a card's menu, the link to training, a report."""

import re
from urllib.parse import urlencode

import pytest

from coder_core.data.reviews import read_reviews
from coder_core.report import main as write_report
from tests.app.conftest import IMAGES

CAPTIONS = 5 * IMAGES
RUN = {"run": "demo", "versus": "—", "split": "dev"}
TAGS = ("wvdl <b>m</b>", "<img src={to}/t>", "![w]({to}/u)")
EDGES = "all => all.map(part => part.getBoundingClientRect()).map(box => [box.left, box.top, box.right, box.bottom])"
WIDTHS = (1280, 390)
HEIGHT = 844
NOTE = "<img src={to}/a> ![w]({to}/b) [v]({to}/c) \u202ewml"


@pytest.fixture
def to(listener):
    """The listener's address; the test fails if anything is requested from it."""
    listener[1].clear()
    yield f"http://127.0.0.1:{listener[0]}"
    assert listener[1] == []


def queue(visit, reviewer, name, **options):
    """Open a reviewer's queue; with `reload` no field has the focus, so that keys give verdicts."""
    visit.open(f"reviews?{urlencode(RUN | {'queue': name, 'reviewer': reviewer})}", charts=False, **options)


def press(visit, key, done):
    """Press a key and wait until `done` pairs of the queue are done."""
    visit.page.bring_to_front()
    visit.page.keyboard.press(key)
    visit.show(re.compile(rf"^{done} of \d+ "))


def toast(visit, verdict):
    """Wait for the toast of a verdict, check that it covers no control of the panel, and return it."""
    shown = visit.page.locator("[class*=st-key-toast-]")
    shown.get_by_role("status").filter(has_text=verdict).wait_for()
    visit.settle()
    [[left, top, right, bottom]] = shown.evaluate_all(EDGES)
    controls = visit.page.locator(".st-key-opened :is(a, button)").evaluate_all(EDGES)
    assert all(c[0] >= right or c[2] <= left or c[1] >= bottom or c[3] <= top for c in controls)
    return shown


@pytest.fixture(scope="module")
def judged(runs, tab):
    """File of reviews with five verdicts and one undone, entered by key in two tabs at once."""
    anna = tab
    ben = tab.another_tab()
    queue(anna, "anna", "Most ambiguous", reload=True)
    queue(ben, "ben", "Most ambiguous")
    for done, key in enumerate("wvl", 1):
        press(anna, key, done)
        if done < 3:
            press(ben, "w", done)
    press(anna, "d", 4)
    press(anna, "u", 3)
    ben.check()
    ben.page.close()
    given = read_reviews(runs / "reviews.jsonl").by_reviewer
    verdicts = [review.verdict for review in given["anna"].values()]
    assert verdicts == ["wrong-caption", "too-vague", "label-right"]
    assert len(given["ben"]) == 2
    assert len((runs / "reviews.jsonl").read_text().splitlines()) == 3 + 2 + 2
    yield runs / "reviews.jsonl"
    (runs / "reviews.jsonl").unlink()


def test_hostile_tags_and_notes_are_saved_and_select_slices(judged, visit, to):
    before = len(read_reviews(judged).by_reviewer["anna"])
    queue(visit, "anna", "Most ambiguous")
    table = visit.page.get_by_role("table", name="pairs of reviewers")
    assert table.inner_text().split()[-2:] == ["%", "0.00"]
    tags = [tag.format(to=to) for tag in TAGS]
    note = NOTE.format(to=to)
    visit.page.get_by_role("button", name="Tags and note").click()
    visit.page.get_by_label("Note", exact=True).fill(note)
    visit.page.get_by_label("Tags, separated by commas").click()
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
        (f'dog "<img src={to}/s>"', f"“<img src={to}/s>”"),
        (note, ""),  # not a condition
    ):
        visit.enter("Search or slice", expression)
        visit.show(shown) if shown else visit.unsliced()


def test_a_key_and_a_card_menu_mark_a_pair_as_also_matching(judged, visit):
    before = list(read_reviews(judged).verdicts.values()).count("also-matches")
    queue(visit, "ben", "Near misses", reload=True)
    progress = visit.page.get_by_text(re.compile(r"^\d+ of \d+ ")).first.inner_text()
    press(visit, "m", int(progress.split()[0]) + 1)
    toast(visit, "also matches")
    visit.open(f"retrieval?{urlencode(RUN | {'reviewer': 'ben', 'query-text': 5})}", charts=False)
    card = visit.page.locator(".cl-card:not(.cl-is-match) .cl-review").first
    card.locator("summary").click()
    card.get_by_role("button", name="Also matches").click()
    visit.page.get_by_text("✓ Also matches").first.wait_for()
    assert list(read_reviews(judged).verdicts.values()).count("also-matches") == before + 2
    toast(visit, "also matches").get_by_role("button").click()
    card.get_by_text("Judge").wait_for()
    assert list(read_reviews(judged).verdicts.values()).count("also-matches") == before + 1


def test_a_toast_undoes_a_verdict_and_closes_with_the_page(judged, visit):
    panel = visit.page.locator(".st-key-opened")
    for page, widths in (("data", WIDTHS), ("retrieval", WIDTHS[::-1])):
        address = f"{page}?{urlencode(RUN | {'reviewer': 'eve'})}"
        visit.open(address, charts=False)
        panel.get_by_role("button", name="Too vague").click()
        for width in widths:
            visit.page.set_viewport_size({"width": width, "height": HEIGHT})
            shown = toast(visit, "too vague")
        assert [r.verdict for r in read_reviews(judged).by_reviewer["eve"].values()] == ["too-vague"]
        shown.get_by_role("button").click()
        shown.wait_for(state="detached")
        assert "eve" not in read_reviews(judged).by_reviewer
    panel.get_by_role("button", name="Duplicate").click()
    for width in WIDTHS:
        visit.page.set_viewport_size({"width": width, "height": HEIGHT})
        shown = toast(visit, "duplicate")
        assert visit.violations(".stMain") == []
    panel.get_by_role("link", name="diversity").click()
    visit.titled("Diversity")
    assert shown.count() == 0
    panel.get_by_role("button", name="Undo").click()  # also later
    panel.get_by_role("button", name="Undo").wait_for(state="detached")


def test_an_opened_report_makes_no_requests(judged, runs, visit, to, tmp_path):
    report = tmp_path / "report.html"
    arguments = [str(runs / "demo"), "--split", "dev", "--reviews", str(judged), "--out", str(report)]
    assert write_report([*arguments, "--question", NOTE.format(to=to)]) == 0
    text = visit.read_from_disk(report)
    assert "wrong-caption" in text
    assert f"<img src={to}/a>" in text
