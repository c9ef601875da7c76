"""Query runs: `ask(question, run, *args)` calls a function of `coder_core.api` once and caches its answer.

    ask(retrieval.margins, run, "dev", "t2i")       a question about one run
    ask_both(retrieval.gains, first, last, "dev")   about two runs
    ask_all(slices.slice_table, runs, "dev", …)     about a list of runs

Pages hold summaries of runs and never an opened `Run`. An answer is cached under the question, the folders of the runs,
their state (`RunSummary.stamp`, which changes when an analysis is rewritten) and all arguments. Answers are shared
between visitors, so they must not be changed in place. Slow questions have their own cache and spinner.

Only this module, `questions`, `jobs`, `training` and `judging` import `coder_core.api`; pages import its subjects from
here. Names from a widget or the URL are compared with existing names and never joined to a path.
"""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any, Concatenate, NamedTuple, ParamSpec, TypeVar, cast

import numpy as np
import pandas as pd
import streamlit as st
from threadpoolctl import threadpool_limits

from app import questions
from app.jobs import runs_root
from coder_core.api import (
    InputError,
    LossSettings,
    Run,
    RunSummary,
    Sample,
    causes,
    clusters,
    concept_attention,
    concepts,
    data_quality,
    diversity,
    heat_maps,
    joint_space,
    listing,
    masked_maps,
    open_run,
    retrieval,
    saved_views,
    similarity,
    slices,
    tuning,
)
from coder_core.api.sides import BOTH, Direction, Modality
from coder_core.api.stored_run import StoredResult
from coder_core.api.training import sample_weights

P = ParamSpec("P")
T = TypeVar("T")
Runs = Sequence[RunSummary]
Faults = list[tuple[str, str]]  # name and fault of damaged runs
OfOne = Callable[Concatenate[Run, P], T]
OfTwo = Callable[Concatenate[Run, Run, P], T]
OfAll = Callable[Concatenate[Sequence[Run], P], T]

# Several visitors share the server, and no page needs more than a second of linear algebra on one processor. A second
# thread mostly spins while it waits (a PCA map: 1.0 s of processor time with two threads, 0.06 with one).
threadpool_limits(1, user_api="blas")

LISTING_SECONDS = 2
ENTRIES = 1024
SLOW_ENTRIES = 16
PICTURES = 4096


@dataclass(frozen=True)
class _Keyed:
    key: str
    value: Any


def keyed(key: str, value: T) -> T:
    """Wrap an argument so that its key alone identifies it in the cache; `ask` passes its value on."""
    return cast(T, _Keyed(key, value))


def _identity(value: Any) -> Any:
    """Return what identifies an argument in the cache, built of values whose `repr` tells them apart. Streamlit would
    find the same out for every answer of a page, in a sixth of the page's time. TypeError: a type of unknown identity."""
    if isinstance(value, _Keyed):
        return value.key
    if isinstance(value, RunSummary):
        return str(value.path), value.stamp
    if isinstance(value, StoredResult):
        return value.name
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.shape, hashlib.blake2b(np.ascontiguousarray(value).data).digest()
    if isinstance(value, dict):
        return [(name, _identity(part)) for name, part in value.items()]
    if isinstance(value, list | tuple):
        return [_identity(part) for part in value]
    if is_dataclass(value):
        return type(value).__qualname__, [_identity(getattr(value, field.name)) for field in fields(value)]
    if value is None or isinstance(value, str | bytes | bool | int | float | np.generic | Path):
        return value

    raise TypeError(f"an answer cannot be cached under {type(value).__qualname__}")


HASHES: dict[str | type[Any], Callable[[Any], Any]] = {RunSummary: _identity}


def _pool(name: str, entries: int, spinner: str | bool = False) -> Callable[..., Any]:
    """Create a cache of answers. Streamlit distinguishes caches by the function's name."""

    def answer(*, key: str, _call: Callable[[], Any]) -> Any:
        return _call()

    answer.__qualname__ = f"answers-{name}"
    return st.cache_resource(max_entries=entries, show_spinner=spinner)(answer)


_SLOW: dict[str, tuple[Callable[..., Any], ...]] = {
    "Looking for the causes of the misses …": (causes.causes_of_run, causes.noise_of_seeds),
    "Reading the clusters …": (clusters.cluster_table, clusters.marking),
    "Comparing every pair with its neighbours …": (data_quality.mismatches, data_quality.cross_fitted),
    "Reading the data …": (data_quality.splits_of_run,),
    "Comparing the captions with one another …": (retrieval.count_fitting_images, retrieval.text_vectors),
    "Loading the model …": (heat_maps.load_encoders,),
    "Encoding the picture with parts of it masked …": (questions.masked_regions,),
    "Measuring every sample …": (joint_space.quantity, joint_space.searched_texts, joint_space.area_labels),
    "Counting similarities …": (joint_space.score_distributions,),
    "Computing the PCA map …": (questions.principal_maps,),
    "Looking at the similarities …": (similarity.values_from_similarities,),
    "Ordering the samples …": (questions.matrix_batch,),
    "Computing the matrix …": (questions.scaled_matrix,),
    "Reading the captions …": (slices.slice_columns, slices.counted_columns),
    "Comparing slices …": (questions.slice_table,),
}


