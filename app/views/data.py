"""The Data page: mismatched pairs; duplicates and bad pictures; captions that say little."""

from collections.abc import Sequence
from dataclasses import replace

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
    likely_matches,
    listing,
    opened_run,
    retrieval,
)
from app.ask import data_quality as api
from app.choice import Choice
from app.components import cards, downloads, links, opened, reviewing, samples
from app.components.answers import EMPTY_SLICE
from app.components.controls import choose_one, row, show_work, step_through, switch
from app.components.loss_values import Slider
from app.components.table import Column, Columns, Table, columns_of, picking_table
from app.components.training_offers import Scorers, scorers_among, show_link
from app.components.words import count
from app.components.workplace import BELOW_LIST, list_and_detail

VIEWS = {"pairs": "Mismatched pairs", "matches": "Unlabelled matches", "pictures": "Duplicate pictures"}
VIEWS |= {"captions": "Duplicate captions", "bad": "Bad pictures"}
VIEWS |= {"empty": "Empty captions", "little": "Says little"}
BY_RUN = ("pairs", "matches", "empty", "little")  # lists that depend on a run
MATCH = "unlabelled-caption"
BOTH = "+"  # no run has this name
PAIR = "pair-caption-number"
CAPTION = "empty-caption"
MEMBERS_SHOWN = 12
BEST = 5  # images shown for an opened caption
PICTURE = 280
KEY_SECONDS = 30  # seconds until pictures are checked for changes again
Split = api.CaptionedSplit
Splits = Sequence[Split]
Report = StoredResult[api.ContentReport]
EXPECTED = ("at least half of random pairs look better", "at least a tenth do", "fewer do")
ORDERS = {"little": "Least content", "generic": "Most generic", "diversity": "Lowest diversity"}
SORTED_BY = {"little": ["content", "words"], "generic": ["fits"], "diversity": ["diversity"]}
SUSPICION = columns_of("suspicious pairs")
MATCHES = columns_of("unlabelled matches")


def show(choice: Choice) -> None:
    run = choice.last
    both = Scorers()
    with row():
        view = choose_one("List", VIEWS, "list")
        if view in BY_RUN and choice.second is not None:
            names = {run.name: run.name for run in reversed(choice.runs)}
            pairs = scorers_among(choice.runs) if (view, choice.split) == ("pairs", "train") else {}
            names = ({BOTH: next(iter(pairs))} if pairs else {}) | names
            scorer = choose_one("Scored by", names, "scorer")
            both = pairs[names[BOTH]] if scorer == BOTH else ()
            run = next((run for run in choice.runs if run.name == scorer), run)

    if view == "pairs":
        mismatched_pairs(choice, run, both)
    elif view == "matches":
        unlabelled_matches(choice, run)
    elif view == "empty":
        empty_captions(choice, run)
    elif view == "little":
        captions_that_say_little(choice, run)
    else:
        findings(choice, run, view)


