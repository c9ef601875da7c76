"""The Reviews page: a queue of pairs to judge, the verdicts, their effect on recall, agreement of reviewers."""

import shlex
from collections import Counter
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import streamlit as st

from app import judging
from app.address import put
from app.ask import Run, causes, read_each
from app.choice import DIRECTIONS, Choice
from app.components import cards, downloads, reviewing
from app.components.controls import button, choose_one, pick, row, side_by_side
from app.components.refusals import attempt
from app.components.reviewing import WORDS
from app.components.samples import TABLE_PICTURE, ids_text, note_sample, search_words, similar_button
from app.components.selection import matching
from app.components.table import ENLARGED, Column, SampleCell, Table, columns_of, plain_table, rows_table
from app.components.training_offers import data_set, offer_evaluation, show_link
from app.components.words import count, gain_cell

PAIR_SIZE = 640  # pixels on the longer side of the pictures to judge
SKIPPED = "review-skipped"
Skipped = dict[tuple[int, int], str]  # image and caption → id of the last verdict before the skip
RECALLS = columns_of("reviewed-recall")
AGREEMENT = columns_of("agreement")


def show(choice: Choice) -> None:
    reviews = judging.load(judging.file_of(choice.last))
    cards.faults((fault.place, fault.found) for fault in reviews.faults if fault.severity == "warning")
    cards.answer(answer(choice, reviews))
    show_queue(choice)
    show_judged(choice, reviews)
    show_recall(choice, reviews)
    show_agreement(reviews)
    show_training(choice, reviews)


def answer(choice: Choice, reviews: judging.Reviews) -> str:
    """Count the judged pairs, of this data or of the slice, by the verdict that most reviewers gave."""
    judged = {review.pair for review in _of_slice(choice, reviews.standing)}
    verdicts = [verdict for pair, verdict in reviews.verdicts.items() if pair in judged]
    of_slice = " of this slice" if choice.slice else ""
    if not verdicts:
        return f"No pair{of_slice} is judged yet"
    counts = ", ".join(f"{number:,} {WORDS[verdict]}" for verdict, number in Counter(verdicts).most_common())
    return f"{count(len(verdicts), 'pair')}{of_slice} judged: {counts}"


def show_queue(choice: Choice) -> None:
    """Draw the next pair of the chosen queue that this reviewer has not judged; each verdict shows the next pair."""
    run = choice.last
    of_slice = " in the slice" if choice.slice else ""
    with row():
        kind = choose_one("Queue", judging.QUEUES, "queue", cards.tip("queue"))
        reviewing.reviewer_field()
    if kind != "likely":
        note_sample(run, choice.split)
    elif (sample := choice.ask(Run.query_sample)) is not None:
        cards.note(f"From a random sample of {len(sample.texts):,} of {sample.of_texts:,} captions.")

    pairs = judging.queue(run, choice.split, kind, choice.captions)
    skipped: Skipped = st.session_state.setdefault(f"{SKIPPED}-{run.name}-{choice.split}", {})
    remaining = [pair for pair in pairs if pair not in skipped and not _is_judged(choice, pair)]
    done = len(pairs) - len(remaining)
    if kind == "estimate" and choice.ask(causes.has_causes):
        cards.note(_estimate(choice))

    given = [*judging.own_verdicts(choice.last, reviewing.reviewer()).values()]
    last = given[-1].id if given else ""
    if remaining:
        image, caption = remaining[0]
        with st.container(key="review-pair"):
            _show_pair(choice, image, caption)
        with reviewing.judge(choice, image, caption, "queue", keys=True):
            skip = partial(skipped.update, {remaining[0]: last})
            button("Skip", "queue-skip", "", skip, shortcut="S")
            enlarge = partial(put, ENLARGED, image)
            button("Enlarge", "queue-enlarge", "", enlarge, shortcut="F")
            similar_button(choice, "text", caption, "queue")
    else:
        unknown = choice.ask(causes.why_no_causes) if kind == "estimate" else ""
        nothing = unknown or "No such pair exists."
        cards.empty("This queue is finished." if pairs else nothing, "Choose another queue.")

    with st.container(horizontal=True, vertical_alignment="center"):
        _offer_undo(choice, skipped, given)

    st.progress(done / max(len(pairs), 1), f"{done} of {len(pairs)} judged or skipped")
    judged = cards.HOW_TO_READ["Judge"].format(run=run.name, of_slice=of_slice)
    cards.note(f"{cards.HOW_TO_READ[f'queue {kind}']} {judged}")


