"""While a run trains, what pages computed of any run stays, so that they are as quick as before."""

from __future__ import annotations

from pathlib import Path

from app.backend.joint_space import modality_gap
from app.backend.retrieval import rank_changes
from app.backend.runs import open_summary
from coder_core.api import list_runs
from coder_core.runs.history import HistoryWriter
from coder_core.runs.status import write_status
from tests.support.run_folders import write_run


def test_a_line_of_history_drops_nothing_that_was_computed(tmp_path: Path) -> None:
    for name in ("finished", "trains"):
        write_run(tmp_path / "runs", name, images=6, pictures=False)
    before = list_runs(tmp_path / "runs")
    opened = [open_summary(run) for run in before]
    changes, gap = rank_changes(*before, "dev", 1), modality_gap(before[1], "dev", False)
    with HistoryWriter(tmp_path / "runs" / "trains" / "history.jsonl") as history:
        history.write("step", step=40, epoch=4, loss=1.0)
        history.write("epoch", step=40, epoch=4, rsum=200.0)
    write_status(tmp_path / "runs" / "trains", "running", step=40, steps=80)
    write_run(tmp_path / "runs", "a new one", images=6, pictures=False)
    after = [run for run in list_runs(tmp_path / "runs") if run.name != "a new one"]
    assert after[1].state == "running"
    assert [open_summary(run) is earlier for run, earlier in zip(after, opened, strict=True)] == [True, True]
    assert rank_changes(*after, "dev", 1) is changes
    assert modality_gap(after[1], "dev", False) == gap
