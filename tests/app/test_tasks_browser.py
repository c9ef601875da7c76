"""Tasks of a newcomer, each in at most six clicks from Overview: TASKS names the test of each, here or in another file.
The browser counts the clicks."""

import ast
import re
import shutil
import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from app import jobs, training
from app.ask import LISTING_SECONDS
from coder_core.api import clusters, open_run
from coder_core.data.reviews import read_reviews
from coder_core.geometry.settings import ClusterSettings
from coder_core.runs.record import read_status
from coder_core.training.launch import StoppedError, start_run
from tests.app.test_newcomer_browser import Newcomer
from tests.console.test_processes import until
from tests.support.numerics import numerics_unchanged
from tests.support.run_folders import damage, write_run
from tests.support.tiny_runs import quiet, tiny_config, write_tiny_data
from tests.support.visits import MOST_CLICKS, SIZE

PHONE = {"width": 390, "height": 844}
# task → file and test
TASKS = {
    "which run is better, or is it noise": ("tasks_browser", "a_fixed_query_opens_with_the_reason"),
    "why one run misses what the other fixes": ("tasks_browser", "a_fixed_query_opens_with_the_reason"),
    "ambiguous anchors, and what that means here": ("links_browser", "ambiguous_anchors_are_one_click_away"),
    "what scaling does to a chosen batch": ("tasks_browser", "the_hardest_batch_is_shown"),
    "a map, its colors, a lasso and its list": ("map_browser", "a_lasso_on_either_map_fills_the_table"),
    "the members of a cluster, and a bad one": ("tasks_browser", "a_bad_cluster_is_found"),
    "hubs": ("tasks_browser", "the_largest_hubs_are_listed"),
    "five verdicts, one undone": ("tasks_browser", "five_likely_wrong_captions_are_judged"),
    "unlabelled matches": ("tasks_browser", "matches_without_a_label_are_listed"),
    "a slice, runs compared": ("retrieval_browser", "a_slice_chosen_from_the_table_applies"),
    "a training stopped, resumed, compared": ("tasks_browser", "a_stopped_training_is_resumed"),
    "a shared view": ("links_browser", "a_cluster_opens_from_the_list_and_the_link_to_it"),
    "ten steps back": ("links_browser", "ten_steps_are_undone_by_ten_backs"),
    "the report, and a table as a file": (
        "retrieval_browser",
        "exported_rows_name_their_samples_and_the_report",
    ),
    "free text": ("heat_maps_browser", "hostile_texts_and_uploads_have_heat_maps"),
    "the keyboard alone": ("browser", "the_list_tooltips_and_columns_are_reached_by_keyboard"),
    "a phone": ("tasks_browser", "a_fixed_query_opens_with_the_reason"),
    "two tabs": ("reviews_browser", "hostile_tags_and_notes_are_saved"),
    "no run, one, and a broken one": ("tasks_browser", "a_folder_without_runs_shows_the_ways_in"),
    "entropy and its temperature": ("links_browser", "ambiguous_anchors_are_one_click_away"),
}
# tasks by keys, in two tabs by keys, by Back, and where nothing is to be clicked
WITHOUT_CLICKS = ("the keyboard alone", "two tabs", "ten steps back", "no run, one, and a broken one")
TWINS = 6  # images, each with a second one that has the same captions


@pytest.fixture
def one(visit):
    """A newcomer, whose clicks the browser counts."""
    visit.clicks = 0
    yield Newcomer(visit)
    assert 0 < visit.clicks <= MOST_CLICKS


def test_every_task_has_its_test_and_a_count_of_clicks():
    for task, (file, name) in TASKS.items():
        tree = ast.parse(Path(__file__).with_name(f"test_{file}.py").read_text("utf-8"))
        tests = [part for part in tree.body if isinstance(part, ast.FunctionDef)]
        [test] = [test for test in tests if test.name.startswith(f"test_{name}")]
        counted = "one" in {argument.arg for argument in test.args.args} or "visit.task(" in ast.unparse(test)
        assert counted != (task in WITHOUT_CLICKS), task


