"""Exit statuses of commands after faults, signals, Ctrl-C and a closed pipe."""

import re
import resource
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest
import tomli_w
import torch

import coder_core.training.launch  # noqa: F401  what the commands import, while there is memory
from coder_core import evaluate, train
from coder_core.config.schema import to_document
from coder_core.console.faults import Fault, InputError
from coder_core.console.runner import command
from coder_core.console.signals import StoppedBySignalError
from coder_core.data.words import Vocabulary
from coder_core.files.sealed import write_sealed
from coder_core.model.coder import ModelParts, build_model
from coder_core.runs.saves import SaveStore
from tests.attack.links import digest
from tests.support.tiny_runs import WORDS, tiny_config

FIX = "Close other programs, or request less"
TWO_FAULTS = InputError([Fault("a.txt", "is empty"), Fault("--x", "is 0", "1 or more")])
PRIMITIVE = "could not create a primitive"
NO_GPU_MEMORY = "CUDA out of memory. Tried to allocate 2.00 GiB.\nSee …"


@pytest.mark.parametrize(
    ("error", "status", "out", "err"),
    [
        (TWO_FAULTS, 1, "", "error: a.txt: is empty\nerror: --x: is 0; expected 1 or more\n"),
        (MemoryError(), 1, "", f"error: memory: there is not enough. {FIX}\n"),
        (MemoryError("the map needs 9 GiB"), 1, "", f"error: memory: the map needs 9 GiB. {FIX}\n"),
        (RuntimeError(PRIMITIVE), 1, "", f"error: memory: {PRIMITIVE}. {FIX}\n"),
        (RuntimeError("can't start new thread"), 1, "", f"error: memory: can't start new thread. {FIX}\n"),
        (RuntimeError(NO_GPU_MEMORY), 1, "", f"error: memory: {NO_GPU_MEMORY.splitlines()[0]} {FIX}\n"),
        (StoppedBySignalError("saved [bold]; continue with …"), 3, "saved [bold]; continue with …\n", ""),
        (PermissionError(13, "No", "/a/b"), 1, "", "error: /a/b: cannot be read or written: No\n"),
        (KeyboardInterrupt(), 130, "", "interrupted; everything saved before is intact\n"),
    ],
)
def test_errors_become_a_message_and_an_exit_status(error, status, out, err, capsys):
    @command
    def main(arguments):
        raise error

    assert main([]) == status
    assert capsys.readouterr() == (out, err)


def test_arguments_default_to_argv_and_unexpected_errors_propagate(monkeypatch):
    @command
    def main(arguments):
        return len(arguments) or arguments[0]

    monkeypatch.setattr("sys.argv", ["coder-x", "a", "b"])
    assert (main(), main(("a",))) == (2, 1)
    with pytest.raises(IndexError):
        main([])


@pytest.mark.parametrize("full", ["stdout", "stderr"])
def test_a_full_disk_for_output_does_not_stop_the_work(full, monkeypatch, tmp_path, capsys):
    @command
    def main(arguments):
        for stream in (sys.stdout, sys.stderr):
            print("a line", file=stream, flush=True)
        (tmp_path / "result").touch()
        return 0

    with open("/dev/full", "w") as stream:
        monkeypatch.setattr(sys, full, stream)
        assert main([]) == (full == "stdout")
        assert getattr(sys, full) is stream
    assert (tmp_path / "result").exists()
    written = capsys.readouterr()
    assert full == "stderr" or "standard output: could not be written: No space left on device" in written.err
    monkeypatch.setattr(sys, full, None)  # as after >&-
    assert main([]) == 0


@contextmanager
def little_memory(more):
    """Limit this process's address space to its present size plus `more` bytes."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + more, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


def test_running_out_of_memory_is_reported_and_changes_no_files(data, tmp_path, capsys, memory_folder):
    small = ["--batch-size=8", "--bank-size=13", "--threads=1"]
    arguments = [f"--data={data}", f"--root={tmp_path}", "--name=vast", "--dimension=65536", *small]
    with little_memory(2 << 30):
        assert train.main(arguments) == 1

    *_, message = capsys.readouterr().err.splitlines()
    assert re.fullmatch(rf"error: memory: .* another [0-9,]+ bytes were requested\. {FIX}", message)
    assert list(tmp_path.iterdir()) == []
    # Its weights, 111 MB, do not fit
    config = tiny_config(data, dimension=2048, text_layers=1)
    words = Vocabulary.build([" ".join(WORDS)], threshold=1)
    document = to_document(config) | {"about": {"feature_size": 6}}
    files = {"config.toml": tomli_w.dumps(document), "words.json": words.to_text()}
    run = write_sealed(memory_folder / "run", files)
    with torch.device("meta"):
        model = build_model(config.model, ModelParts(6, len(words)))

    shapes = model.state_dict().items()
    weights = {name: torch.zeros(value.shape, dtype=value.dtype) for name, value in shapes}
    SaveStore(run / "best", keep=1).write("1", {"model": weights}, {"metrics": {}})
    before = digest(run)
    with little_memory(100 << 20):
        assert evaluate.main([str(run)]) == 1

    *_, message = capsys.readouterr().err.splitlines()
    assert message.startswith("error: memory: ")
    assert message.endswith(FIX)
    assert digest(run) == before
