"""Wall seconds of every page while the app's own job trains the demo: `python -m benchmarks.app_training`.

Every page is opened with two runs of 1,000 × 5,000, three times without the job and three times beside it; medians.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from pathlib import Path

from streamlit.testing.v1 import AppTest

from benchmarks.app import PAGES, PROJECT, REPEATS, SHOWN, SMALL, TIMEOUT
from benchmarks.app_runs import NAMES, write_runs
from benchmarks.timing import Seconds, clock


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
        from app import jobs

        app = AppTest.from_file(str(PROJECT / "streamlit_app.py"), default_timeout=TIMEOUT)
        app.run()
        visits(app)  # fills the caches
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
    print("milliseconds:  wall alone, wall beside the training, processor alone, processor beside it")
    for page in PAGES:
        times = (alone[page].wall, beside[page].wall, alone[page].processor, beside[page].processor)
        print(f"{page:12}", *(f"{1e3 * seconds:8.0f}" for seconds in times))


if __name__ == "__main__":
    main()
