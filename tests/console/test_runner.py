"""How commands end: faults, signals, Ctrl-C and a reader that is gone become exit statuses."""

from __future__ import annotations

import pytest

from coder_core.console.faults import Fault, InputError
from coder_core.console.runner import command
from coder_core.console.signals import StoppedBySignalError


@pytest.mark.parametrize(
    ("error", "status", "out", "err"),
    [
        (InputError([Fault("a.txt", "is empty"), Fault("--x", "is 0", "1 or more")]), 1, "",
         "error: a.txt: is empty\nerror: --x: is 0; expected 1 or more\n"),
        (MemoryError(), 1, "", "error: memory: there is not enough. Close other programs, or ask for less\n"),
        (MemoryError("the map needs 9 GiB"), 1, "",
         "error: memory: the map needs 9 GiB. Close other programs, or ask for less\n"),
        (StoppedBySignalError("saved [bold]; continue with …"), 3, "saved [bold]; continue with …\n", ""),
        (PermissionError(13, "Permission denied", "/a/b"), 1, "",
         "error: /a/b: cannot be read or written: Permission denied\n"),
        (KeyboardInterrupt(), 130, "", "interrupted; everything saved before is intact\n"),
    ],
)  # fmt: skip
def test_an_error_becomes_a_message_and_a_status(
    error: BaseException, status: int, out: str, err: str, capsys: pytest.CaptureFixture[str]
) -> None:
    @command
    def main(arguments: list[str]) -> int:
        raise error

    assert main([]) == status
    assert capsys.readouterr() == (out, err)


def test_arguments_are_those_of_the_process_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    @command
    def main(arguments: list[str]) -> int:
        return len(arguments)

    monkeypatch.setattr("sys.argv", ["coder-x", "a", "b"])
    assert main() == 2
    assert main(("a",)) == 1


def test_another_error_is_a_fault_of_the_program_and_keeps_its_traceback() -> None:
    @command
    def main(arguments: list[str]) -> int:
        raise RuntimeError("broken")

    with pytest.raises(RuntimeError, match="broken"):
        main([])
