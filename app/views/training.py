"""A run while it trains: progress, curves, output, Stop and Resume."""

from __future__ import annotations

import html

import streamlit as st

from app import charts, jobs, training
from app.ask import curves_of
from app.choice import attempt, bound, theme
from app.components import cards, downloads
from app.components.words import RSUM_COLUMNS, curve_label, curves, latest, steps_done, time_left

EVERY, NOT_STARTED = "2s", "Nothing was started."
ENDED_BADLY = ("failed", "interrupted", "damaged", "unknown")


def find(name: str) -> training.TrainingRun | None:
    """The run or job of that name, as it is now."""
    return next((entry for entry in training.training_runs() if entry.name == name), None)


def show_training(name: str) -> None:
    """Draw it, every two seconds while it runs."""
    busy = _busy(find(name))

    @st.fragment(run_every=EVERY if busy else None)
    def watch() -> None:
        now = find(name)
        if _busy(now) != busy:
            st.rerun()
        if now is not None:
            _draw(now)

    watch()


def _busy(entry: training.TrainingRun | None) -> bool:
    """True if the run is training or being evaluated."""
    if entry is None or entry.alive:
        return entry is not None
    job = training.evaluation(entry.run) if entry.run is not None else None
    return job is not None and job.running


def _draw(entry: training.TrainingRun) -> None:
    if entry.run is None:
        _without_run(entry)
        return
    if entry.run.fault:
        cards.faults([(entry.name, entry.run.fault)])
        return
    share, text = steps_done(entry.run)
    st.progress(share)
    with st.container(horizontal=True, vertical_alignment="center"):
        _buttons(entry)
        left = time_left(entry.run, curves_of(entry.run).steps)
        st.html(f'<p class="cl-how">{_state(entry, text)}{left}{latest(curves_of(entry.run).epochs)}</p>')
    _evaluation(entry)
    cards.refusal()
    for fault in curves_of(entry.run).faults:
        cards.note(fault)
    _curves(entry)
    _output(entry, expanded=entry.alive or entry.run.state in ENDED_BADLY)


def _state(entry: training.TrainingRun, text: str) -> str:
    """The sentence of `steps_done`, completed from the job's output (HTML)."""
    if entry.run is not None and entry.run.state == "finished" and entry.stoppable:
        return "finished, evaluating"
    if entry.alive and not entry.stoppable:
        return f"{text} · started outside the app; stop it there"
    message = str(entry.run.status.get("message", "")) if entry.run is not None else ""
    return f"{text} · {html.escape(message)}" if message else text


def _without_run(entry: training.TrainingRun) -> None:
    if entry.stoppable:
        cards.label(entry.name)
        st.progress(0.0)
        cards.note("Reading the data and building the model …")
        st.button(
            "Stop", key="train-stop", on_click=jobs.stop, args=(entry.job_name,), icon=":material/stop:"
        )
    else:
        cards.empty(
            f"{entry.name} did not start.", "The output below says why. Change the values and start again."
        )
        st.button("Dismiss", key="train-dismiss", on_click=jobs.forget, args=(entry.job_name,))
    _output(entry, expanded=True)


def _buttons(entry: training.TrainingRun) -> None:
    assert entry.run is not None
    if entry.stoppable:
        st.button(
            "Stop",
            key="train-stop",
            icon=":material/stop:",
            on_click=jobs.stop,
            args=(entry.job_name,),
            help="It saves and exits within seconds; nothing is lost.",
        )
    elif not entry.alive and entry.run.state != "finished":
        st.button(
            "Resume",
            key="train-resume",
            type="primary",
            icon=":material/play_arrow:",
            on_click=attempt,
            args=(NOT_STARTED, training.resume, entry.run),
            help="Continues from the newest save.",
        )


def _evaluation(entry: training.TrainingRun) -> None:
    """Draw a button that evaluates a run which ended with a best model and no evaluation of it."""
    run = entry.run
    if run is None or entry.alive or not run.has_best or "dev" in run.splits:
        return
    job = training.evaluation(run)
    if job is not None and job.running:
        cards.note("Evaluating the best model on dev …")
        return
    if job is not None and not run.damaged:
        cards.empty(
            "The evaluation ended without a result.",
            (job.output.strip().splitlines() or [jobs.CANCELLED])[-1],
        )
    with st.container(horizontal=True, vertical_alignment="center"):
        st.button(
            "Evaluate",
            key="train-evaluate",
            icon=":material/leaderboard:",
            on_click=attempt,
            args=(NOT_STARTED, training.evaluate, run),
        )
        cards.note("Rank dev with the best model so far, so that every page can show this run.")


def _curves(entry: training.TrainingRun) -> None:
    assert entry.run is not None
    by_epoch, by_step = curves_of(entry.run).epochs, curves_of(entry.run).steps
    rsum = next((name for name in RSUM_COLUMNS if name in by_epoch), None)
    epoch_values = ([rsum] if rsum else []) + [name for name in curves([by_epoch]) if name != rsum]
    panels = [
        ("Every few steps", "live", curves([by_step]), by_step, "training, step by step"),
        ("Every epoch", "epochly", epoch_values, by_epoch, "training, epoch by epoch"),
    ]
    panels = [panel for panel in panels if panel[2]]
    if not panels:
        cards.note("The first numbers appear after a few steps.")
    for (label, key, values, frame, alt), column in zip(panels, st.columns(2, gap="large"), strict=False):
        with column:
            value = st.selectbox(label, values, format_func=curve_label, **bound(key))
            figure = charts.training_curves(
                {entry.name: frame}, value, curve_label(value), charts.tone(theme())
            )
            downloads.chart(figure, f"{key}-curve", alt)


def _output(entry: training.TrainingRun, *, expanded: bool) -> None:
    if entry.job is not None and entry.job.output:
        with st.expander("Output of the program", expanded=expanded):
            st.code(entry.job.output, language=None, wrap_lines=True)