def mismatched_pairs(choice: Choice, run: RunSummary, cross_fitted: Scorers) -> None:
    """Draw every caption with its image, the most suspicious first, and one of them in detail. Two runs can score them
    instead of one, each the images that it did not train on."""
    if choice.split == "train" and not cross_fitted and may_have_seen(run):
        trained = "may have trained" if run.imported else "trained"
        cards.note(cards.HOW_TO_READ["pairs trained on"].format(run=run.name, trained=trained))
        if choice.second and (why := ask_both(questions.why_not_cross_fitted, choice.first, choice.second)):
            cards.note(f"These two runs cannot score each other's pairs: {why}.")
    samples.note_sample(run, choice.split)
    sample = ask(Run.sample, (cross_fitted or [run])[0], choice.split)
    if cross_fitted:
        first, second = cross_fitted
        table = ask_both(api.cross_fitted, first, second, sample=sample)
        by = "Every pair is scored by the run that did not see its image."
    else:
        table = ask(api.mismatches, run, choice.split, sample=sample).assign(scorer=run.name)
        by = _scored_by(choice, run)
    every = table
    table = table[choice.inside("text", table["caption"])]
    counts = table["level"].value_counts()
    numbers = [(name, f"{counts.get(name, 0):,}") for name in api.LEVELS]
    wrong = int(counts.get(api.LEVELS[0], 0))
    cards.answer(
        f"{wrong:,} of {len(table):,} captions probably belong to another image"
        if len(table)
        else EMPTY_SLICE
    )
    ranks = {
        one.name: retrieval.places(ask(Run.ranks, one, choice.split)["t2i"]) for one in cross_fitted or [run]
    }
    judged = zip(table["scorer"], table["caption"], strict=True)
    table = table.assign(rank=[ranks[name][caption] for name, caption in judged])
    columns = SUSPICION | ({"scorer": Column("scored by")} if cross_fitted else {})
    scorers = {one.name: one for one in (run, *cross_fitted)}

    def draw_list() -> np.ndarray:
        words = samples.search_words(f"{PAIR}-words")
        order = samples.sample_table(
            choice, _captions(table, columns, words, PAIR, f"mismatched-{choice.split}")
        )
        with st.container(key=BELOW_LIST):
            cards.note(cards.HOW_TO_READ["suspicious pairs"].format(by=by))
            if choice.split == "train":
                _offer_cleaning(choice, run, cross_fitted, api.error_probability(every["random"].to_numpy()))
            cards.metrics(
                cards.Metric(name, number, note, "random pairs")
                for (name, number), note in zip(numbers, EXPECTED, strict=True)
            )
        return order

    def draw_detail(order: np.ndarray) -> None:
        if len(order) and opened.among(PAIR, order):
            number = samples.step_samples(choice, "text", PAIR, order)
            names = every["scorer"][every["caption"] == number]
            _best_images(choice, scorers[next(iter(names), run.name)], number)

    list_and_detail(choice, draw_list, draw_detail)


def _best_images(choice: Choice, run: RunSummary, number: int) -> None:
    """Draw the images that a run ranks first for a caption."""
    cards.heading("Images that fit this caption best", detail=True, run=run.name)
    found = ask(Run.search, run, number, split=choice.split, modality="text", top=BEST)
    items = []
    for result in found.to_dict("records"):
        image = int(result["candidate"])
        placed = (int(result["place"]), float(result["score"]))
        card = samples.sample_card(choice, run, ("image", image), placed)
        review = reviewing.review_menu(choice, "text", number, image)
        items.append(replace(card, match=bool(result["match"]), review=review))
    cards.results(items)


def may_have_seen(run: RunSummary) -> bool:
    """True if a run may have trained on the pairs of the train split: a pretrained model as it is has not."""
    return listing.numbers_from(run) != "zero-shot"


def _offer_cleaning(choice: Choice, run: RunSummary, scorers: Scorers, probability: np.ndarray) -> None:
    """Draw a threshold of the `probability` (m,) that a pair is wrong, its effect, and a link to such a training."""
    label = "Leave out pairs that are wrong with this probability or more"
    above = round(Slider(label, "clean-above", "clean above", 0.05, 1.0, 0.05).draw(api.CLEAN_ABOVE), 2)
    out = probability >= above
    if out.all():
        cards.note(cards.HOW_TO_READ["no pair is left"])
        return
    numbers = {"out": out.sum(), "pairs": count(len(out), "pair"), "errors": 100 * probability[~out].mean()}
    by = "by these scorers" if scorers else "by new scorers"
    cards.note(f"{cards.HOW_TO_READ['pairs left out'].format(**numbers)} {cards.HOW_TO_READ[by]}")
    changes = {"train_part": 1.0, "other_part": False, "clean": True, "clean_above": above}
    named = "".join(scorers_among(scorers))  # one name or none
    trained = [other for other in (run, *choice.runs) if other.config.get("data", {}).get("train_part") == 1]
    like = next(iter(trained), run)  # rather not a scorer, whose settings suit half of the data
    show_link("Train without suspicious pairs", choice, like, "cleaned", named, **changes)