@pytest.mark.parametrize("size", [SIZE, PHONE], ids=["desk", "phone"])
def test_a_fixed_query_opens_with_the_reason_why_the_other_run_misses_it(one, size):
    visit = one.visit
    visit.page.set_viewport_size(size)
    visit.open("overview?run=demo-baseline&run=demo&split=dev")
    title = visit.page.locator("h1").inner_text()
    assert re.match(r"demo is better: R@sum [\d.]+ against [\d.]+, \+[\d.]+ \[", title)
    one.click(visit.page.locator(".st-key-fixed tbody tr"))
    visit.titled("Retrieval")
    visit.show(re.compile(r"match at rank \d+ · Missed by \d\.\d{3}: \w"))
    visit.show(re.compile(r"^match at rank 1$"))


def test_the_hardest_batch_is_shown_before_and_after_scaling_with_one_number(one):
    visit = one.visit
    visit.open("overview?run=demo-baseline&run=demo&split=dev")
    one.click(visit.page.locator(".st-key-pages").get_by_role("link", name="Diversity"))
    visit.titled("Diversity")
    one.link("Similarity")
    visit.titled("Similarity")
    title = visit.page.locator("h1").inner_text()
    assert re.search(r"scaling multiplies exponents by up to \d", title)
    one.button("Advanced")
    one.click(visit.page.get_by_text("Hardest", exact=True))
    visit.reach("batch-of=Hardest")
    assert visit.page.locator("h1").inner_text() != title
    assert visit.page.locator("[class*=st-key-matrix-similarity] .plot-container").count() == 2
    assert visit.page.locator("[class*=st-key-matrix-exponent] .plot-container").count() == 2


def test_the_largest_hubs_are_listed_and_one_opens(one):
    visit = one.visit
    visit.open("overview?run=demo-baseline&run=demo&split=dev")
    one.click(visit.page.locator(".st-key-pages").get_by_role("link", name="Retrieval"))
    visit.titled("Retrieval")
    one.click(visit.page.get_by_text("Hubs", exact=True))
    visit.show("Largest hubs")
    one.click(visit.page.locator(".stMain tbody tr[tabindex]").nth(1))
    visit.show(re.compile(r"with this hub among the first \d+"))


def test_a_bad_cluster_is_found_by_its_agreement_and_shows_the_pairs_that_disagree(one, runs):
    visit = one.visit
    run = open_run(runs / "demo")
    found = clusters.offline_clusters(run, "dev", ClusterSettings()).value
    table = clusters.cluster_table(run, "dev", found)
    visit.open("overview?run=demo&split=dev")
    one.click(visit.page.locator(".st-key-pages").get_by_role("link", name="Joint space"))
    visit.titled("Joint space")
    one.link("Clusters")
    visit.titled("Clusters")
    one.button("Lowest agreement")
    visit.reach("cluster=")
    worst = visit.number("Cluster")
    assert table.set_index("cluster")["agreement"][worst] == table["agreement"].min() < 100
    visit.show(re.compile(r"image in \d+, caption in \d+"))


def test_five_likely_wrong_captions_are_judged_in_a_row_and_one_is_undone(one, runs):
    visit = one.visit
    file = runs / "reviews.jsonl"
    visit.open("overview?run=combined&split=dev&reviewer=newcomer", reload=True)
    one.click(visit.page.locator(".st-key-pages").get_by_role("link", name="Data"))
    visit.titled("Data")
    one.link("Reviews")
    visit.titled("Reviews")
    one.click(visit.page.get_by_role("radio", name="Likely wrong"))
    visit.show(re.compile(r"^0 of \d+ judged"))
    for done, key in enumerate("wlvwd", 1):
        visit.page.keyboard.press(key)
        visit.show(re.compile(rf"^{done} of \d+ judged"))
    visit.page.keyboard.press("u")
    visit.show(re.compile(r"^4 of \d+ judged"))
    given = [review.verdict for review in read_reviews(file).by_reviewer["newcomer"].values()]
    file.unlink()
    assert given == ["wrong-caption", "label-right", "too-vague", "wrong-caption"]


