"""The Retrieval page: outcomes, near misses, hubs, judgements, likely matches, and queries of one's own."""

import io
import json
import re
import shutil
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from app.judging import report_page
from app.views.retrieval.queries import LIKELY
from coder_core.api import causes, open_run, sampling
from coder_core.api.retrieval import likely_matches, text_vectors
from coder_core.evaluation.sources import EmbeddingPair
from coder_core.runs.derived.correct_hubs import correct_hubs
from tests.support.run_folders import write_run

DIRECTIONS = {"text": "t2i", "image": "i2t"}
PAGES = [("two", "text"), ("two", "image"), ("damaged", "image"), ("imported", "text")]


def test_the_outcomes_of_two_runs_are_counted(roots, opened):
    first, second = (open_run(roots["two"] / name) for name in ("demo-baseline", "demo"))
    was_hit, is_hit = (run.ranks("dev")["t2i"] == 0 for run in (first, second))
    expected = {
        "fixed": ~was_hit & is_hit,
        "broken": was_hit & ~is_hit,
        "both right": was_hit & is_hit,
        "both wrong": ~was_hit & ~is_hit,
    }
    query = {"run": [first.name, second.name], "hit_text": "1"}
    shown = {metric.label: metric.value for metric in opened(roots["two"], "retrieval", **query).app.metric}
    assert {name: shown[name] for name in expected} == {
        name: f"{rows.sum():,}" for name, rows in expected.items()
    }


def test_likely_matches_can_be_marked_filtered_and_counted(roots, opened):
    runs = [open_run(roots["two"] / name) for name in ("demo-baseline", "demo")]
    vectors = text_vectors(runs[1], "dev")
    first, guesses = (likely_matches(run, "dev", "t2i", vectors) for run in runs)
    labelled, with_likely = guesses.recall(1)
    query = int(np.flatnonzero(guesses.likely().any(1))[0])
    app = opened(roots["two"], "retrieval", query_text=str(query))
    assert LIKELY not in app.texts()
    app.change(guess=True)
    assert app.texts().count(LIKELY) == sum(matches.likely()[query].sum() for matches in (first, guesses)) > 0
    app.change(likely=True)
    assert app.saying("demo", f"{labelled:.1f} %", f"{with_likely:.1f} %")
    if guesses.probably_right(1).any():
        assert guesses.probably_right(1)[int(app.value("query-text") or 0)]


def test_likely_matches_of_a_large_split_are_sampled(roots, tmp_path, opened, monkeypatch):
    shutil.copytree(roots["one"] / "demo", tmp_path / "demo")
    monkeypatch.setattr(sampling, "SCORES_AT_MOST", 20 * 100 - 1)
    monkeypatch.setattr(sampling, "QUERIES_AT_MOST", 30)
    run = open_run(tmp_path / "demo")
    sample = run.query_sample("dev")
    space = text_vectors(run, "dev")
    labelled, with_likely = likely_matches(run, "dev", "t2i", space, sample.texts).recall(1)
    app = opened(tmp_path, "retrieval", likely="true")
    assert app.saying(30, 100, "demo", f"{labelled:.1f} %", f"{with_likely:.1f} %")
    outside = int(np.setdiff1d(np.arange(20), sample.images)[0])
    app.change(slice=f"image == {outside}")
    assert app.saying(30, 100)
    assert "query-text" not in app.keys("number_input")
    every = likely_matches(run, "dev", "t2i", space).likely()  # an opened query need not be of the sample
    query = int(np.setdiff1d(np.flatnonzero(every.any(1)), sample.texts)[0])
    app = opened(tmp_path, "retrieval", query_text=str(query), guess="true")
    assert app.texts().count(LIKELY) == every[query].sum() > 0
    assert opened(tmp_path, "reviews").change(queue="likely").saying(30, 100)