def unlabelled_matches(choice: Choice, run: RunSummary) -> None:
    """Draw results that are probably matches although they are not labelled, the likeliest first."""
    split = choice.split
    guesses = likely_matches(run, split, "t2i")
    if guesses is None:
        fact = "No unlabelled match can be guessed"
        cards.missing(fact, "these captions share hardly any words", samples.NO_COMMON_WORDS)
        return
    likeness = np.where(guesses.likely(), guesses.likeness, -1.0)
    place = likeness.argmax(1)
    largest = likeness.max(1)
    captions = np.argsort(-largest, kind="stable")
    captions = captions[largest[captions] > 0]
    captions = captions[choice.inside("text", captions)]
    cards.answer(f"{len(captions):,} captions of {split} probably match another image, too")
    best = ask(questions.best_candidates, run, split, "text")
    images = best[captions, place[captions]]
    table = pd.DataFrame({"other": images, "place": place[captions] + 1, "likeness": largest[captions]})

    def draw_list() -> np.ndarray:
        words = samples.search_words(f"{MATCH}-words")
        file = f"unlabelled-{split}"
        listed = samples.SampleList("text", captions, table, MATCHES, words, MATCH, file)
        order = samples.sample_table(choice, listed)
        with st.container(key=BELOW_LIST):
            cards.note(cards.HOW_TO_READ["probable matches"].format(by=_scored_by(choice, run)))
        return order

    def draw_detail(order: np.ndarray) -> None:
        if not len(order) or not opened.among(MATCH, order):
            return
        number = samples.step_samples(choice, "text", MATCH, order)
        cards.heading("The other image", detail=True)
        image = int(best[number, place[number]])
        placed = (int(place[number]) + 1, float(largest[number]))
        card = samples.sample_card(choice, run, ("image", image), placed)
        cards.results([replace(card, term="caption likeness")])
        reviewing.judge(choice, image, number, "match")

    list_and_detail(choice, draw_list, draw_detail)


def _caption_facts(choice: Choice, run: RunSummary) -> tuple[pd.DataFrame, dict[str, Column]]:
    facts = ask(questions.caption_facts, run, choice.split)
    columns = {"content": Column("content words", ",d", "content words"), "words": Column("words", ",d")}
    columns |= {"diversity": Column(f"diversity in {run.name}", ".4f", "diversity")}
    return facts, columns


def empty_captions(choice: Choice, run: RunSummary) -> None:
    """Draw the captions without a content word."""
    samples.note_sample(run, choice.split)
    facts, columns = _caption_facts(choice, run)
    facts = facts[facts["content"] == 0].sort_values("words", kind="stable")
    cards.answer(f"{len(facts):,} captions of {choice.split} have no content word")
    if not len(facts):
        cards.empty("No caption is empty.", "“Says little” lists the captions with the least content.")
        return
    how = cards.HOW_TO_READ["empty captions"]
    _list_captions(choice, run, facts, columns, f"empty-captions-{choice.split}", how)


def captions_that_say_little(choice: Choice, run: RunSummary) -> None:
    """Draw the captions with the least content, that fit most images, or of the lowest diversity."""
    samples.note_sample(run, choice.split)
    facts, columns = _caption_facts(choice, run)
    by = choose_one("Order", ORDERS, "empty-order", cards.tip("fits"))
    if by == "generic":
        fits = ask(retrieval.count_fitting_images, run, choice.split, ask(Run.sample, run, choice.split))
        if fits is None:
            cards.note(samples.NO_COMMON_WORDS)
            return
        facts = facts.assign(fits=fits)
        columns = {"fits": Column("plausible images", ",d", "fits")} | columns
    short = int((facts["content"] <= 1).sum())
    cards.answer(f"{short:,} of {len(facts):,} captions of {choice.split} have at most one content word")
    facts = facts.sort_values(SORTED_BY[by], ascending=by != "generic", kind="stable")
    how = cards.HOW_TO_READ["captions that say little"].format(scorers=_scored_by(choice, run))
    _list_captions(choice, run, facts, columns, f"captions-that-say-little-{choice.split}", how)


