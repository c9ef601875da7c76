"""While a run trains, what pages computed of any run stays, so that they are as quick as before."""

from pathlib import Path

from app.ask import ask, ask_both, joint_space, retrieval
from coder_core.api import list_runs
from coder_core.runs.history import HistoryWriter
from coder_core.runs.status import write_status
from tests.support.run_folders import write_run


def test_a_line_of_history_drops_nothing_that_was_computed(tmp_path: Path) -> None:
    for name in ("finished", "trains"):
        write_run(tmp_path / "runs", name, images=6, pictures=False)
    before = list_runs(tmp_path / "runs")
    changes = ask_both(retrieval.compare, *before, "dev")
    gap = ask(joint_space.modality_gap, before[1], "dev")
    with HistoryWriter(tmp_path / "runs" / "trains" / "history.jsonl") as history:
        history.write("step", step=40, epoch=4, loss=1.0)
        history.write("epoch", step=40, epoch=4, rsum=200.0)
    write_status(tmp_path / "runs" / "trains", "running", step=40, steps=80)
    write_run(tmp_path / "runs", "a new one", images=6, pictures=False)
    after = [run for run in list_runs(tmp_path / "runs") if run.name != "a new one"]
    assert after[1].state == "running"
    assert ask_both(retrieval.compare, *after, "dev") is changes
    assert ask(joint_space.modality_gap, after[1], "dev") is gap