def _estimate(choice: Choice) -> str:
    """Say what R@1 is under complete labels, as far as the verdicts of the queue tell."""
    found = judging.recall_by_people(choice.last, choice.split, choice.captions)
    beside = f"{found.labels:.1f} by the labels, {found.guess:.1f} with the run’s guesses"
    if not found.needed:
        missing = causes.FEWEST_VERDICTS - found.verdicts
        return f"R@1 of the captions: {beside}; {count(missing, 'more verdict')} for an estimate with an interval."
    interval = f"95% [{found.low:.1f}, {found.high:.1f}]"
    enough = f"about {count(found.needed, 'verdict')} reach ±{causes.HALF_WIDTH:g} points"
    given = count(found.verdicts, "verdict")
    return f"R@1 of the captions under complete labels: {found.recall:.1f}, {interval}, from {given} ({beside}; {enough})."


def _offer_undo(choice: Choice, skipped: Skipped, given: list[judging.Review]) -> None:
    """Draw a button that undoes the last verdict, or the skip after it."""
    pair = next(reversed(skipped), None)
    if pair is not None and skipped[pair] == (given[-1].id if given else ""):
        undo: Any = partial(skipped.pop, pair)
        note = f"skipped: {choice.ask(Run.captions)[pair[1]]}"
    elif given:
        undo = partial(attempt, reviewing.NOT_RECORDED, judging.undo, choice.last, given[-1])
        note = reviewing.in_words(given[-1])
    else:
        return
    button("Undo the last", "queue-undo-last", "undo", undo, shortcut="U")
    cards.note(note[:220])


def _is_judged(choice: Choice, shown: tuple[int, int]) -> bool:
    """True if this reviewer has judged the pair, or the caption as wrong or too vague."""
    image, caption = shown
    split = choice.ask(judging.ReviewedSplit.of)
    given = judging.own_verdicts(choice.last, reviewing.reviewer())
    of_caption = given.get(split.pair(int(split.image_of_text[caption]), caption))
    pair = given.get(split.pair(image, caption))
    judged = pair is not None and pair.verdict != "none"
    return judged or (of_caption is not None and of_caption.verdict in reviewing.OF_CAPTION)


def _show_pair(choice: Choice, image: int, caption: int) -> None:
    """Draw the caption with the image to judge and, if that is another image, the caption's own image beside it."""
    captions = choice.ask(Run.captions)
    owner = int(choice.ask(Run.image_of_text)[caption])
    titles = {image: "The pair"}
    if owner != image:
        titles = {image: "Does the caption match this image?", owner: "Its own image"}

    for number, title in side_by_side(titles.items(), "small"):
        rest = [captions[text] for text in choice.ask(Run.captions_of, number) if text != caption]
        name = f"{title} · {ids_text('text', caption, number, choice.ask(Run.image_names)[number])}"
        label = "Open this sample"
        is_own = number == owner
        more = (
            cards.opening_html(label, "text", caption)
            if is_own
            else cards.opening_html(label, "image", number)
        )
        picture = choice.ask(Run.picture, number, PAIR_SIZE)
        texts = [captions[caption], *rest]
        st.html(cards.sample_html(cards.Sample(name, picture, texts, 0, number, more)))


def show_judged(choice: Choice, reviews: judging.Reviews) -> None:
    """Draw the verdicts that were not undone, with filters and a download."""
    of_slice = " with a caption of the slice, or an image that one describes" if choice.slice else ""
    cards.heading("Verdicts", of_slice=of_slice)
    if not reviews.standing:
        fix = "Judge pairs above, or on the cards of Retrieval and Diversity."
        cards.empty("Nothing is judged yet.", fix)
        return
    verdicts = _filtered(_of_slice(choice, reviews.standing[::-1]))
    if not verdicts:
        cards.empty("No verdict matches.", "Choose others, or clear the field.")
        return
    rows = [(WORDS[r.verdict], r.reviewer, ", ".join(r.tags), r.note, r.time) for r in verdicts]
    frame = pd.DataFrame(rows, columns=["verdict", "reviewer", "tags", "note", "time"])
    pairs = choice.ask(judging.ReviewedSplit.of).rows([review.pair for review in verdicts])

    def cells(positions: np.ndarray) -> list[SampleCell]:
        return [_pair_cell(choice, verdicts[row], pairs[row]) for row in positions.tolist()]

    columns = {str(name): Column(str(name)) for name in frame}
    rows_table(Table(frame, columns, "judged", "verdicts", samples=cells))
    images, captions = ([getattr(r, name) for r in verdicts] for name in ("image", "caption"))
    downloads.table(frame.assign(image=images, caption=captions), "reviews")