def test_matches_without_a_label_are_listed_and_one_is_accepted(one, runs):
    """The images of a run come in twins that have the same captions, so that each is a match of the other's."""
    visit = one.visit
    file = runs / "reviews.jsonl"
    scenes = ["a red kite", "two old boats", "grey horses", "the yellow tent", "wet stairs", "an empty stage"]
    told = ["at noon", "in the rain", "near a river", "behind trees", "seen from above"]
    captions = [f"{scene} {how}" for scene in scenes for how in told]
    twins = write_run(runs, "twins", images=2 * TWINS, captions=captions * 2)
    try:
        visit.open("overview?run=twins&split=dev", charts=False)
        one.click(visit.page.locator(".st-key-pages").get_by_role("link", name="Data"))
        visit.titled("Data")
        one.click(visit.page.get_by_role("radio", name="Unlabelled matches"))
        visit.show(re.compile(r"\d+ captions of dev probably match another image, too"))
        listed = visit.page.locator(".stMain tbody tr")
        one.click(listed.nth(1))
        caption = visit.number("Caption number")
        one.click(visit.page.locator(".stMain").get_by_role("button", name="Also matches", exact=True))
        until(file.exists)
        [review] = read_reviews(file).standing
        owner = open_run(twins).image_of_text("dev")[caption]
        assert review.verdict == "also-matches"
        assert review.caption == captions[caption % len(captions)]
        assert review.image.endswith(f"{(owner + TWINS) % (2 * TWINS)}.png")
    finally:
        shutil.rmtree(twins)
        file.unlink(missing_ok=True)


def test_a_stopped_training_is_resumed_followed_and_stopped_and_compared_with_the_baseline(
    one, runs, monkeypatch
):
    """The page follows the run without reloading."""
    visit = one.visit
    mine = runs / "task"
    monkeypatch.setenv("CODER_CHECKPOINTS", str(runs))
    config = tiny_config(write_tiny_data(runs.parent / "sets" / "tasks"), "task", epochs=4_000)
    job = training.job_name("task")
    stop = visit.page.get_by_role("button", name="Stop", exact=True)
    resume = visit.page.get_by_role("button", name="Resume", exact=True)

    def status(key, missing):
        return (read_status(mine) or {}).get(key, missing) if mine.is_dir() else missing

    def stop_after_five_steps():
        until(lambda: status("step", 0) > 5)
        signal.raise_signal(signal.SIGTERM)

    try:
        with ThreadPoolExecutor() as watcher, numerics_unchanged():
            watcher.submit(stop_after_five_steps)
            with pytest.raises(StoppedError):
                start_run(config, runs, quiet())
        assert status("state", "") == "stopped"
        reached = status("step", 0)
        visit.page.wait_for_timeout(1000 * LISTING_SECONDS)
        visit.open("overview?run=demo-baseline&run=demo&split=dev")
        one.click(visit.page.locator(".st-key-pages").get_by_role("link", name="Train"))
        visit.titled("Train")
        one.click(visit.page.locator(".st-key-training-runs").get_by_text("task", exact=True))
        one.click(resume)
        stop.wait_for()
        visit.settle()
        assert resume.count() == 0
        until(lambda: status("step", 0) > reached)
        visit.page.locator(".st-key-epochly-curve .legendtext", has_text="demo-baseline").wait_for()
        shown = visit.page.get_by_text(re.compile(r"running: step \d")).inner_text()
        visit.page.wait_for_function("shown => !document.body.innerText.includes(shown)", arg=shown)
        one.click(stop)
        resume.wait_for()
        visit.settle()
        assert stop.count() == 0
        assert status("state", "") == "stopped"
    finally:
        jobs.stop(job)
        until(lambda: (current := jobs.current(job)) is None or not current.running)
        shutil.rmtree(mine)


def test_a_folder_without_runs_shows_the_ways_in_and_names_a_broken_run(visit, move, tmp_path):
    root = tmp_path / "runs"
    root.mkdir()
    move(tmp_path)
    page = visit.page
    visit.open("", charts=False)
    visit.titled("Start")
    ways = page.get_by_test_id("stCode")
    assert [way.split()[:2] for way in ways.all_inner_texts()] == [
        ["coder-lab", "look"],
        ["coder-lab", "look"],
        ["coder-lab", "train"],
    ]
    ways.first.hover()
    ways.first.get_by_role("button", name="Copy to clipboard").wait_for()
    assert page.locator(".stMain img").first.evaluate("image => image.naturalWidth") > 600
    damage(write_run(root, "torn", images=6))
    page.wait_for_timeout(1000 * LISTING_SECONDS)
    visit.open("overview", charts=False)
    visit.show("config.toml")
    visit.show("torn")
    write_run(root, "whole", images=6)
    page.wait_for_timeout(1000 * LISTING_SECONDS)
    visit.open("overview")
    assert "whole reaches R@sum" in page.locator("h1").inner_text()
    visit.show("torn")
