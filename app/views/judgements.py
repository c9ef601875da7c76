"""Failure, or a match that no label names? Runs by the judgements of people."""

from __future__ import annotations

import numpy as np
import pandas as pd

from app import judging
from app.ask import Direction, Modality, Run, ask
from app.choice import QUERIES, Choice
from app.ui import cards, downloads, export
from app.ui.table import Column, plain_table
from app.views.failures import query_table
from app.views.judged import judged_right
from app.views.samples import of_run, search_words


def unlabelled_matches(
    choice: Choice, source: judging.Source, direction: Direction, at: int, modality: Modality
) -> np.ndarray:
    """Recall by the judgements, and the failures of the last run that are none by them; returns their order."""
    show_recall(choice, source)
    last = choice.last
    cards.heading(
        f"Failures of {last.name} that the judges call right",
        f"No labelled match within the first {at}, but one that people judged to fit. Worst rank of the label first. "
        "Click on a row to open the query.",
    )
    words = search_words("words")
    queries = np.flatnonzero(judged_right(source, choice, direction, at))
    queries = queries[choice.inside(modality, queries)]
    table = pd.DataFrame({"query": queries})
    for run in choice.runs:
        table[run.name] = ask(Run.ranks, run, choice.split)[direction][queries] + 1
    table = table.iloc[np.argsort(-table[last.name].to_numpy(), kind="stable")]
    columns = {run.name: Column(of_run(choice, "rank", run), ",d", "rank") for run in choice.runs}
    fact, file = "There is no such failure.", f"judged-right-{choice.split}-{direction}"
    return query_table(choice, modality, table, columns, words, fact, file)


def show_recall(choice: Choice, source: judging.Source) -> None:
    """Recall of all runs by the labels and by the judgements, both directions."""
    cards.heading(
        f"By the judgements of {source.label}",
        "Left R@K by the labels alone; right what people judged to fit counts as well, over the same queries. A wide "
        "gap says that many failures are matches that no label names.",
    )
    queries = None
    if choice.slice:
        queries = {str(way): choice.members(modality) for modality, way in QUERIES.items()}
    table = judging.judged_recall(source, choice.runs, queries)
    table["direction"] = table["direction"].map({"i2t": "image → text", "t2i": "text → image"})
    columns = {"direction": Column("direction"), "run": Column("run"), "queries": Column("queries", ",d")}
    for names, by, term in ((judging.LABELLED, "labels", "R@K"), (judging.JUDGED, "judges", "judged R@K")):
        columns |= {name: Column(f"{by} R@{name.rpartition('_')[2]}", ".1f", term) for name in names}
    columns |= {
        "map_at_r": Column("mAP@R", ".1f", "mAP@R"),
        "r_precision": Column("R-Prec.", ".1f", "R-Precision"),
    }
    table = table[list(columns)]
    plain_table(table, columns, "judged-recall", "rows")
    cards.note(
        f"{source.place}: {source.fact}." if source.place != source.key else f"{source.label}: {source.fact}."
    )
    content = table.rename(columns={name: column.label for name, column in columns.items()})
    downloads.table(content, f"judged-{choice.split}-{export.file_name(source.key)}")
