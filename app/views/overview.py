"""The Overview page: all runs and their recall, gains, answers and separation of pairs."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import streamlit as st

from app import charts, judging, questions
from app.ask import (
    Run,
    all_runs,
    ask,
    ask_all,
    ask_both,
    comparable,
    curves_of,
    joint_space,
    listing,
    opened_run,
    read_each,
    retrieval,
    run_faults,
    slices,
)
from app.choice import DIRECTIONS, QUERIES, Choice
from app.components import answers, cards, downloads, links
from app.components.controls import choose_one, pick, row, side_by_side
from app.components.error_budget import show_causes
from app.components.gains import show_gains
from app.components.run_names import run_colour
from app.components.samples import cells_of
from app.components.selection import by_outcome
from app.components.several import show_several
from app.components.table import Column, SampleCell, Table, columns_of, plain_table, rows_table
from app.components.theme import tone
from app.components.words import OF_WAY, count, curve_label, curves

Runs = list[listing.RunSummary]
Metrics = Mapping[str, Mapping[str, float]]  # run → metric → value

METRICS = {f"{a}2{b}_{key}": f"{a}→{b} {name}" for a, b in ("it", "ti") for key, name in OF_WAY.items()}
METRICS = {"rsum": "R@sum", **METRICS, "md": "MD"}
HEADLINE = [("R@sum", "rsum", "R@sum")]  # label, key of the metrics, term
HEADLINE += [(f"{label} R@1", f"{direction}_r1", "R@K") for direction, label in DIRECTIONS.items()]
HEADLINE += [(f"{label} MedR", f"{direction}_medr", "MedR") for direction, label in DIRECTIONS.items()]
TERMS = {"MRR": "MRR", "nDCG@10": "nDCG"}
RECALLS = {name: Column(name, ".1f", TERMS.get(name[4:], "R@K")) for name in METRICS.values()}
RECALLS |= {"R@sum": Column("R@sum", ".1f", "R@sum"), "MD": Column("MD", ".3f", "mean distance")}
COLUMNS = {"run": Column("run"), "from": Column("from", term="from"), "loss": Column("loss", term="loss")}
COLUMNS |= {**RECALLS, "state": Column("state"), "date": Column("date")}
BEST = [name for name in METRICS.values() if name != "MD"]  # MD depends on the scale of the scores
GRADED = {key: label for key, label in METRICS.items() if label[4:] in TERMS}
CHANGED = 8
CHANGED_HEIGHT = 200
RUNS_HEIGHT = 240  # of the table of all runs
CHANGES = {"rank_a": Column("before", ",d", "rank"), "rank_b": Column("now", ",d", "rank")}
MEANS = {name: Column(name, ".3f", "mean similarity") for name in ("matching pairs", "other pairs")}
SEPARATION = {"run": Column("run"), "AUROC": Column("AUROC", ".3f", "AUROC"), **MEANS, "MD": RECALLS["MD"]}


def answer(choice: Choice) -> str:
    """Say which run is better, and how many captions it fixes and breaks."""
    captions = choice.captions
    if captions is not None and not len(captions):
        return answers.EMPTY_SLICE
    metrics = metrics_by_run(choice.runs, choice)
    if any(run.name not in metrics for run in choice.runs):  # a damaged one is named below
        return answers.not_ranked(choice) or "There are no results to compare: a file below is damaged"
    recall, name = answers.main_recall(metrics)
    values = {run: of_run.get(recall, float("nan")) for run, of_run in metrics.items()}
    if choice.second is None:
        [value] = values.values()
        sampled = choice.first.sampled.get(choice.split)
        told = answers.of_log(choice) if _is_log(choice) else answers.reached(choice, recall, name, value)
        return told + (f" · {sampled}" if sampled else "")
    if _is_log(choice):
        told = answers.of_log(choice)
    elif choice.between:
        told = answers.of_several(choice, name, values)
    else:
        ends = values[choice.first.name], values[choice.last.name]
        told = answers.better(choice, recall, name, ends)
    if choice.between:
        return told
    fixed, broken = answers.changed(choice)
    return f"{told} · {fixed:,} fixed, {broken:,} broken"


def _is_log(choice: Choice) -> bool:
    """True if the split is a search log, of whose queries judges say what is right."""
    return choice.ask(Run.uncounted_queries) is not None


def show(choice: Choice) -> None:
    cards.answer(answer(choice))
    cards.faults(run_faults())
    _note_unknown_settings(choice)
    _note_sampled(choice)
    shown = [run.name for run in choice.runs]
    unevaluated = [run for run in all_runs() if run.name in choice.names and run.name not in shown]
    runs = [choice.first, *choice.between, *unevaluated, *choice.runs[1:][-1:]]
    captions = choice.captions
    empty = captions is not None and not len(captions)
    metrics: Metrics = {}
    is_log = _is_log(choice)
    if not empty:
        metrics = metrics_by_run(runs, choice)
        if captions is not None:
            images = count(len(choice.members("image")), "image")
            numbers = {"captions": count(len(captions), "caption"), "images": images, "slice": choice.slice}
            cards.note(cards.HOW_TO_READ["numbers of a slice"].format(**numbers))
        if is_log:  # nDCG@10 leads
            show_judged(choice)
        intact = all(run.name in metrics for run in choice.runs)  # a damaged one is named above
        if intact:
            show_causes(choice)
        headline(choice, metrics)
        if choice.between:
            recalls = {key: label for label, key, _ in HEADLINE if not key.endswith("medr")}
            show_gains(choice, recalls)
        elif choice.second is not None:
            show_changed(choice)
    show_table(choice)
    show_several(choice, COLUMNS, {key: METRICS[key] for key in METRICS if key != "md"})
    if not is_log:
        show_judged(choice)
    _note_origins(runs)
    if choice.between and not empty:
        show_changed(choice)
    left, right = st.columns(2, gap="large")
    if not empty:
        with left:
            show_recall(runs, choice, metrics)
    with right:
        show_curves(runs)
    if not empty:
        show_hits(runs, choice)
    for part in side_by_side((partial(show_separation, runs, choice.split), partial(show_differences, runs))):
        part()


def _offer_report(choice: Choice) -> None:
    report = partial(judging.report_page, choice.runs, choice.split)
    file = f"report-{choice.split}.html"
    downloads.offer("Report", report, file, "text/html", "summarize", help=cards.tip("report"))


def _note_unknown_settings(choice: Choice) -> None:
    """Name the settings of the chosen runs that this version does not know, and what needs another version."""
    for run in choice.runs:
        if run.unknown:
            parts = "; ".join(run.unknown)
            cards.note(cards.HOW_TO_READ["unknown configuration"].format(run=run.name, parts=parts))


def _note_sampled(choice: Choice) -> None:
    """Name the runs of whose queries only some are ranked."""
    for run in choice.runs:
        if sampled := run.sampled.get(choice.split):
            command = f"coder-lab evaluate {run.path} --split {choice.split} --rank all"
            cards.note(
                cards.HOW_TO_READ["sampled queries"].format(run=run.name, ranked=sampled, command=command)
            )


def _note_origins(runs: Runs) -> None:
    """Warn that the runs differ in more than the loss, if they come from different sources."""
    origins = {run.name: listing.numbers_from(run) for run in runs}
    if len(set(origins.values())) > 1:
        kinds = "; ".join(f"{name}: {listing.ORIGINS.get(kind, kind)}" for name, kind in origins.items())
        cards.note(f"These runs are of different kinds, so more than the loss differs between them. {kinds}.")


def show_changed(choice: Choice) -> None:
    """Draw the captions that only the last run hits, and those that only the first one hits; a row opens the query."""
    changes = ask_both(retrieval.compare, choice.first, choice.last, choice.split)
    changes = changes[changes["direction"] == "t2i"]
    changes = changes[choice.inside("text", changes["query"])]
    for outcome in side_by_side(("fixed", "broken")):
        rows = by_outcome(changes, outcome)
        shown = rows[:CHANGED]
        first = f"{len(shown)} largest changes shown" if len(rows) > len(shown) else "all shown"
        how = cards.HOW_TO_READ[outcome].format(first=choice.first.name, second=choice.last.name)
        cards.heading(f"{len(rows):,} {outcome}", "" if len(rows) else how)
        if len(rows):
            address = links.address("retrieval", choice, outcome=outcome.capitalize())
            cards.note_with_links(how, [(f"{first}; open all {len(rows):,} →", address)])
        _changed_table(choice, shown, outcome)


def _changed_table(choice: Choice, rows: pd.DataFrame, outcome: str) -> None:
    if rows.empty:
        cards.note(f"No caption is {outcome}.")
        return
    ids = rows["query"].to_numpy()
    owner = choice.ask(Run.image_of_text)
    captions = choice.ask(Run.captions)

    def cells(positions: np.ndarray) -> list[SampleCell]:
        samples = (("text", row, int(owner[row]), captions[row]) for row in ids[positions].tolist())
        return cells_of(choice.last, choice.split, samples)  # type: ignore[arg-type]

    def address(query: int) -> str:
        return links.address("retrieval", choice, **links.opening("retrieval", "text", query))

    listed = Table(rows, CHANGES, outcome, "captions shown", ids, CHANGED_HEIGHT, cells, address)
    rows_table(listed, -1)


def metrics_by_run(runs: Runs, choice: Choice) -> Metrics:
    """Return the metrics of the runs evaluated on the split: the stored ones, or those on the slice."""
    split = choice.split
    captions = choice.captions
    evaluated = [run for run in runs if run.metrics.get(split)]
    if captions is None:
        return {run.name: run.metrics[split] for run in evaluated}
    return {run.name: ask(slices.slice_metrics, run, split, captions) for run in evaluated}


def headline(choice: Choice, metrics: Metrics) -> None:
    if any(run.name not in metrics for run in choice.runs):  # damaged, and named above
        return
    changes = {}
    if choice.second is not None:
        changes = ask_both(retrieval.gains, choice.first, choice.second, choice.split, choice.captions)
    items = []
    is_log = _is_log(choice)
    for label, key, term in HEADLINE:
        if is_log and key == "rsum":  # the title has nDCG@10
            continue
        before, after = (metrics[run.name].get(key, float("nan")) for run in (choice.first, choice.last))
        if np.isnan(before) and np.isnan(after):  # another system's lists may be of one direction
            continue
        digits = 0 if key.endswith("medr") else 1
        note = f"vs {_shown(before, digits)}" if changes else ""
        if key in changes:
            note += f" · 95% [{changes[key].low:+.1f}, {changes[key].high:+.1f}]"
        value = _shown(after, digits)
        item = cards.Metric(label, value, note, term)
        if key in changes:
            delta = f"{after - before:+.1f}" if after != before else "0"
            item = replace(item, delta=delta, colour="normal" if changes[key].beyond_noise else "off")
        items.append(item)
    cards.metrics(items)


def _shown(value: float, digits: int) -> str:
    return "–" if np.isnan(value) else f"{value:.{digits}f}"


def show_recall(runs: Runs, choice: Choice, metrics: Metrics) -> None:
    split = choice.split
    cards.heading(f"Recall on {'the slice of ' if choice.slice else ''}{split}")
    if not metrics:
        nothing = answers.not_ranked(choice) or f"None of these runs was evaluated on {split}"
        cards.empty(f"{nothing}.", "Choose another split, or other runs.")
        return
    downloads.chart(charts.recall_bars(metrics, tone()), "recall", "recall of the runs")
    if choice.slice:
        rows = [[name, *map(of_run.get, GRADED)] for name, of_run in metrics.items()]
        shown = {name: COLUMNS[name] for name in ("run", *GRADED.values())}
        plain_table(pd.DataFrame(rows, columns=list(shown)), shown, "slice-graded", "runs")
    if unevaluated := [run.name for run in runs if split not in run.splits]:
        cards.note(f"Not evaluated on {split}: {', '.join(unevaluated)}.")


def show_curves(runs: Runs) -> None:
    cards.heading("Training")
    by_run, faults = read_each(runs, curves_of)
    by_epoch = {name: read.epochs for name, read in by_run.items()}
    by_step = {name: read.steps for name, read in by_run.items()}
    cards.faults(faults)
    for read in by_run.values():
        for sentence in read.faults:
            cards.note(sentence)
    columns = curves(list(by_epoch.values())) + curves(list(by_step.values()))
    if not columns:
        fact = "There is no finished epoch to plot."
        if runs and all(run.imported for run in runs):
            fact = "Imported embeddings have no training curves."
        cards.empty(fact, "Choose a run that has trained for at least one epoch.")
        return
    column = pick("Value", columns, "curve", format_func=curve_label, label_visibility="collapsed")
    frames = by_epoch if any(column in frame for frame in by_epoch.values()) else by_step
    figure = charts.training_curves(frames, column, curve_label(column), tone())
    downloads.chart(figure, "training_curves", "training curves")


def show_table(choice: Choice) -> None:
    """Draw one row per run, in one table per set of samples: its origin and its metrics on this split. The order is that of
    R@sum or, for a search log, of its queries' nDCG@10."""
    split = choice.split
    of_choice = choice.first.samples[choice.split]
    cards.heading("All runs", queries=f"the whole of {split}" if choice.slice else split)
    groups: dict[listing.SplitSamples | None, list[dict[str, Any]]] = {of_choice: []}
    for run in all_runs():
        groups.setdefault(run.samples.get(split), []).append(_row(run, split))
    measure = METRICS["t2i_ndcg10" if _is_log(choice) else "rsum"]
    for rows in groups.values():
        rows.sort(key=partial(_value, measure), reverse=True)
    colours = {run.name: run_colour(choice, run) for run in choice.runs}
    here = st.container()
    others = len(groups) - 1
    elsewhere = st.expander(f"Runs on {others} other sets of samples") if others > 1 else st.container()
    for samples, rows in sorted(groups.items(), key=lambda group: (group[0] is None, group[0] != of_choice)):
        name = f"Without an intact evaluation on {split}"
        key = "runs-"
        if samples is not None:
            names = ", ".join(dict.fromkeys(str(row["data"]) for row in rows if row["data"]))
            name = f"{names}: {count(samples.images, 'image')}, {count(samples.captions, 'caption')}"
            key = f"runs-{samples.digest}-{samples.images}"
        with here if samples == of_choice else elsewhere:
            cards.label(name)
            rows_table(
                Table(
                    pd.DataFrame(rows), COLUMNS, key, "runs", height=RUNS_HEIGHT, best=BEST, colours=colours
                )
            )
    everything = pd.DataFrame([row for rows in groups.values() for row in rows])
    with row():
        downloads.table(everything, f"runs-{split}", paper=True)
        _offer_report(choice)


