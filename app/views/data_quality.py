"""Sections of the Data page: mismatched pairs; duplicates and bad pictures; captions that say little."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations

import numpy as np
import pandas as pd
import streamlit as st

from app import jobs, questions
from app.ask import (
    HASHES,
    Modality,
    Run,
    RunSummary,
    StoredResult,
    ask,
    ask_both,
    ask_now,
    data_quality,
    retrieval,
)
from app.choice import Choice, bound, opened
from app.components import cards, downloads, links, reviewing, words
from app.components.controls import choose_one, step_through
from app.components.glossary import tip
from app.components.table import Column, picking_table
from app.components.work import Work, show_work
from app.views.samples import NO_WORDS, holding, note_sample, sample_table, search_words, show_sample

PAIR, CAPTION = "pair-caption-number", "empty-caption"
MEMBERS_SHOWN, PICTURE = 12, 280
KEY_SECONDS = 30  # after which pictures are looked up again, in case one has changed
Splits = Sequence[data_quality.CaptionedSplit]
EXPECTED = {
    data_quality.VERDICTS[0]: "at least half of random pairs look better",
    data_quality.VERDICTS[1]: "at least a tenth do",
    data_quality.VERDICTS[2]: "fewer do",
}
HEADINGS = {
    "pictures": (
        "Near-duplicate pictures",
        "Copies at any size and quality, and shots of one moment. Perceptual hashes find them, a comparison of colours "
        "confirms them.",
    ),
    "captions": (
        "Near-duplicate captions",
        "The same but for case, punctuation, articles and the spelling of one word. On different images they are no "
        "copies by themselves, but such a caption fits several pictures.",
    ),
    "bad": (
        "Broken, tiny and blank pictures",
        "Decoded one by one; below 64 pixels a side a picture counts as tiny.",
    ),
}


def halves(choice: Choice) -> list[RunSummary]:
    """Two of the chosen runs that trained on complementary halves of the split on the page, which is train; or none."""
    pairs = combinations(choice.runs, 2) if choice.split == "train" else ()
    return next((list(pair) for pair in pairs if not ask_both(questions.why_not_cross_fitted, *pair)), [])


def mismatched_pairs(choice: Choice, run: RunSummary, cross_fitted: list[RunSummary]) -> None:
    """Every caption with its image, the most suspicious first; one of them opened.

    Args:
        run: that judges.
        cross_fitted: two runs that judge in its place, each the images it did not train on; or none.
    """
    if choice.split == "train" and not cross_fitted and not run.imported:
        _note_seen(choice, run)
    note_sample(run, choice.split)
    table = (
        ask_both(data_quality.cross_fitted, *cross_fitted, sample=ask(Run.sample, cross_fitted[0], "train"))
        if cross_fitted
        else ask(data_quality.mismatches, run, choice.split, sample=ask(Run.sample, run, choice.split))
    )
    table = table[choice.inside("text", table["caption"])]
    counts = table["verdict"].value_counts()
    cards.metrics(
        cards.Metric(name, f"{counts.get(name, 0):,}", EXPECTED[name], "random pairs")
        for name in data_quality.VERDICTS
    )
    by = (
        "Every pair is judged by the run that did not see its image."
        if cross_fitted
        else _judges(choice, run)
    )
    cards.heading(
        "Captions that may belong to another image",
        f"{by} Most suspicious first. Vague captions are here, too: they suit their image no better "
        "than others. Click on a row to open the pair.",
    )
    judges = table["judge"] if cross_fitted else [run.name] * len(table)
    ranks = {each.name: ask(Run.ranks, each, choice.split)["t2i"] + 1 for each in cross_fitted or [run]}
    table = table.assign(rank=[ranks[name][row] for name, row in zip(judges, table["caption"], strict=True)])
    columns = {
        "score": Column("suspicion", ".1f", "mismatch"),
        "random": Column("random pairs better", ".0f", "random pairs", " %"),
        "verdict": Column("looks"),
        "rank": Column("rank of its image", ",d", "rank"),
    }
    if cross_fitted:
        columns["judge"] = Column("judged by")
    filtered = search_words(f"{PAIR}-words")
    _open_captions(choice, run, table, columns, filtered, PAIR, "mismatched", "One pair in detail")


def _note_seen(choice: Choice, run: RunSummary) -> None:
    """Say that a run judges pairs it trained on, and how two runs can judge them."""
    cards.note(
        f"{run.name} trained on these pairs and has learned their mistakes too: a pair that looks plausible here may "
        "be wrong. Two runs can judge train: one with --train-part 0.5, one with --train-part 0.5 --other-part, both "
        "evaluated with --split train."
    )
    if choice.second is not None and (
        why := ask_both(questions.why_not_cross_fitted, choice.first, choice.second)
    ):
        cards.note(f"These two cannot: {why}.")


def empty_captions(choice: Choice, run: RunSummary) -> None:
    """Captions that say little, or suit many images."""
    note_sample(run, choice.split)
    facts = ask(questions.caption_facts, run, choice.split)
    cards.heading(
        "Captions that say little",
        f"Few content words, many images it fits, or low diversity. {_judges(choice, run)} Click on a row to open the "
        "caption.",
    )
    orders = {"little": "Says least", "generic": "Fits most images", "diversity": "Lowest diversity"}
    with st.container(horizontal=True, vertical_alignment="bottom", gap="medium"):
        by = choose_one("Order", orders, "empty-order", tip("fits"))
        filtered = search_words(f"{CAPTION}-words")
    columns = {
        "content": Column("content words", ",d", "content words"),
        "words": Column("words", ",d"),
        "diversity": Column(f"diversity in {run.name}", ".4f", "diversity"),
    }
    if by == "generic":
        fits = ask(retrieval.fitting_images, run, choice.split, ask(Run.sample, run, choice.split))
        if fits is None:
            cards.note(
                "These captions share hardly any words, so the other images that each would fit are unknown."
            )
            return
        facts = facts.assign(fits=fits)
        columns = {"fits": Column("images it fits", ",d", "fits")} | columns
    keys = {"little": ["content", "words"], "generic": ["fits"], "diversity": ["diversity"]}[by]
    facts = facts.sort_values(keys, ascending=by != "generic", kind="stable")
    _open_captions(choice, run, facts, columns, filtered, CAPTION, "empty-captions", "One caption in detail")


def _judges(choice: Choice, run: RunSummary) -> str:
    """By which run, and which one can judge instead."""
    others = " ".join(f"“Judged by” chooses {other.name}." for other in choice.runs if other != run)
    return f"By {run.name}. {others}".strip()


def _open_captions(
    choice: Choice,
    run: RunSummary,
    table: pd.DataFrame,
    columns: dict[str, Column],
    filtered: str,
    target: str,
    file: str,
    title: str,
) -> None:
    """A table of the captions that hold the words of `filtered`, and the one that is open."""
    numbers = table["caption"].to_numpy()
    rows = holding(choice, "text", numbers, filtered)
    if not len(rows):
        cards.empty(*NO_WORDS)
        return
    order = sample_table(
        choice,
        "text",
        numbers[rows],
        table.iloc[rows][list(columns)],
        columns,
        target=target,
        key=f"{target}-table",
        file=f"{file}-{choice.split}",
    )
    if not opened(target, order):
        return
    cards.heading(title)
    count = ask(Run.count, run, choice.split, "text")
    number = step_through("Caption number", target, order, count, "The row of the caption in its split.")
    show_sample(choice, "text", number)


@st.cache_data(ttl=KEY_SECONDS, show_spinner=False, hash_funcs=HASHES)
def _content_key(run: RunSummary) -> str:
    return data_quality.content_key(ask(data_quality.splits_of_run, run))


@st.cache_data(max_entries=512, show_spinner=False, hash_funcs=HASHES)
def _picture(run: RunSummary, name: str, image: int) -> bytes | None:
    return data_quality.split_thumbnail(
        split_named(ask(data_quality.splits_of_run, run), name), image, PICTURE
    )


def split_named(splits: Splits, name: str) -> data_quality.CaptionedSplit:
    """The split of this name."""
    return next(split for split in splits if split.name == name)


def content_report(run: RunSummary) -> tuple[Splits, StoredResult[data_quality.ContentReport]]:
    """The splits of the data behind a run, and the report on their content, as far as there is one."""
    splits = ask(data_quality.splits_of_run, run)
    result = _stored_report(_content_key(run))
    job = jobs.current(result.name) if result.value is None else None
    if job is not None and job.progress is not None and job.progress.state == "finished":
        splits = ask_now(data_quality.splits_of_run, run)  # the data has changed since it was read here
        result = _stored_report(data_quality.content_key(splits))
    return splits, result


def _stored_report(key: str) -> StoredResult[data_quality.ContentReport]:
    result = _report(key)
    if result.value is None:
        _report.clear(key)
    return result


@st.cache_resource(max_entries=4, show_spinner=False)
def _report(key: str) -> StoredResult[data_quality.ContentReport]:
    return data_quality.stored_report(key)


def findings(choice: Choice, run: RunSummary, view: str) -> None:
    """Duplicates or bad pictures of all splits of the data; where they were not looked for yet, a button."""
    splits, result = content_report(run)
    if result.value is None:
        show_work(
            Work(
                result.name,
                jobs.module_command("coder_core.check_data", str(run.path), "--content"),
                "Check pictures and captions",
                "Looks at every picture of the data and compares all pictures and captions: about a minute for 10,000 "
                "pictures on two cores. The report is kept until the data changes.",
            )
        )
        return
    report = result.value
    cards.heading(*HEADINGS[view])
    cards.note(_extent(report, view) + (" The slice does not narrow this list." if choice.slice else ""))
    listed = {
        "pictures": report.duplicate_pictures,
        "captions": report.duplicate_captions,
        "bad": report.pictures,
    }[view]
    leaks = [finding for finding in listed if len(finding.splits) > 1]
    if view != "bad" and len(report.splits) > 1:
        label = f"Only across splits ({len(leaks):,} of {len(listed):,})"
        listed = tuple(leaks) if st.toggle(label, False, help=tip("split"), **bound("leaks")) else listed
    if not listed:
        cards.empty("None found.", "The splits above contain nothing of this kind.")
        return
    _listed(choice, run, splits, listed, view)


def _extent(report: data_quality.ContentReport, view: str) -> str:
    """The extent of the check in words."""
    unit, at = ("captions", 1) if view == "captions" else ("images", 0)
    parts = [f"{name} ({counts[at]:,} {unit})" for name, counts in report.splits.items()]
    lacking = ""
    if view != "captions" and report.without_pictures:
        lacking = f" The pictures of {' and '.join(report.without_pictures)} are not here, so they were not looked at."
    alone = " Other splits of the data are not here." if len(parts) == 1 else ""
    return (
        f"Compared: {', '.join(parts)}.{lacking}{alone}"
        if view != "bad"
        else f"Splits: {', '.join(parts)}.{lacking}"
    )


def _listed(
    choice: Choice, run: RunSummary, splits: Splits, listed: tuple[data_quality.Finding, ...], view: str
) -> None:
    """A table of findings, and the samples of the one that is open."""
    captions, target = view == "captions", f"finding-{view}"
    table = data_quality.finding_table(listed, splits, captions=captions)
    columns = {"first": Column("caption" if captions else "picture")}
    if view == "bad":
        columns |= {"what": Column("what is wrong"), "splits": Column("split")}
    else:
        columns |= {
            "samples": Column(view, ",d"),
            "splits": Column("splits"),
            "likeness": Column("likeness", ".1f", "likeness", " %"),
        }
    ids = np.arange(len(listed))
    order = ids[picking_table(table, columns, ids, target, f"{target}-table", "findings", height=330)]
    downloads.table(data_quality.sample_rows(listed, splits, captions=captions), f"data-{view}")
    opened(target, order)
    number = step_through("Finding", target, order, len(listed), "Its place in the list.")
    finding = listed[number]
    if len(finding.samples) > MEMBERS_SHOWN:
        cards.note(f"{MEMBERS_SHOWN} of {words.count(len(finding.samples), 'sample')}; the file has all.")
    for name, row in finding.samples[:MEMBERS_SHOWN]:
        _member(choice, run, split_named(splits, name), row, "text" if captions else "image")


def _member(
    choice: Choice, run: RunSummary, split: data_quality.CaptionedSplit, row: int, modality: Modality
) -> None:
    """One sample of a finding: picture, captions, and links where the run was evaluated on its split."""
    name, images = split.name, split.image_of_text
    image = int(images[row]) if modality == "text" else row
    captions, file = data_quality.captions_of(split, image), split.image_names[image]
    highlighted = np.flatnonzero(images == image).tolist().index(row) if modality == "text" else None
    title = " · ".join(
        dict.fromkeys((name, f"{'caption' if modality == 'text' else 'image'} {row}", f"image {image}", file))
    )
    pages = links.of_sample(replace(choice, split=name), modality, row) if name in run.splits else ()
    here = image if name == choice.split else None
    cards.sample(_picture(run, name, image), captions, title, highlighted, pages, here)
    if name in run.splits:
        caption = row if modality == "text" else None
        reviewing.judge(replace(choice, split=name), image, caption, f"finding-{name}-{row}", keys=False)