def test_judgements_in_the_data_folder_are_shown_beside_the_labels(tmp_path, opened):
    for name, noise in (("beta", 2.0), ("gamma", 3.0)):
        write_run(tmp_path, name, images=12, noise=noise)
    run = open_run(tmp_path / "gamma")
    owner = run.image_of_text("dev")
    ranks = run.ranks("dev")["t2i"]
    best = np.asarray(run.analysis("dev").text_best)
    first = int(np.flatnonzero(ranks > 0)[0])
    fits = f"{owner[first]}.png#{first % 5}\t{best[first][0]}.png\n"
    file = tmp_path / "positives.tsv"
    crowd = tmp_path / "CrowdFlowerAnnotations.txt"
    query = {"run": "beta", "versus": "gamma", "look": "Judgements"}
    app = opened(tmp_path, "retrieval", **query)
    assert "judged" not in app.keys("toggle")
    assert "positives.tsv" not in app.headings()
    file.write_text(fits)
    crowd.write_text("elsewhere.png\tother.png#0\t1\t3\t0\n")
    app = opened(tmp_path, "retrieval", **query)
    assert "positives.tsv" in app.headings()
    assert "CrowdFlower" not in app.texts()  # it is about other splits
    [rows] = app.rows("mAP@R")
    [row] = [row for row in rows if (row["run"], row["direction"]) == ("gamma", "text → image")]
    right = 100 * (ranks == 0).mean()
    assert (row["labels R@1"], row["judges R@1"]) == (f"{right:.1f}", f"{right + 100 / len(owner):.1f}")
    assert app.value("query-text") == first
    assert "cl-is-judged" in app.texts()
    assert f"--positives {file}" in report_page([run.summary], "dev")
    other = f'"scene {(owner[first] + 1) % 12}" in caption'
    assert opened(tmp_path, "retrieval", **query, slice=other).refusals()
    app = opened(tmp_path, "retrieval", run="gamma", versus="—").change(judged=True)
    assert app.value("query-text") == first
    crowd.write_text(f"{best[first][1]}.png\t{owner[first]}.png#{first % 5}\t1\t3\t0\n")
    app = opened(tmp_path, "retrieval", **query, judged_by="CrowdFlowerAnnotations.txt")
    assert "CrowdFlowerAnnotations.txt" in app.headings()
    file.write_text(f"{fits}<b>{first}</b>\n")
    app = opened(tmp_path, "retrieval", **query)
    assert app.saying("positives.tsv", "line 2")
    assert f"<b>{first}" not in app.texts()


def test_coco_judgements_are_offered_for_coco_images(tmp_path, opened, monkeypatch):
    package = Path(str(find_spec("eccv_caption").submodule_search_locations[0])) / "data"
    images = list(json.loads((package / "eccv_image_to_caption.json").read_text()))[:12]
    write_run(tmp_path, "coco", images=12, pictures=False, picture_names=[f"{name}.jpg" for name in images])
    assert "ECCV Caption" in opened(tmp_path, "retrieval", look="Judgements").headings()
    app = opened(tmp_path, "retrieval", look="Judgements", judged_by="CxC")
    assert "CxC" in app.headings()
    [rows] = app.rows("mAP@R")
    assert [row["queries"] for row in rows] == ["12", "60"]
    monkeypatch.setattr("coder_core.api.retrieval.judged.PACKAGE", "eccv_caption_that_is_not_there")
    assert "ECCV Caption" not in opened(tmp_path, "retrieval", look="Judgements").headings()


def shown_queries(app):
    """Return the number of rows of the page's first table; 0 without one."""
    number = app.tables()[0]["range"].split()[-2] if app.tables() else "0"
    return 1 if number == "one" else int(number)


@pytest.mark.parametrize(("root", "direction"), PAGES)
def test_every_outcome_near_misses_and_hubs_can_be_shown(roots, root, direction, opened):
    app = opened(roots[root], "retrieval", at="5").change(direction=direction)
    key = "outcome" if "outcome" in app.keys("selectbox") else "answer"
    outcomes = ("fixed", "broken", "both wrong", "both right") if key == "outcome" else ("found", "missed")
    all_queries, *queries = (shown_queries(app.change(**{key: outcome})) for outcome in ("all", *outcomes))
    assert sum(queries) == all_queries > 0
    near = app.change(look="near").headings()
    app.change(calls="held").change(look="hubs").change(k="5")
    assert app.headings() != near
    assert app.rows("skewness")


