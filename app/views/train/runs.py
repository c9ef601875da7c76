"""The Train page: the form that starts a run, and one run with progress, curves, output, Stop and Resume."""

import html
from collections.abc import Sequence
from functools import partial

import pandas as pd
import streamlit as st

from app import charts, jobs, training
from app.address import bound, put, value_of
from app.ask import RunSummary, curves_of
from app.choice import Choice
from app.components import cards, downloads, links
from app.components.controls import button, pick
from app.components.refusals import attempt
from app.components.table import Column, Table, rows_table
from app.components.theme import tone
from app.components.training_offers import EVERY_TWO_SECONDS, offer_evaluation
from app.components.words import RSUM_COLUMNS, count, curve_label, curves, latest, steps_done, time_left
from app.training import NOT_STARTED
from app.views.train.form import show_form

RUNS = {"run": Column("run"), "state": Column("state"), "step": Column("step", ",d")}
RUNS |= {"best": Column("best R@sum on dev", ".1f", "R@sum")}
RESULTS = "See its results"
STOPPED_EARLY = "was stopped before its first step"
SHARES = (6, 7)  # of the width: the list of runs, and the one that is shown
LAST_LINES = 10  # of the output of a running program
ENDED_BADLY = ("failed", "interrupted", "damaged", "unknown")


def show(choice: Choice | None) -> None:
    entries = training.training_runs()
    names = [entry.name for entry in entries]
    alive = list({entry.job_name: entry.name for entry in reversed(entries) if entry.alive}.values())[::-1]
    if not names:
        cards.missing("Nothing has been trained here yet", "choose a preset below and start it")
    else:
        if st.session_state.get("watch") not in (None, *names):
            put("watch", names[0])
        if len(alive) > 1:
            cards.note(f"{len(alive)} runs share the processors of this machine: {', '.join(alive)}.")
        named = value_of("watch")
        watched = named if named in names else names[0]
        cards.answer(answer(entries[names.index(watched)]))
        left, right = st.columns(SHARES, gap="medium")
        with left:
            _table_of_runs(entries, watched)
            name = st.selectbox("Run", names, **bound("watch"), width=320)
        with right:
            show_training(name, None if choice is None else choice.first)

    with st.expander("Start a run", expanded=not alive, icon=":material/add:"):
        show_form()


def answer(entry: training.TrainingRun) -> str:
    """Say what the run below is doing, or how far it got."""
    status = {} if entry.run is None else entry.run.status
    if entry.alive:
        return f"{entry.name} is training" + (
            f" for {count(status['steps'], 'step')}" if "steps" in status else ""
        )
    if entry.run is None:
        return f"{entry.name} has not started"
    best = status.get("best")
    reached = f": best R@sum on dev {best:.1f}" if isinstance(best, float) else ""
    if not reached and isinstance(status.get("step"), int):
        reached = f" after {count(status['step'], 'step')}"
    return f"{entry.name} is {entry.run.state}{reached}"


def _table_of_runs(entries: Sequence[training.TrainingRun], watched: str) -> None:
    """Draw the runs with their states; a row shows one below."""
    rows = []
    for entry in entries:
        state = "starting" if entry.run is None else entry.run.state
        status = {} if entry.run is None else entry.run.status
        best = status.get("best")
        rows.append({"run": entry.name, "state": state, "step": status.get("step"), "best": best})
    frame = pd.DataFrame(rows, columns=["run", "state", "step", "best"])
    names = [entry.name for entry in entries]
    listed = Table(frame, RUNS, "training-runs", "runs", height=220)
    current = names.index(watched) if watched in names else -1
    rows_table(listed, current, lambda row: put("watch", names[row]))


def show_training(name: str, baseline: RunSummary | None) -> None:
    """Draw a run beside the baseline, every two seconds while it is running."""
    entry = training.find(name)
    busy = entry is not None and entry.alive

    @st.fragment(run_every=EVERY_TWO_SECONDS if busy else None)
    def watch() -> None:
        now = training.find(name)
        if busy != (now is not None and now.alive):
            st.rerun()
        if now is not None:
            _draw(now, baseline)

    watch()