def _value(measure: str, row: Mapping[str, Any]) -> float:
    """Return a run's value of the measure by which a table is ordered; the lowest value without one."""
    value = row[measure]
    return float("-inf") if value is None else float(value)


def _row(run: listing.RunSummary, split: str) -> dict[str, Any]:
    known = listing.facts(run)
    metrics = run.metrics.get(split, {})
    samples = run.samples.get(split)
    row = {"run": run.name, "from": known["from"], "loss": known["loss"]}
    row |= {label: metrics.get(key) for key, label in METRICS.items()}
    row |= {"state": run.state, "date": known["created"][:10]}
    row |= {name: known[name] for name in ("data", "seed", "epochs")}
    counts = {"images": samples and samples.images, "captions": samples and samples.captions}
    return {**row, "split": split, **counts}


def show_judged(choice: Choice) -> None:
    """Draw a table per qrels file that these runs were evaluated against (`evaluate --qrels`), several in tabs."""
    split = choice.split
    read = retrieval.graded_evaluations
    evaluations, faults = read_each(choice.runs, lambda run: read(opened_run(run), split))
    cards.faults(faults)
    tables = retrieval.graded_tables(evaluations)
    files = [cards.literal(result.file) for result, _ in tables]
    tabs = st.tabs(files) if len(files) > 1 else [st.container() for _ in files]
    for number, (result, table) in enumerate(tables):
        of = f"the whole of {split}" if choice.slice else split
        table["direction"] = table["direction"].map(DIRECTIONS)
        columns = columns_of("judged")
        numbers = table.iloc[:, :3].copy()
        for name in table.columns[len(columns) :]:
            ends = [cell if isinstance(cell, tuple) else (cell,) * 3 for cell in table[name]]
            numbers[[name, f"{name} low", f"{name} high"]] = ends
            table[name] = table[name].map("{0[0]:.1f} [{0[1]:.1f}, {0[2]:.1f}]".format, na_action="ignore")
            columns[name] = Column(name, term=name.partition("@")[0], right=True)
        with tabs[number]:
            how = cards.HOW_TO_READ["judged by"].format(of=of, fact=result.fact)
            cards.heading(f"Judged by {result.file}", how)
            plain_table(table, columns, f"judged-{number}", "rows")
            downloads.table(numbers, f"judged-{split}-{downloads.file_name(result.file)}", paper=True)