def test_a_new_list_opens_its_first_row(roots, opened):
    """Not the query that another list left open, which may be many pages away."""
    app = opened(roots["two"], "retrieval").change(**{"query-text": 150})
    for view in ("near", "ranks"):
        table = app.change(look=view).tables()[0]
        assert (table["page"], table["picked"]) == (0, 0)


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_queries_fixed_and_broken_by_hub_correction_are_listed(roots, tmp_path, direction, opened):
    run = open_run(shutil.copytree(roots["one"] / "demo", tmp_path / "demo"))
    pair = [EmbeddingPair(*map(np.array, run.embeddings("dev")))], run.image_of_text("dev")
    correction, _ = correct_hubs(run.path, "dev", "dev", lambda name: pair)
    app = opened(tmp_path, "retrieval").change(direction=direction, look="hubs").change(k="1")
    way = DIRECTIONS[direction]
    before = run.ranks("dev")[way]
    after = getattr(correction, f"{direction}_ranks")
    fixed = (before > 0) & (after == 0)
    broken = (before == 0) & (after > 0)
    for option, queries in (("fixed", fixed), ("broken", broken)):
        app.change(hub_queries=option)
        assert f"{correction.metrics[f'{way}_r1']:.1f} %" in app.headings()
        assert app.saying("R@1", "demo")
        numbers = [item.value for item in app.number_input if item.key == f"query-{direction}"]
        assert [bool(queries[number]) for number in numbers] == [True] * int(queries.any())


def test_a_button_for_the_next_miss_either_opens_one_or_is_disabled(roots, opened):
    ranks = {way: open_run(roots["two"] / "demo").ranks("dev")[way] for way in ("i2t", "t2i")}
    for direction, (modality, way) in {"text": ("text", "t2i"), "image": ("image", "i2t")}.items():
        app = opened(roots["two"], "retrieval").change(direction=direction)
        for outcome in ("fixed", "broken", "both right", "all"):
            app.change(outcome=outcome)
            if f"query-{modality}" not in app.keys("number_input"):
                continue
            for key in (f"query-{modality}-miss-1", f"query-{modality}-miss--1"):
                before = app.value(f"query-{modality}")
                if not app.button(key=key).disabled:
                    after = app.click(key).value(f"query-{modality}")
                    assert after != before
                    assert ranks[way][after] >= 1


def test_next_miss_steps_through_missed_queries_and_a_link_opens_any(roots, opened):
    ranks = open_run(roots["two"] / "demo").ranks("dev")["t2i"]
    app = opened(roots["two"], "retrieval", outcome="All")
    walked = [app.click("query-text-miss-1").value("query-text") for _ in range(3)]
    assert len(set(walked)) == 3
    assert (ranks[walked] >= 1).all()
    assert app.click("query-text-miss--1").value("query-text") == walked[1]
    app = opened(roots["two"], "retrieval", outcome="Broken", query_text="7")
    assert app.value("query-text") == 7  # even if the filter leaves it out
    before = open_run(roots["two"] / "demo-baseline").ranks("dev")["t2i"]
    assert app.saying("demo-baseline", before[7] + 1, "demo", ranks[7] + 1)
    state = "run=demo-baseline&amp;run=demo&amp;split=dev&amp;anchors="
    assert app.texts().count('data-open="image-') == 20  # ten results of two runs
    assert app.texts().count(f'href="diversity?{state}Captions&amp;caption=7"') == 1
    assert 'href="retrieval?' not in app.texts()


@pytest.mark.parametrize(
    ("root", "runs"), [("two", ["demo-baseline", "demo"]), ("imported", ["clip-pictures"])]
)
def test_an_uploaded_picture_queries_as_its_sample_and_other_files_are_refused(roots, root, runs, opened):
    app = opened(roots[root], "retrieval", run=runs[0], versus=[*runs, "—"][1], ask="Picture")
    assert app.refusals()
    torn = b"\x89PNG\r\n\x1a\n" + bytes(200)
    large = bytes(10_000_001)
    for content in (b"<html><script>alert(1)</script></html>", b"", torn, large):
        [refusal] = app.upload("<b>x</b>.png", content).refusals()
        assert ("10,000,000" in refusal) == (content is large)
        assert "<b>x" not in refusal
    app.upload("mine.png", (roots["two"].parent / "two-pictures" / "7.png").read_bytes())
    assert len(app.saying("image 7", "query")) >= len(runs)
    assert app.saying("caption 35", "image 7", "7.png")
    assert 'class="cl-match' not in app.texts()  # they match image 7, not the picture that was given
    buffer = io.BytesIO()
    Image.effect_noise((64, 48), 90).convert("RGB").save(buffer, "PNG")
    app.upload("other.png", buffer.getvalue())
    assert ["0.95" in refusal for refusal in app.refusals()] == [True] * len(runs)
    assert not app.saying("image 7", "query")
    assert not app.cards()