def _draw(entry: training.TrainingRun, baseline: RunSummary | None) -> None:
    run = entry.run
    if run is None:
        _without_run(entry)
        return
    if run.fault:
        cards.faults([(entry.name, run.fault)])
        return

    share, text = steps_done(run)
    read = curves_of(run)
    st.progress(share)
    with st.container(horizontal=True, vertical_alignment="center"):
        if entry.stoppable:
            help_text = "The run saves and stops within seconds; nothing is lost."
            button("Stop", "train-stop", "stop", partial(_stop, entry), help=help_text)
        elif not entry.alive and run.state != "finished":
            resume = partial(attempt, NOT_STARTED, training.resume, run)
            help_text = "Continues from the newest save."
            button("Resume", "train-resume", "play_arrow", resume, type="primary", help=help_text)
        left = time_left(run, read.steps)
        st.html(f'<p class="cl-how">{_state(entry, run, text)}{left}{latest(read.epochs)}</p>')

    cards.refusal()
    for fault in read.faults:
        cards.note(fault)
    for change in read.changes:
        cards.note(f"{change[:1].upper()}{change[1:]}.")
    if read.warning:
        cards.warning(read.warning)

    _curves(run, baseline)
    if run.usable and not entry.alive:
        links.page_link("overview", RESULTS, run=run.name, split=run.splits[0])
    for split in () if entry.alive else ("dev", "train"):
        offer_evaluation(run, split)

    _output(entry, expanded=entry.alive or run.state in ENDED_BADLY)


def _state(entry: training.TrainingRun, run: RunSummary, text: str) -> str:
    """Complete the sentence of `steps_done` from the job and the run's message (HTML)."""
    if run.state == "finished" and entry.stoppable:
        return "finished, evaluating"
    if entry.alive and not entry.stoppable:
        return f"{text} · started outside the app; stop it there"
    message = str(run.status.get("message", ""))
    return f"{text} · {html.escape(message)}" if message else text


def _without_run(entry: training.TrainingRun) -> None:
    if entry.stoppable:
        progress = (entry.job.progress if entry.job else None) or jobs.JobProgress(0.0, "")
        if progress.state == "finished":  # the preparation of the data; the model follows
            progress = jobs.JobProgress(0.0, "")
        cards.label(entry.name)
        st.progress(progress.fraction)
        cards.note(f"{progress.phase.capitalize() or 'Reading the data and building the model'} …")
        button("Stop", "train-stop", "stop", partial(_stop, entry))
    else:
        fact = "did not start"
        fix = "The output below says why. Change the values and start again."
        if jobs.was_stopped(entry.job_name):
            fact = STOPPED_EARLY
            fix = "Dismiss it, then start it again; scorers already trained are kept."
        cards.empty(f"{entry.name} {fact}.", fix)
        button("Dismiss", "train-dismiss", "", partial(_dismiss, entry))

    _output(entry, expanded=True)


def _stop(entry: training.TrainingRun) -> None:
    """Stop a run, and go on showing it: it is no longer the first of the list."""
    jobs.stop(entry.job_name)
    put("watch", entry.name)


def _dismiss(entry: training.TrainingRun) -> None:
    jobs.forget(entry.job_name)
    put("name", entry.name)  # to start it again


def _curves(run: RunSummary, baseline: RunSummary | None) -> None:
    """Draw the run's curves over those of the baseline, the first run of the sidebar, if it was trained here."""
    read = curves_of(run)
    by_epoch = read.epochs
    by_step = read.steps
    others = [] if baseline is None or baseline.name == run.name or baseline.imported else [baseline]
    epochs = {of_run.name: curves_of(of_run).epochs for of_run in others} | {run.name: by_epoch}
    steps = {of_run.name: curves_of(of_run).steps for of_run in others} | {run.name: by_step}
    rsum = [name for name in RSUM_COLUMNS if name in by_epoch][:1]
    epoch_values = rsum + [name for name in curves([by_epoch]) if name not in rsum]
    panels = [
        ("Every few steps", "live", curves([by_step]), steps, "training, step by step"),
        ("Every epoch", "epochly", epoch_values, epochs, "training, epoch by epoch"),
    ]
    panels = [panel for panel in panels if panel[2]]
    if not panels:
        cards.note("The first numbers appear after a few steps.")
    for (label, key, values, frames, alt), column in zip(panels, st.columns(2, gap="large"), strict=False):
        with column:
            value = pick(label, values, key, format_func=curve_label)
            figure = charts.training_curves(frames, value, curve_label(value), tone())
            downloads.chart(figure, f"{key}-curve", alt)


def _output(entry: training.TrainingRun, *, expanded: bool) -> None:
    if entry.job is not None and entry.job.output:
        with st.expander("Output of the program", expanded=expanded):
            lines = entry.job.output.splitlines()
            shown = lines[-LAST_LINES:] if entry.alive else lines  # a finished one is read from the beginning
            st.code("\n".join(shown), language=None, wrap_lines=True)
