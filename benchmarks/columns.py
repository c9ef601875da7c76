"""python -m benchmarks.columns [ROWS]: server time of a filter by the user's columns, on a split of a million captions.

The embeddings and ranks are drawn at random, because filters do not depend on them. Prints milliseconds, the median of
five: of every filter, and of what the sidebar computes beside it.
"""

import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from app import choice
from benchmarks.app_runs import write_import
from coder_core.api import Run, open_run, slices

ROWS = 1_000_000
TRIES = 5
FILTERS = (
    "price > 20",
    'brand == "brand 7"',
    'brand in ("brand 7", "brand 8", "brand 9") and 20 <= price <= 40',
    '"tag 3" in tags',
    'month(listed) == 6 and listed >= "2024"',
    '"thing 77" in name',
    'price > 20 and brand == "brand 7" and "tag 3" in tags and listed >= "2024"',
)


def milliseconds(action: Callable[[], object]) -> float:
    """Return the median time of an action."""
    times = []
    for _ in range(TRIES):
        start = time.perf_counter()
        action()
        times.append(1000 * (time.perf_counter() - start))
    return statistics.median(times)


def main(rows: int) -> None:
    """Measure all filters, and print a line for each."""
    with tempfile.TemporaryDirectory() as folder:
        run_folder = Path(folder) / "run"
        write_import(run_folder, rows)
        run = open_run(run_folder)
        start = time.perf_counter()
        own = slices.own_names(run.columns("dev").of_captions(run.image_of_text("dev")))
        print(f"reading the columns, once: {time.perf_counter() - start:.1f} s")
        columns = slices.Columns(rows, own=own)
        for expression in FILTERS:
            print(f"{milliseconds(partial(slices.search, expression, columns)):6.0f} ms  {expression}")
        for name, column in own.items():
            print(f"{milliseconds(partial(slices.values_of, column)):6.0f} ms  values offered for {name}")
        through_the_app(Path(folder))


def through_the_app(root: Path) -> None:
    """Measure a filter that the app has not seen, as its sidebar applies it: captions, images, recall."""
    os.environ["CODER_CHECKPOINTS"] = str(root)
    summary = open_run(root / "run").summary
    start = time.perf_counter()
    choice.columns_of_slices(summary, "dev")
    choice.usual_slices(summary, "dev")
    print(f"reading captions and columns in the app, once: {time.perf_counter() - start:.1f} s")
    limits = iter(range(20, 20 + TRIES))

    def apply() -> None:
        expression = f'price > {next(limits)} and brand == "brand 7"'
        choice.usual_slices(summary, "dev")
        mask = choice.slice_mask(summary, "dev", expression)
        chosen = choice.Choice(summary, None, "dev", slice=expression, mask=mask)
        chosen.members("image")
        hits = chosen.ask(Run.ranks)["t2i"][chosen.members("text")] < 1
        hits.mean()

    print(f"{milliseconds(apply):6.0f} ms  a new filter in the sidebar")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else ROWS)