def test_free_text_is_offered_only_where_a_run_can_encode_it(roots, opened):
    for root, run, offered in (
        ("one", "demo", False),
        ("imported", "clip", False),
        ("imported", "clip-pictures", True),  # it has saved queries
    ):
        app = opened(roots[root], "retrieval", run=run, versus="—", ask="Free text")
        assert ("text" in app.keys("text_input")) == offered, run


def test_ids_and_captions_replace_missing_pictures(roots, opened):
    app = opened(roots["damaged"], "retrieval", query_text="0")
    assert app.texts().count('class="cl-card') == 10
    assert "<img" not in app.texts()
    best = int(open_run(roots["damaged"] / "demo").search(0, split="dev")["candidate"][0])
    assert f"scene {best}, told in way 0\nscene {best}, told in way 1\n" in app.texts()
    assert f"image {best} · {best}.png" in app.texts()
    samples = [row["sample"] for row in app.tables()[0]["rows"]]
    assert {(sample["picture"], sample["small"].split()[0]) for sample in samples} == {("", "caption")}


def test_saved_queries_of_an_imported_run_can_be_searched(roots, opened):
    app = opened(roots["imported"], "retrieval", run="clip-pictures", versus="clip", ask="Free text")
    [table] = app.tables()
    assert [row["cells"] for row in table["rows"]] == [["query 0"], ["query 1"], ["query 2"]]
    app.change(text="query 2")
    assert app.tables()[0]["picked"] == 2
    assert app.texts().index("image 2 · 2.png") < app.texts().index("<b>2</b>")  # its own image comes first
    assert "1.000</span>" in app.texts()
    [refusal] = app.refusals()  # the other run has no such query
    assert "clip" in refusal
    assert app.change(query_words="nothing").tables() == []


def test_the_title_gives_the_lead_of_the_better_run_whichever_is_the_baseline(roots, opened):
    titles = []
    for runs in (["demo-baseline", "demo"], ["demo", "demo-baseline"]):
        app = opened(roots["two"], "retrieval", run=runs[0], versus=runs[1])
        titles.append(app.title[0].value.replace("\\", ""))
    assert titles[0] == titles[1]
    lead = re.fullmatch(
        r"demo is better: text → image R@1 ([\d.]+) against ([\d.]+), \+([\d.]+) \[.+\]", titles[0]
    )
    assert float(lead[3]) == pytest.approx(float(lead[1]) - float(lead[2]), abs=0.11)


def test_queries_of_one_cause_are_listed_with_the_reason(roots, opened):
    for cause_of, others in (("demo-baseline", {}), ("demo", {"run": ["demo"]})):
        run = open_run(roots["two"] / cause_of)
        misses = causes.causes_of_run(run, "dev", causes.Question("t2i"))
        code = int(np.bincount(misses.cause[misses.missed]).argmax())
        cause = causes.CAUSES[code]
        app = opened(roots["two"], "retrieval", cause=cause, cause_of=cause_of, **others)
        expected = set(misses.way.queries[misses.cause == code].tolist())
        [table] = [table for table in app.tables() if table["label"] == "captions"]
        listed = {int(row["sample"]["name"].split()[1]) for row in table["rows"]}
        assert listed <= expected
        assert len(listed) == min(len(expected), 50)
        query = int(app.value("query-text"))
        assert query in expected
        evidence = causes.split_evidence(run, "dev")
        known = causes.Known.nothing(run.count("dev", "text"))
        sentence = causes.why(misses, query, evidence, known, causes.hubs(run, "dev", "t2i"))
        assert app.saying(sentence)


def test_two_runs_open_at_the_queries_that_the_better_one_fixes(roots, opened):
    better, worse = "demo", "demo-baseline"
    ranks = {name: open_run(roots["two"] / name).ranks("dev")["t2i"] for name in (better, worse)}
    gained = int(((ranks[better] == 0) & (ranks[worse] > 0)).sum())
    lost = int(((ranks[better] > 0) & (ranks[worse] == 0)).sum())
    assert gained > lost
    for runs, outcome in (([worse, better], "fixed"), ([better, worse], "broken")):
        app = opened(roots["two"], "retrieval", run=runs, at="1")
        assert app.value("outcome") == outcome
        assert shown_queries(app) == gained
    app = opened(roots["two"], "retrieval", run=[worse, better], cause="model error", at="1")
    assert app.value("outcome") == "all"  # the last run misses no fixed query
