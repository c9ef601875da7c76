"""The report's section on the causes of misses at R@1."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from coder_core.api import causes
from coder_core.api.report.page import Section
from coder_core.api.retrieval import judged
from coder_core.api.reviews import ReviewedSplit, Reviews
from coder_core.api.run import Run
from coder_core.api.sides import DIRECTIONS, Direction

TITLE = "Why queries miss"
CAUSES = """Every query that misses at R@1 has one cause, the first that applies: its label is wrong (a verdict, or it
probably belongs to another image); the first result is a match without a label; it is a copy; hub correction would put a
match first; the query is vague; the margin is no larger than its typical change from one training seed to another; or
none of these, a model error. Shares in percent of a run’s misses, with 95% intervals of a bootstrap over images. Below:
R@1 of {last} after each fix, and the share of its misses that the fix removes."""
SAMPLE = """ Only a sample of the queries is ranked, and these are the causes of its misses. Hub correction and the average of
two runs would need all images compared with all captions, so they are left out."""


def section_on_misses(
    runs: Sequence[Run], split: str, reviews: Reviews | None, positives: Sequence[str | Path]
) -> tuple[Section, str]:
    """Return the section, and the sentence that says which fixes gain most for captions as queries of the last run; the
    reason in its place if the causes of a run's misses are unknown."""
    last = runs[-1]
    reasons = [causes.why_no_causes(run, split) for run in runs]
    unknown = [reason for reason in reasons if reason]
    if unknown:
        return Section(TITLE, "", [("sentences", unknown)]), unknown[-1]

    sources = [judged.run_judgements(last, split, source) for source in positives]
    pairs = [rows for source in sources for rows in (source.of_texts, source.of_images)]
    reviewed = ReviewedSplit.of(last, split)
    blocks: list[tuple[str, Any]] = []
    sentences = {}
    for direction, name in DIRECTIONS.items():
        shares: dict[str, Any] = {}
        for run in runs:
            known = causes.Known.of(run, split, reviewed, reviews or Reviews(), pairs)
            question = causes.Question(direction, noise=_noise(run, runs, split, direction))
            misses = causes.causes_of_run(run, split, question, known)
            budget = causes.error_budget(misses)
            intervals = budget[["share", "low", "high"]].itertuples(index=False, name=None)
            shares[f"{run.name}, misses"] = budget["count"].tolist()
            shares[f"{run.name}, %"] = list(intervals)
        other = runs[0] if len(runs) > 1 else None
        fixes = causes.fixes_of_run(last, other, split, misses, direction)
        sentences[direction] = causes.gain_sentence(fixes, question.at)
        index = pd.Index(causes.CAUSES, name="cause")
        blocks.append(("subheading", name))
        if misses.missed.any():
            blocks.append(("table", pd.DataFrame(shares, index=index)))
        blocks.append(("table", _fix_table(fixes)))
        blocks.append(("sentences", [sentences[direction]]))

    text = CAUSES.format(last=last.name)
    if last.ranked_images(split) is not None:
        text += SAMPLE
    return Section(TITLE, text, blocks), f"{last.name}: {sentences['t2i']}"


def _noise(run: Run, runs: Sequence[Run], split: str, direction: Direction) -> float | None:
    """Return by how much margins differ between a run and one of the others that differs in the seed alone, or None."""
    by_name = {other.name: other for other in runs}
    other = causes.run_of_another_seed(run.summary, split, [of_run.summary for of_run in runs])
    return None if other is None else causes.noise_of_seeds(run, by_name[other.name], split, direction, 1)


def _fix_table(fixes: pd.DataFrame) -> pd.DataFrame:
    recalls = list(fixes[["recall", "low", "high"]].itertuples(index=False, name=None))
    columns = {
        "R@1": recalls,
        "change": list(fixes[["change", "change_low", "change_high"]].itertuples(index=False, name=None)),
        "% of the misses fixed": fixes["fixed"].round(1),
    }
    return pd.DataFrame(columns).set_index(pd.Index(fixes["fix"], name="if"))
