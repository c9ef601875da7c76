"""The history survives kills: torn lines vanish, repeated steps appear once."""

import shutil

import pytest

from coder_core.files.sealed import write_sealed
from coder_core.runs.record import (
    HISTORY,
    HistoryWriter,
    history_faults,
    read_frame,
    read_history,
    read_status,
    write_status,
)
from tests.support.precomp_folders import assert_refused


def steps(path):
    return [(event["step"], event["loss"]) for event in read_history(path) if event["event"] == "step"]


@pytest.fixture
def path(tmp_path):
    return tmp_path / HISTORY


def test_events_are_read_in_order_and_closed_histories_are_not_written(path):
    assert read_history(path) == []
    with HistoryWriter(path) as history:
        history.write("start", command=["train", "demo"])
        history.write("step", step=1, loss={"dcl": 0.5})
        assert len(read_history(path)) == 2  # read while it is written
        history.write("epoch", step=1, md=float("nan"), rsum=200.0)
        history.write("step", step=2, loss={"dcl": 0.25})
    history.close()
    with pytest.raises(ValueError, match="could not be written"):
        history.write("step", step=1)
    start, step, epoch, _ = read_history(path)
    assert start["command"] == ["train", "demo"]
    assert (step["loss"], epoch["md"]) == ({"dcl": 0.5}, None)
    assert read_frame(path.parent)["loss.dcl"].tolist() == [0.5, 0.25]
    assert read_frame(path.parent, "epoch")["rsum"].tolist() == [200.0]
    assert len(read_frame(path.parent, "stop")) == 0


def test_a_truncated_last_line_is_ignored_and_removed_by_the_next_writer(path):
    with HistoryWriter(path) as history:
        history.write("step", step=1, loss=1.0)
    whole = path.read_bytes()
    for cut in range(1, len(whole)):
        path.write_bytes(whole + whole[:cut])
        assert steps(path) == [(1, 1.0)]
        assert history_faults(path) == []
    with HistoryWriter(path) as history:
        history.write("step", step=2, loss=2.0)
    assert steps(path) == [(1, 1.0), (2, 2.0)]


def test_steps_and_epochs_repeated_after_a_kill_appear_once(path):
    with HistoryWriter(path) as history:
        for step in range(1, 8):
            history.write("step", step=step, loss=float(step))
        history.write("epoch", step=5, rsum=1.0)
    with HistoryWriter(path, resume_step=5) as history:
        history.write("epoch", step=5, rsum=1.5)
        history.write("step", step=6, loss=60.0)
    assert [event["rsum"] for event in read_history(path) if event["event"] == "epoch"] == [1.5]
    assert steps(path) == [(1, 1.0), (2, 2.0), (3, 3.0), (4, 4.0), (5, 5.0), (6, 60.0)]
    with HistoryWriter(path, resume_step=2) as history:
        history.write("step", step=3, loss=30.0)
    assert steps(path) == [(1, 1.0), (2, 2.0), (3, 30.0)]


@pytest.mark.parametrize(
    ("keep", "problems"),
    [
        (lambda lines: lines, []),
        (lambda lines: [], ["3 of 3 finished epochs", "from 0 to 30"]),
        (lambda lines: lines[:-2], ["1 of 3 finished epochs", "from 20 to 30"]),
        (lambda lines: [lines[0], *lines[3:]], ["1 of 3 finished epochs"]),
        (lambda lines: [*lines[:3], lines[3].replace("2", "3", 1), *lines[4:]], ["line 4"]),
    ],
)
def test_missing_and_damaged_lines_are_reported(path, keep, problems):
    with HistoryWriter(path) as history:
        history.write("start", step=0)
        for epoch in (1, 2, 3):
            history.write("step", step=10 * epoch, loss=1.0)
            history.write("epoch", step=10 * epoch, epoch=epoch)
    path.write_text("".join(f"{line}\n" for line in keep(path.read_text().splitlines())))
    faults = history_faults(path, step=30, epochs=3)
    assert len(faults) == len(problems)
    for fault, problem in zip(faults, problems, strict=True):
        assert problem in str(fault)
        assert str(path) in fault.place
    assert "line 4" not in problems or [step for step, _ in steps(path)] == [10, 30]


def test_lines_of_another_run_or_without_a_checksum_are_ignored_and_named(tmp_path):
    one, two = (write_sealed(tmp_path / name, {"config.toml": name}) for name in ("one", "two"))
    for run in (one, two):
        with HistoryWriter(run / HISTORY) as history:
            history.write("epoch", step=5, epoch=1)
        write_status(run, "finished", step=5)
    for file in (HISTORY, "status.json"):
        shutil.copy(one / file, two / file)
    with (two / HISTORY).open("a") as lines:
        lines.write('{"event":"epoch","step":10,"epoch":2}\n')
    assert [event["step"] for event in read_history(one / HISTORY)] == [5]
    assert read_history(two / HISTORY) == []
    places = [fault.place for fault in history_faults(two / HISTORY)]
    assert places == [f"{two / HISTORY} line {number}" for number in (1, 2)]
    assert_refused(r"two/status\.json: .*does not match its checksum", read_status, two)
    (two / "status.json").write_text('{"names": [], "folder": ""}')
    assert_refused(r"two/status\.json: .*has no checksum", read_status, two)