def show_differences(runs: Runs) -> None:
    if len(runs) < 2:
        return
    heading = "Differences between the configurations"
    cards.heading(heading, "Settings that are the same in all runs, or have no effect in any, are left out.")
    imported = [run.name for run in runs if run.imported]
    if imported:
        cards.note(f"{' and '.join(imported)}: imported embeddings, which have no configuration.")
    trained = {run.name: run.config for run in runs if not run.imported}
    table = retrieval.config_differences(trained)
    if len(trained) < 2:
        cards.empty("This needs two trained runs.", "Choose two that were trained here, in the sidebar.")
    elif table.empty:
        cards.empty("The configurations are equal.", "These runs have the same settings, including the seed.")
    else:
        table = table.rename_axis("setting").reset_index()
        plain_table(table, {str(name): Column(str(name)) for name in table}, "settings", "settings")
        downloads.table(table, "settings-that-differ", paper=True)


def show_hits(runs: Runs, choice: Choice) -> None:
    """Draw the number of queries that one run hits and another misses, for every two runs."""
    runs = [run for run in runs if choice.split in run.splits and comparable(choice.first, run, choice.split)]
    if len(runs) < 3:  # for two, the outcomes above show it
        return
    cards.heading("Which queries does only one run get right?")
    modality = choose_one("Direction", links.DIRECTIONS, "answers-of")
    right = ask_all(questions.answers, runs, choice.split, QUERIES[modality], 1, choice.samples(modality))
    alone = (right[:, None] & ~right[None]).sum(-1)  # of the row's run and not of the column's
    names = [run.name for run in runs]
    table = pd.DataFrame(alone, columns=names).astype(object).mask(np.eye(len(runs), dtype=bool), None)
    columns = {"run": Column("run"), "hits": Column("hits", ",d", "R@K")}
    columns |= {name: Column(f"missed by {name}", ",d") for name in names}
    plain_table(table.assign(run=names, hits=right.sum(-1)), columns, "answers", "runs")
    every = int(right.all(0).sum())
    none = int((~right.any(0)).sum())
    cards.note(f"Of {right.shape[1]:,} queries, all these runs hit {every:,}, and none hits {none:,}.")