def _scored_by(choice: Choice, run: RunSummary) -> str:
    """Name the run that scores, and the other runs that can."""
    choices = [f"“Scored by” also offers {other.name}." for other in choice.runs if other != run]
    return " ".join([f"By {run.name}.", *choices])


def _captions(
    table: pd.DataFrame, columns: Columns, words: str, target: str, file: str
) -> samples.SampleList:
    captions = table["caption"].to_numpy()
    return samples.SampleList("text", captions, table[list(columns)], columns, words, target, file)


def _list_captions(
    choice: Choice, run: RunSummary, facts: pd.DataFrame, columns: Columns, file: str, how: str
) -> None:
    """Draw captions in this order beside one of them; `how` says what they are."""

    def draw_list() -> np.ndarray:
        words = samples.search_words(f"{CAPTION}-words")
        order = samples.sample_table(choice, _captions(facts, columns, words, CAPTION, file))
        with st.container(key=BELOW_LIST):
            cards.note(how)
        return order

    def draw_detail(order: np.ndarray) -> None:
        if len(order) and opened.among(CAPTION, order):
            number = samples.step_samples(choice, "text", CAPTION, order)
            _best_images(choice, run, number)

    list_and_detail(choice, draw_list, draw_detail)


@st.cache_data(ttl=KEY_SECONDS, show_spinner=False, hash_funcs=HASHES)
def _content_key(run: RunSummary) -> str:
    return api.content_key(ask(api.splits_of_run, run))


@st.cache_data(max_entries=512, show_spinner=False, hash_funcs=HASHES)
def _picture(run: RunSummary, name: str, image: int) -> bytes | None:
    return api.split_thumbnail(split_named(ask(api.splits_of_run, run), name), image, PICTURE)


def split_named(splits: Splits, name: str) -> Split:
    return next(split for split in splits if split.name == name)


def content_report(run: RunSummary) -> tuple[Splits, Report]:
    """Return the splits of a run's data, and the report on their content, if it exists."""
    splits = ask(api.splits_of_run, run)
    result = _stored_report(_content_key(run))
    job = jobs.current(result.name) if result.value is None else None
    if job is not None and job.progress is not None and job.progress.state == "finished":
        splits = api.splits_of_run(opened_run(run))  # the data has changed since it was read here
        result = _stored_report(api.content_key(splits))
    return splits, result


def _stored_report(key: str) -> Report:
    result = _report(key)
    if result.value is None:
        _report.clear(key)
    return result


@st.cache_resource(max_entries=4, show_spinner=False)
def _report(key: str) -> Report:
    return api.stored_report(key)


def findings(choice: Choice, run: RunSummary, view: str) -> None:
    """Draw duplicates or bad pictures of all splits of the data, or a button to search for them."""
    splits, result = content_report(run)
    if result.value is None:
        command = jobs.module_command("coder_core.check_data", str(run.path), "--content")
        how = cards.HOW_TO_READ["check of the content"]
        cards.answer("Pictures and captions are not checked for this yet: start the check below")
        show_work(result.name, command, "Check pictures and captions", how)
        return

    report = result.value
    kind = "Broken, tiny and blank pictures" if view == "bad" else f"Near-{VIEWS[view].lower()}"
    narrowed = " The slice does not narrow this list." if choice.slice else ""
    how = f"{cards.HOW_TO_READ[kind]} {_extent(report, view)}{narrowed}"
    copies = {"pictures": report.duplicate_pictures, "captions": report.duplicate_captions}
    shown = copies.get(view, report.pictures)
    if view != "bad" and len(report.splits) > 1:
        leaks = tuple(finding for finding in shown if len(finding.splits) > 1)
        label = f"Only across splits ({len(leaks):,} of {len(shown):,})"
        shown = leaks if switch(label, "leaks", "split") else shown

    cards.answer(_found(report, view))
    if shown:
        _show_findings(choice, run, splits, shown, view, how)
    else:
        cards.empty("None found.", "The splits below contain nothing of this kind.")
        cards.note(how)


