"""Numbers of a run for Weights & Biases, and what is said if a package is not installed. test_resume.py has TensorBoard."""

import struct
import sys

import pytest

from coder_core.training.launch import start_run
from tests.support.precomp_folders import assert_refused
from tests.support.tiny_runs import changed, events, quiet, tiny_config, write_tiny_data

BLOCK = 1 << 15
WHOLE = 1
LAST = 4

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.mark.parametrize("name", ["tensorboard", "wandb"])
def test_a_missing_package_is_named_before_anything_is_written(tmp_path, monkeypatch, name):
    config = changed(tiny_config(tmp_path / "no data"), **{name: True})
    monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setattr(sys, "path", [])
    assert_refused(
        f"--{name}: needs the package {name}.* pip install {name}", start_run, config, tmp_path, quiet()
    )
    assert list(tmp_path.iterdir()) == []


def records_of(content):
    """Yield the records in a file of Weights & Biases: after 7 bytes, LevelDB's log of 32 KiB blocks."""
    start = 7
    parts = b""
    while start + 7 <= len(content):
        left = BLOCK - start % BLOCK
        if left < 7:
            start += left
            continue
        _, length, kind = struct.unpack_from("<IHB", content, start)
        parts += content[start + 7 : start + 7 + length]
        start += 7 + length
        if kind in (WHOLE, LAST):
            yield parts
            parts = b""


def test_weights_and_biases_has_the_history_and_nothing_of_the_machine(tmp_path):
    pytest.importorskip("wandb", reason="wandb, an optional package, is not installed: pip install wandb")
    from wandb.proto import wandb_internal_pb2

    config = tiny_config(write_tiny_data(tmp_path / "data"), epochs=2, wandb=True)
    run = start_run(config, tmp_path / "runs", quiet())
    (file,) = run.glob("wandb/offline-run-*/*.wandb")
    lines = []
    kinds = set()
    for content in records_of(file.read_bytes()):
        record = wandb_internal_pb2.Record()
        record.ParseFromString(content)
        kinds.add(record.WhichOneof("record_type"))
        items = record.history.item
        lines.append({item.key or "/".join(item.nested_key): float(item.value_json) for item in items})
    assert "history" in kinds
    assert kinds.isdisjoint({"stats", "output", "output_raw", "files", "environment"})
    rsums = [(line["step"], line["epoch/metrics/rsum"]) for line in lines if "epoch/metrics/rsum" in line]
    assert rsums == [(event["step"], event["metrics"]["rsum"]) for event in events(run, "epoch")]