def show_separation(runs: Runs, split: str) -> None:
    """Draw the separation of pairs for the runs evaluated on the split, and name damaged ones."""
    evaluated = [run for run in runs if split in run.splits and ask(Run.lists, run, split) is None]
    counted, faults = read_each(evaluated, lambda run: ask(joint_space.score_distributions, run, split))
    cards.faults(faults)
    if not counted:
        return
    sampled = max(counted.values(), key=lambda counts: counts.of_images - counts.images)
    note = ""
    if sampled.images < sampled.of_images:
        note = f" Counted over {sampled.images:,} of {sampled.of_images:,} images, drawn at random; the means are exact."
    cards.heading("How well are matching pairs separated from the others?", note=note)
    pairs = {name: (counts.positive, counts.negative) for name, counts in counted.items()}
    figure = charts.similarity_curves(pairs, sampled.edges, tone())
    downloads.chart(figure, "similarities", "similarities of pairs")
    means = [ask(joint_space.score_separation, run, split) for run in evaluated if run.name in counted]
    numbers = [
        (joint_space.auroc(counts), mean.positive, mean.negative, mean.mean_distance)
        for counts, mean in zip(counted.values(), means, strict=True)
    ]
    table = pd.DataFrame(numbers, columns=list(SEPARATION)[1:])
    table.insert(0, "run", list(counted))
    plain_table(table, SEPARATION, "separation", "runs")
    downloads.table(table, f"separation-{split}", paper=True)