def _found(report: api.ContentReport, view: str) -> str:
    """Say how many findings of a kind there are, and how many of them lie in several splits."""
    if view == "bad":
        return f"{count(len(report.pictures), 'picture')} {'is' if len(report.pictures) == 1 else 'are'} broken, tiny or blank"
    found = report.duplicate_pictures if view == "pictures" else report.duplicate_captions
    groups = count(len(found), "group")
    across = sum(len(finding.splits) > 1 for finding in found)
    return f"{groups} of near-{VIEWS[view].lower()}" + (f", {across:,} across splits" if across else "")


def _extent(report: api.ContentReport, view: str) -> str:
    unit, at = ("captions", 1) if view == "captions" else ("images", 0)
    parts = [f"{name} ({counts[at]:,} {unit})" for name, counts in report.splits.items()]
    text = f"{'Splits' if view == 'bad' else 'Compared'}: {', '.join(parts)}."
    if view != "captions" and report.without_pictures:
        names = " and ".join(report.without_pictures)
        text += f" The pictures of {names} were not found, so they were not checked."
    return f"{text} Other splits of the data were not found." if len(parts) == 1 and view != "bad" else text


def _show_findings(
    choice: Choice, run: RunSummary, splits: Splits, findings: tuple[api.Finding, ...], view: str, how: str
) -> None:
    """Draw findings beside the samples of one of them; `how` says what was compared."""
    captions = view == "captions"
    target = f"finding-{view}"
    table = api.finding_table(findings, splits, captions=captions)
    columns = {"first": Column("caption" if captions else "picture")}
    if view == "bad":
        columns |= {"what": Column("what is wrong"), "splits": Column("split")}
    else:
        columns |= {"samples": Column(view, ",d"), "splits": Column("splits")}
        columns["likeness"] = Column("likeness", ".1f", "likeness", " %")
    ids = np.arange(len(findings))
    listed = Table(table, columns, f"{target}-table", "findings", ids, 560)
    modality: Modality = "text" if captions else "image"

    def draw_list() -> np.ndarray:
        order = ids[picking_table(listed, target)]
        downloads.table(api.sample_rows(findings, splits, captions=captions), f"data-{view}")
        with st.container(key=BELOW_LIST):
            cards.note(how)
        return order

    def draw_detail(order: np.ndarray) -> None:
        opened_finding = step_through("Finding", target, order, len(findings))
        members = findings[opened_finding].samples
        if len(members) > MEMBERS_SHOWN:
            cards.note(
                f"{MEMBERS_SHOWN} of {count(len(members), 'sample')} shown; the downloaded file has all."
            )
        for name, number in members[:MEMBERS_SHOWN]:
            _member(choice, run, split_named(splits, name), number, modality)

    list_and_detail(choice, draw_list, draw_detail)


def _member(choice: Choice, run: RunSummary, split: Split, number: int, modality: Modality) -> None:
    """Draw a sample of a finding: picture, captions, and links if the run was evaluated on its split."""
    name = split.name
    images = split.image_of_text
    image = int(images[number]) if modality == "text" else number
    title = f"{name} · {samples.ids_text(modality, number, image, split.image_names[image])}"
    there = replace(choice, split=name)
    sample = cards.Sample(title, _picture(run, name, image), api.captions_of(split, image))
    if name == choice.split:
        sample = replace(sample, image=image)
    if modality == "text":
        sample = replace(sample, highlighted=np.flatnonzero(images == image).tolist().index(number))
    if name in run.splits:
        page = links.address("", there, **{opened.SAMPLE: opened.name_of(modality, number)})
        sample = replace(sample, more=cards.links_html([("open", page)]))

    st.html(cards.sample_html(sample))
    if name in run.splits:
        reviewing.judge(there, image, number if modality == "text" else None, f"finding-{name}-{number}")