def _name(question: Callable[..., Any]) -> str:
    return f"{question.__module__}.{question.__qualname__}"


_COMMON = _pool("common", ENTRIES)
_POOLS = {_name(q): _pool(_name(q), SLOW_ENTRIES, text) for text, slow in _SLOW.items() for q in slow}
_POOLS[_name(Run.picture)] = _pool(_name(Run.picture), PICTURES)


def _ask(question: Callable[..., Any], runs: Runs, args: Any, kwargs: Any, *, as_list: bool) -> Any:
    """Return the cached answer to a question about runs, which takes them one by one or `as_list`."""

    def call() -> Any:
        opened = [opened_run(run) for run in runs]
        values = [value.value if isinstance(value, _Keyed) else value for value in args]
        named = {name: value.value if isinstance(value, _Keyed) else value for name, value in kwargs.items()}
        return question(*([opened] if as_list else opened), *values, **named)

    name = _name(question)
    key = repr(_identity((name, runs, args, kwargs)))
    return _POOLS.get(name, _COMMON)(key=key, _call=call)


def ask(question: OfOne[P, T], run: RunSummary, /, *args: P.args, **kwargs: P.kwargs) -> T:
    """Return the cached answer to a question about one run. InputError: data that it needs is missing or damaged."""
    return cast(T, _ask(question, [run], args, kwargs, as_list=False))


def ask_both(question: OfTwo[P, T], a: RunSummary, b: RunSummary, /, *args: P.args, **kwargs: P.kwargs) -> T:
    """Return the cached answer to a question about two runs, as `ask` does."""
    return cast(T, _ask(question, [a, b], args, kwargs, as_list=False))


def ask_all(question: OfAll[P, T], runs: Runs, /, *args: P.args, **kwargs: P.kwargs) -> T:
    """Return the cached answer to a question about a list of runs, as `ask` does."""
    return cast(T, _ask(question, runs, args, kwargs, as_list=True))


def opened_run(run: RunSummary) -> Run:
    """Open a run, for questions whose answers are not cached because other processes store them beside the run. The
    run is cached with its mapped arrays and its statistics."""
    return _opened(key=repr(_identity(run)), _path=run.path)


@st.cache_resource(max_entries=8, show_spinner=False)
def _opened(*, key: str, _path: Path) -> Run:
    return open_run(_path)


def all_runs(named: Sequence[str] = ()) -> list[RunSummary]:
    """List every run by name, including damaged ones; refreshed every two seconds, or at once if one of the `named`
    runs is missing, because it may be new."""
    root = str(runs_root())
    if not {*named} <= {run.name for run in _runs_in(root)}:
        _runs_in.clear()
    return _runs_in(root)


@st.cache_data(ttl=LISTING_SECONDS, show_spinner=False)
def _runs_in(root: str) -> list[RunSummary]:
    return listing.list_runs(root)


def run_faults() -> Faults:
    """List name and fault of every damaged run, and of every damaged analysis."""
    return [(run.name, fault) for run in all_runs() for fault in (run.fault, *run.damaged.values()) if fault]


def read_each(runs: Runs, read: Callable[[RunSummary], T]) -> tuple[dict[str, T], Faults]:
    """Read every run: results by name, and name and fault of the damaged runs."""
    parts = {}
    faults = []
    for run in runs:
        try:
            parts[run.name] = read(run)
        except InputError as error:
            faults.append((run.name, str(error)))
    return parts, faults


class Curves(NamedTuple):
    """Training curves: one row per finished epoch; one row per few steps ("epoch" is a fraction); damaged parts; what
    changed on dev at the newest evaluation, and a warning if the run is worse than its start, or ""."""

    epochs: pd.DataFrame
    steps: pd.DataFrame
    faults: list[str]
    changes: list[str]
    warning: str


@st.cache_data(ttl=LISTING_SECONDS, show_spinner=False, hash_funcs=HASHES)
def curves_of(run: RunSummary) -> Curves:
    """Read the curves of a run, which may be training; refreshed every two seconds."""
    read = open_run(run.path)
    progress = read.dev_progress
    warning = progress.newest or progress.kept
    faults = read.history_faults
    return Curves(read.history, read.steps, faults, progress.changes, str(warning or ""))


def comparable(first: RunSummary, second: RunSummary, split: str) -> bool:
    """True if the two runs were evaluated on the same samples of the split."""
    try:
        return ask_both(retrieval.same_samples, first, second, split)
    except InputError:
        return False


def likely_matches(
    run: RunSummary, split: str, direction: Direction, query: int | None = None
) -> retrieval.LikelyMatches | None:
    """Return results that are probably unlabelled matches; None if captions share no words. In a large split only a
    sample of the queries is compared, or only `query` if it is given."""
    vectors = ask(retrieval.text_vectors, run, split)
    sample = ask(Run.query_sample, run, split)
    if vectors is None:
        return None
    queries = None if sample is None else sample.texts if direction == "t2i" else sample.images
    if query is not None and ask(Run.sample, run, split) is not None:
        queries = np.array([query])
    return ask(retrieval.likely_matches, run, split, direction, keyed("", vectors), queries)
