"""Sentences on what changed on dev while a run trained, from its history."""

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from coder_core.console.faults import Fault
from coder_core.runs.record import HISTORY, Event, read_history

SINCE_LAST = "since_last"
SINCE_START = "since_start"
"""Fields of an evaluated epoch: what changed since the evaluation before it, and since the start of a run that started
from pretrained towers or a finished run. `rsum` is the change of R@sum; `i2t_fixed`, `i2t_broken`, `t2i_fixed` and
`t2i_broken` count the queries that only the later, or only the earlier, model answers first. `since_start` has `low` and
`high` as well, the ends of the 95% interval of `rsum`."""
COUNTS = ("i2t_fixed", "i2t_broken", "t2i_fixed", "t2i_broken")
REMEDIES = (
    "lower --learning-rate, for example to a third; stop sooner with --patience 1; or mix tuned towers with the "
    "zero-shot model: coder-lab evaluate RUN --blend 0.25 0.5 0.75"
)


class DevProgress(NamedTuple):
    """What a run's evaluations on dev say."""

    changes: list[str]  # sentences on the newest evaluation
    newest: Fault | None  # warning if the newest evaluated epoch is worse than the start
    kept: Fault | None  # the same of the best epoch, whose model is kept


def dev_progress(folder: Path) -> DevProgress:
    """Read what a run's history says of its evaluations on dev. InputError: it cannot be read."""
    epochs = [event for event in read_history(folder / HISTORY) if event["event"] == "epoch"]
    evaluated = [event for event in epochs if isinstance(event.get("metrics"), Mapping)]
    if not evaluated:
        return DevProgress([], None, None)
    newest = evaluated[-1]
    before = evaluated[-2].get("epoch", 0) if len(evaluated) > 1 else 0
    best = [event for event in evaluated if event.get("best") is True]
    kept = worse_than_start(best[-1], folder.name) if best else None
    return DevProgress(describe_changes(newest, before), worse_than_start(newest, folder.name), kept)


def describe_changes(epoch: Event, before: int) -> list[str]:
    """Describe the changes that an epoch's line in the history holds, in a sentence each. `before`: the epoch evaluated
    before it; 0 is the start.

    >>> counts = {"i2t_fixed": 3, "i2t_broken": 1, "t2i_fixed": 20, "t2i_broken": 11}
    >>> describe_changes({"since_last": {"rsum": 2.5, **counts}}, before=2)
    ['since epoch 2: R@sum +2.5; R@1 of images: 3 fixed, 1 broken; of captions: 20 fixed, 11 broken']
    """
    compared = {"the start": _complete(epoch, SINCE_START)}
    if before > 0:
        compared = {f"epoch {before}": _complete(epoch, SINCE_LAST)} | compared
    return [_sentence(since, change) for since, change in compared.items() if change is not None]


def _sentence(since: str, change: Mapping[str, float]) -> str:
    images = f"{change['i2t_fixed']:,.0f} fixed, {change['i2t_broken']:,.0f} broken"
    captions = f"{change['t2i_fixed']:,.0f} fixed, {change['t2i_broken']:,.0f} broken"
    return f"since {since}: R@sum {change['rsum']:+.1f}; R@1 of images: {images}; of captions: {captions}"


def worse_than_start(epoch: Event, run: str) -> Fault | None:
    """Return a warning, with the usual remedies, if an epoch has a lower R@sum on dev than the model that the run
    started from; None if it has not, or if its line in the history does not tell.

    >>> counts = dict.fromkeys(COUNTS, 0)
    >>> change = {"rsum": -4.0, "low": -9.0, "high": 1.0, **counts}
    >>> fault = worse_than_start({"epoch": 2, "metrics": {"rsum": 210.0}, "since_start": change}, "tuned")
    >>> fault.found.partition(" on dev")[2]
    ' after epoch 2, 4.0 less than the model it started from (may be noise: 95% interval -9.0 to +1.0)'
    """
    change = _complete(epoch, SINCE_START, "low", "high")
    if change is None or change["rsum"] >= 0:
        return None
    interval = f"95% interval {change['low']:+.1f} to {change['high']:+.1f}"
    certainty = interval if change["high"] < 0 else f"may be noise: {interval}"
    reached = f"R@sum {epoch['metrics']['rsum']:.1f} on dev after epoch {epoch['epoch']}"
    lost = f"{-change['rsum']:.1f} less than the model it started from"
    return Fault(run, f"has {reached}, {lost} ({certainty})", fix=REMEDIES, severity="warning")


def _complete(epoch: Event, name: str, *further: str) -> Mapping[str, float] | None:
    """Return a change that an epoch's line holds; None if it has none, or one that lacks a number."""
    change = epoch.get(name)
    if not isinstance(change, Mapping):
        return None
    numbers = [change.get(key) for key in ("rsum", *COUNTS, *further)]
    return change if all(isinstance(number, int | float) for number in numbers) else None
