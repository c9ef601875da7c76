"""The Start page: offer to train the demo, show its progress, or lead to the pages."""

import html
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import streamlit as st

from app import charts, jobs
from app.ask import RunSummary, all_runs, curves_of, run_faults
from app.choice import Choice
from app.components import cards, downloads
from app.components.controls import button
from app.components.links import page_link
from app.components.refusals import attempt
from app.components.theme import tone
from app.components.words import RSUM_COLUMNS, count, curve_label, duration, latest, steps_done
from app.jobs import DEMO_RUNS, DRAWING
from app.training import NOT_STARTED

# Percent of the processor time: drawing, and the runs in the order in which they train, evaluations included
COSTS = dict(zip((DRAWING, *DEMO_RUNS), (5, 25, 45, 25), strict=True))
LEAST_WORK = 1.0  # percent done before the time left is estimated
WAYS = {
    "Pictures with captions, and a CLIP or SigLIP model": "coder-lab look PICTURES --model MODEL",
    "Embeddings that another program computed": "coder-lab look I.npy T.npy --captions C.txt",
    "A model of your own, trained here": "coder-lab train --data PATH --name NAME",
}
PICTURE = Path(__file__).parents[1] / "start.png"
RUNNING = "How far along is the demo?"
CHOOSE = "What would you like to see first?"
EMPTY = "Where do I begin?"
FIRST = cards.HOW_TO_READ["first pages"]  # page → the question that it answers


def question(choice: Choice | None) -> str:
    job = jobs.current()
    if job is not None and job.running:
        return RUNNING
    return CHOOSE if any(run.usable for run in all_runs()) else EMPTY


def answer(state: str) -> str:
    """Say what there is to see, or how to get it."""
    if state == RUNNING:
        return f"The demo is training: {len(DEMO_RUNS)} runs, one after the other"
    if state == CHOOSE:
        return f"{count(sum(run.usable for run in all_runs()), 'run')} can be shown: choose a question"
    return "Nothing is trained yet: train the demo, or bring runs or embeddings of your own"


def show(choice: Choice | None) -> None:
    job = jobs.current()
    state = question(choice)
    cards.answer(answer(state))
    cards.note(cards.HOW_TO_READ[state])
    if state == RUNNING:
        watch()
    elif state == CHOOSE:
        for name, label in FIRST.items():
            page_link(name, label)
    else:
        if job is not None:
            stopped = jobs.was_stopped()
            fix = "Start it again." if stopped else "The output below says why. Then start it again."
            cards.empty(f"Training {'was stopped' if stopped else 'ended'} without a finished run.", fix)
            st.code(job.output, language=None)
        command = jobs.module_command(jobs.TRAIN, "--root", str(jobs.runs_root()))
        start = partial(attempt, NOT_STARTED, jobs.start_work, command, jobs.TRAINING)
        button("Train the demo", "train-demo", "play_circle", start, type="primary")
        cards.faults(run_faults())
        for way, shown in WAYS.items():
            cards.label(way)
            st.code(shown, language=None, wrap_lines=True)
        page_link("train", FIRST["train"])
        st.image(
            PICTURE,
            width="stretch",
            caption="The Overview of two runs: which is better, and why queries miss.",
        )


@st.fragment(run_every="2s")
def watch() -> None:
    job = jobs.current()
    if job is None or not job.running:
        st.rerun()
    show_demo(job)
    st.button("Stop", on_click=jobs.stop, help="It saves and exits; nothing is lost.")
    with st.expander("Output of the program"):
        st.code(job.output, language=None)


def demo_progress(job: jobs.Job, runs: Mapping[str, RunSummary], now: float) -> tuple[float, float | None]:
    """Return the percentage of work done, and the seconds left; None before they can be estimated.

    The pace is that of the drawing while it lasts, and then that of this job between its first and last recorded steps.
    """
    work = 0.0
    points = list[tuple[float, float]]()
    if runs or (job.progress is not None and job.progress.phase != DRAWING):
        work = before = COSTS[DRAWING]
    elif job.progress is not None:
        work = COSTS[DRAWING] * job.progress.fraction
        points = [(job.started, 0.0), (now, work)]

    for name in DEMO_RUNS if runs else ():
        if name in runs:
            steps = curves_of(runs[name]).steps
            total = runs[name].status.get("steps")
            if total and {"time", "step"} <= set(steps):
                steps = steps[steps["time"] >= job.started]
                shares = before + COSTS[name] * steps["step"] / total
                points += zip(steps["time"].tolist(), shares.tolist(), strict=True)
            work += COSTS[name] * steps_done(runs[name])[0]
        before += COSTS[name]

    if len(points) < 2 or points[-1][1] - points[0][1] < LEAST_WORK:
        return work, None

    (first, start) = points[0]
    (last, end) = points[-1]
    return work, (last - first) / (end - start) * (100 - work)


def show_demo(job: jobs.Job) -> None:
    """Draw the progress bar, the run that trains now, those after it, and those that are finished."""
    begun = {run.name: run for run in all_runs() if run.status}
    runs = {name: begun[name] for name in DEMO_RUNS if name in begun}
    work, seconds = demo_progress(job, runs, time.time())
    st.progress(min(work / 100, 1.0), f"{work:.0f} %{f' · {duration(seconds)} left' if seconds else ''}")
    told = {}
    for name, run in runs.items():
        told[name] = steps_done(run)[1].removeprefix("running: ") + latest(curves_of(run).epochs)

    over = [name for name in told if runs[name].state == "finished"]
    now, *later = [name for name in DEMO_RUNS if name not in over] or [""]
    progress = job.progress
    if now not in runs and progress is not None and progress.state == "running":  # it is being prepared
        told[now] = html.escape(progress.phase)

    lines = [f"Now {now}: {told.get(now, 'starting')}"] if now else []
    lines += [f"Then {' and '.join(later)}"] if later else []
    lines += [f"{name}: {told[name]}" for name in over]
    st.html("".join(f'<p class="cl-how cl-small">{line}.</p>' for line in lines))
    _show_curve(runs)
    if any(run.usable for run in runs.values()):
        for name, label in FIRST.items():
            page_link(name, label)


def _show_curve(runs: Mapping[str, RunSummary]) -> None:
    """Draw R@sum on dev of the demo's runs as it grows, from the second evaluation of any run on."""
    epochs = {name: curves_of(run).epochs for name, run in runs.items()}
    known = [column for column in RSUM_COLUMNS if any(column in frame for frame in epochs.values())]
    if not known:
        return
    rsum = known[0]
    evaluated = {name: frame for name, frame in epochs.items() if rsum in frame}
    if max(frame[rsum].notna().sum() for frame in evaluated.values()) < 2:
        return
    figure = charts.training_curves(evaluated, rsum, f"{curve_label(rsum)} on dev", tone())
    downloads.chart(figure, "demo-curve", "R@sum of the demo's runs, epoch by epoch")