def _of_slice(choice: Choice, reviews: tuple[judging.Review, ...]) -> list[judging.Review]:
    """Return the verdicts on captions of the slice, or on images with such a caption."""
    if not choice.slice:
        return list(reviews)
    pairs = choice.ask(judging.ReviewedSplit.of).rows([review.pair for review in reviews])
    captions, images = (set(choice.members(kind).tolist()) for kind in ("text", "image"))
    return [
        review
        for review, pair in zip(reviews, pairs, strict=True)
        if pair is not None and (pair[1] in captions or (pair[1] < 0 and pair[0] in images))
    ]


def _filtered(reviews: list[judging.Review]) -> list[judging.Review]:
    present: set[str] = {review.verdict for review in reviews}
    names = ["all", *dict.fromkeys(cards.literal(review.reviewer) for review in reviews)]
    with row():
        kinds = ["all", *(kind for kind in WORDS if kind in present)]
        verdict = pick("Verdict", kinds, "verdict", 180, format_func=lambda kind: WORDS.get(kind, kind))
        by = pick("By", names, "verdict-by", 180)
        words = search_words("verdict-words", "in captions, tags and notes")
    texts = [f"{review.caption} {review.image} {' '.join(review.tags)} {review.note}" for review in reviews]
    found = [reviews[row] for row in matching(texts, words) if verdict in ("all", reviews[row].verdict)]
    return [review for review in found if by in ("all", cards.literal(review.reviewer))]


def _pair_cell(choice: Choice, review: judging.Review, pair: tuple[int, int] | None) -> SampleCell:
    """Return the first cell of a verdict's row; without a picture if the pair is in another split."""
    text = review.caption or f"all captions of {review.image}"
    if pair is None:
        return SampleCell(-1, "the pair", text, "elsewhere")
    image, caption = pair
    name = choice.ask(Run.image_names)[image]
    ids = ids_text("text", caption, image, name) if caption >= 0 else ids_text("image", image, image, name)
    picture = cards.data_url(choice.ask(Run.picture, image, TABLE_PICTURE))
    return SampleCell(image, "the pair", text, ids, picture)


def show_recall(choice: Choice, reviews: judging.Reviews) -> None:
    """Draw R@K of the chosen runs by the labels and by the reviewed labels."""
    of_slice = " Queries are those of the slice." if choice.slice else ""
    cards.heading("Recall with and without the verdicts", of_slice=of_slice)
    within = choice.captions
    tables, faults = read_each(choice.runs, lambda run: judging.reviewed_recall(run, choice.split, within))
    cards.faults(faults)
    if not tables:
        return

    parts = []
    for name, table in tables.items():
        table = table[(table["queries"] == "all") | (table["count"] > 0)]
        changes = zip(table["reviewed_1"] - table["labels_1"], table["low_1"], table["high_1"], strict=True)
        cells = [gain_cell(gain, low, high) for gain, low, high in changes]
        parts.append(table.assign(run=name, direction=table["direction"].map(DIRECTIONS), change=cells))

    frame = pd.concat(parts, ignore_index=True)
    plain_table(frame, RECALLS, "reviewed-recall", "rows")
    labels = {f"{end}_{k}": f"R@{k} change, {end} end" for end in ("low", "high") for k in (1, 5, 10)}
    labels |= {name: column.label for name, column in RECALLS.items()}
    downloads.table(frame.drop(columns="change").rename(columns=labels), "reviewed-recall", paper=True)
    cards.note(f"Fingerprint of the verdicts that count: {reviews.fingerprint()[:12]}.")


def show_agreement(reviews: judging.Reviews) -> None:
    cards.heading("Do the reviewers agree?")
    table = judging.reviewer_agreement(reviews)
    if len(table):
        plain_table(table, AGREEMENT, "agreement", "pairs of reviewers")
        return
    cards.empty("No two reviewers have judged the same pair.", cards.HOW_TO_READ["judge again"])


def show_training(choice: Choice, reviews: judging.Reviews) -> None:
    """Draw the number of verdicts that training would use, and a link that trains the judged run again with them."""
    run = choice.last
    cards.heading("Use them")
    path = judging.file_of(run)
    entry = data_set(run)
    if entry is None or not path.exists():
        cards.note(f"{count(len(reviews.verdicts), 'pair', 'pairs')} judged; the verdicts are in {path}.")
    else:
        concern = judging.verdicts_on_train(entry.path, path)
        cards.note(f"{concern} of {len(reviews.verdicts)} verdicts concern train; they are in {path}.")
        if concern:
            show_link("Train with these verdicts", choice, run, "reviewed")
        offer_evaluation(run, "train")
    values = shlex.join([str(run.path), "--split", choice.split, "--reviews", str(path)])
    st.code(f"coder-lab evaluate {values}", language=None, wrap_lines=True)
