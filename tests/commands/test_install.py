"""The package: what a wheel installs, and that its commands train from any folder, in a terminal."""

import fcntl
import os
import pty
import select
import shutil
import signal
import subprocess
import sys
import termios
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

import coder_core
from coder_core.runs.record import read_status
from tests.support.tiny_runs import position, write_tiny_data

REPOSITORY = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((REPOSITORY / "pyproject.toml").read_text("utf-8"))["project"]


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """The package, installed from a copy so that no build folder is left in the repository."""
    folder = tmp_path_factory.mktemp("install")
    source = folder / "source"
    unwanted = shutil.ignore_patterns("__pycache__")
    for package in ("coder_core", "app", "pages", ".streamlit"):
        shutil.copytree(REPOSITORY / package, source / package, ignore=unwanted)
    for file in ("pyproject.toml", "setup.py", "README.md", "streamlit_app.py"):
        shutil.copy(REPOSITORY / file, source)
    flags = ["--quiet", "--disable-pip-version-check", "--no-deps", "--no-index", "--no-compile"]
    target = ["--no-build-isolation", "--target", str(folder / "installed")]
    subprocess.run([sys.executable, "-m", "pip", "install", str(source), *flags, *target], check=True)
    return folder / "installed"


def source_files(folder, package):
    """Return the files of a package below `folder`, relative to it, without compiled ones."""
    files = (folder / package).rglob("*.*")
    return {path.relative_to(folder) for path in files if path.is_file() and path.suffix != ".pyc"}


def test_core_and_app_are_installed_and_pins_satisfy_the_requirements(installed):
    folders = {"bin", "coder_core", "coder_lab", f"coder_lab-{coder_core.__version__}.dist-info"}
    assert {path.name for path in installed.iterdir()} == folders
    assert {path.name for path in (installed / "bin").iterdir()} == set(PROJECT["scripts"])
    assert source_files(installed, "coder_core") == source_files(REPOSITORY, "coder_core")
    of_app = set().union(*(source_files(REPOSITORY, name) for name in ("app", "pages", ".streamlit")))
    of_app -= {
        path for path in of_app if path.name in ("package.json", "package-lock.json")
    }  # they build the bundle
    assert source_files(installed / "coder_lab", ".") == of_app | {Path("streamlit_app.py")}
    lines = (REPOSITORY / "requirements.txt").read_text("utf-8").splitlines()
    pins = {name: version for name, _, version in (line.partition("==") for line in lines) if version}
    extras = PROJECT["optional-dependencies"]
    for text in (*PROJECT["dependencies"], *extras["app"], *extras["dev"]):
        requirement = Requirement(text)
        assert pins[requirement.name] in requirement.specifier, text


def open_terminal():
    """Make standard input this process's terminal, so that a hang-up stops it, even under nohup."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


def test_an_installed_command_trains_and_saves_when_its_terminal_closes(installed, tmp_path):
    """A hang-up saves as SIGTERM does."""
    package = installed / "coder_core" / "__init__.py"
    run = tmp_path / "checkpoints" / "tiny"
    with package.open("a") as file:
        file.write("\nprint(__file__, flush=True)\n")

    write_tiny_data(tmp_path / "data")
    size = ("--word-threshold=1", "--dimension=8", "--word-size=6", "--epochs=100000", "--patience=0")
    here = ("--data=data", "--name=tiny", "--device=cpu", "--threads=1", "--batch-size=8")
    terminal, inside = pty.openpty()
    process = subprocess.Popen(
        [installed / "bin" / "coder-train", *size, *here],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(installed)},
        **dict.fromkeys(("stdin", "stdout", "stderr"), inside),
        start_new_session=True,
        preexec_fn=open_terminal,
    )
    os.close(inside)
    printed = b""
    while (read_status(run) or {}).get("step", 0) < 20:
        assert process.poll() is None, printed
        if select.select([terminal], [], [], 0.1)[0]:
            printed += os.read(terminal, 4096)

    os.close(terminal)
    assert process.wait(timeout=60) == 3
    assert str(package).encode() in printed
    status = read_status(run) or {}
    assert status["state"] == "stopped"
    assert position(run)["step"] == status["step"]
