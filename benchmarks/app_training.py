"""Seconds of every page while the app's own job trains the demo: `python -m benchmarks.app_training`.

Every page is opened with two runs of 1,000 × 5,000, three times without the job and three times beside it; medians on
the clock, as somebody at the page waits. Processor time of the server hardly differs and is printed too.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from pathlib import Path

from streamlit.testing.v1 import AppTest

from benchmarks.app import PAGES, PROJECT, SHOWN, SMALL, TIMEOUT
from benchmarks.app_runs import NAMES, write_runs
from benchmarks.timing import Seconds, clock

REPEATS = 3


def visits(app: AppTest) -> dict[str, Seconds]:
    """Median seconds of every page."""
    taken = {}
    for page in PAGES:
        app.session_state["run"], app.session_state["versus"] = list(SHOWN.get(page, NAMES))
        app.switch_page(f"pages/{page}.py")
        times = [clock(app.run) for _ in range(REPEATS)]
        if app.exception:
            raise SystemExit(f"{page} failed: {app.exception[0].value}")
        taken[page] = Seconds(*(statistics.median(values) for values in zip(*times, strict=True)))
    return taken


def main() -> None:
    """Measure and print."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ["CODER_CHECKPOINTS"] = folder
        write_runs(Path(folder), SMALL)
        from app.backend import jobs

        app = AppTest.from_file(str(PROJECT / "streamlit_app.py"), default_timeout=TIMEOUT)
        app.run()
        visits(app)  # what is computed once
        alone = visits(app)
        jobs.start_demo()
        while not (Path(folder) / "demo-baseline" / "history.jsonl").exists():
            time.sleep(0.5)
        try:
            beside = visits(app)
            job = jobs.current()
            assert job is not None
            assert job.running
        finally:
            jobs.stop()
        while (job := jobs.current()) is not None and job.running:
            time.sleep(0.5)
    for page in PAGES:
        clocks = (
            f"{1e3 * alone[page].wall:5.0f} ms alone, {1e3 * beside[page].wall:5.0f} ms beside the training"
        )
        spent = f"processors {1e3 * alone[page].processor:.0f} and {1e3 * beside[page].processor:.0f} ms"
        print(f"{page:12} {clocks} ({spent})")


if __name__ == "__main__":
    main()
