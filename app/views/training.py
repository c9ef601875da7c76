"""A run while it trains: how far it is, its curves, what it prints, stop and resume."""

from __future__ import annotations

import html

import streamlit as st

from app import charts
from app.backend import runs as backend
from app.backend import training as backend_training
from app.backend.training import Watched
from app.ui import cards, downloads
from app.ui.progress import RSUM_COLUMNS, curve_label, curves, latest, steps_done
from app.ui.state import bound, theme

EVERY = "2s"
ENDED_BADLY = ("failed", "interrupted", "damaged", "unknown")


def find(name: str) -> Watched | None:
    """The run or job of that name, as it is now."""
    return next((one for one in backend_training.watched() if one.name == name), None)


def show(name: str) -> None:
    """Draw it; while it runs, again every two seconds."""
    one = find(name)
    alive = one is not None and one.alive

    @st.fragment(run_every=EVERY if alive else None)
    def watch() -> None:
        now = find(name)
        if (now is not None and now.alive) != alive:
            st.rerun()
        if now is not None:
            _draw(now)

    watch()


def _draw(one: Watched) -> None:
    if one.run is None:
        _without_run(one)
        return
    share, text = steps_done(one.run)
    if one.run.fault:
        cards.faults([(one.name, one.run.fault)])
        return
    st.progress(share)
    with st.container(horizontal=True, vertical_alignment="center"):
        _buttons(one)
        st.html(f'<p class="cl-how">{_state(one, text)}{latest(backend.epochs(one.run))}</p>')
    _curves(one)
    _printed(one, opened=one.alive or one.run.state in ENDED_BADLY)


def _state(one: Watched, text: str) -> str:
    """The sentence of `steps_done`, and what it does not know."""
    if one.run is not None and one.run.state == "finished" and one.stoppable:
        return "finished, evaluating"
    if one.alive and not one.stoppable:
        return f"{text} · started elsewhere, so it is stopped there"
    message = str(one.run.status.get("message", "")) if one.run is not None else ""
    return f"{text} · {html.escape(message)}" if message else text


def _without_run(one: Watched) -> None:
    if one.stoppable:
        cards.label(one.name)
        st.progress(0.0)
        cards.note("Reading the data and building the model …")
        st.button("Stop", key="train-stop", on_click=backend_training.stop, args=(one,), icon=":material/stop:")
    else:
        cards.empty(f"{one.name} did not start.", "What the program said is below; change the values and start again.")
        st.button("Dismiss", key="train-dismiss", on_click=backend_training.dismiss, args=(one,))
    _printed(one, opened=True)


def _buttons(one: Watched) -> None:
    assert one.run is not None
    if one.stoppable:
        st.button(
            "Stop", key="train-stop", icon=":material/stop:", on_click=backend_training.stop, args=(one,),
            help="It saves and leaves within seconds; nothing is lost.",
        )  # fmt: skip
    elif not one.alive and one.run.state != "finished":
        st.button(
            "Resume", key="train-resume", type="primary", icon=":material/play_arrow:",
            on_click=backend_training.resume, args=(one.run,), help="It goes on from the newest save.",
        )  # fmt: skip


def _curves(one: Watched) -> None:
    assert one.run is not None
    epochs, steps = backend.epochs(one.run), backend.steps(one.run)
    during = curves([steps])
    rsum = next((name for name in RSUM_COLUMNS if name in epochs), None)
    if not during and rsum is None:
        cards.note("The first numbers come after a few steps.")
        return
    colours = charts.tone(theme())
    parts = iter(st.columns(2, gap="large"))
    if during:
        with next(parts):
            column = st.selectbox("Value", during, format_func=curve_label, **bound("live"))
            figure = charts.training_curves({one.name: steps}, column, curve_label(column), colours)
            downloads.chart(figure, "live-steps", "training, step by step")
    choices = ([rsum] if rsum else []) + [name for name in curves([epochs]) if name != rsum]
    if choices:
        with next(parts):
            column = st.selectbox("After every epoch", choices, format_func=curve_label, **bound("epochly"))
            figure = charts.training_curves({one.name: epochs}, column, curve_label(column), colours)
            downloads.chart(figure, "live-epochs", "training, epoch by epoch")


def _printed(one: Watched, *, opened: bool) -> None:
    if one.job is not None and one.job.output:
        with st.expander("What the program prints", expanded=opened):
            st.code(one.job.output, language=None, wrap_lines=True)
