"""The package: what is installed, and that its commands train from any folder."""

import os
import shutil
import subprocess
import sys
import tomllib
from functools import partial
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from coder_core.runs.status import read_status
from tests.support.tiny_runs import write_tiny_data

REPOSITORY = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((REPOSITORY / "pyproject.toml").read_text("utf-8"))["project"]


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Installed from a copy, so that no build folder is left in the repository."""
    folder = tmp_path_factory.mktemp("install")
    source = folder / "source"
    unwanted = shutil.ignore_patterns("__pycache__")
    shutil.copytree(REPOSITORY / "coder_core", source / "coder_core", ignore=unwanted)
    for other in ("app", "pages", "tests"):
        (source / other).mkdir()
        (source / other / "__init__.py").touch()
    for file in ("pyproject.toml", "README.md", "streamlit_app.py"):
        shutil.copy(REPOSITORY / file, source)
    flags = ["--quiet", "--disable-pip-version-check", "--no-deps", "--no-index", "--no-compile"]
    target = ["--no-build-isolation", "--target", str(folder / "installed")]
    subprocess.run([sys.executable, "-m", "pip", "install", str(source), *flags, *target], check=True)
    return folder / "installed"


def test_coder_core_and_its_commands_are_installed_and_nothing_else(installed: Path) -> None:
    folders = {"bin", "coder_core", f"coder_lab-{PROJECT['version']}.dist-info"}
    assert {path.name for path in installed.iterdir()} == folders
    assert {path.name for path in (installed / "bin").iterdir()} == set(PROJECT["scripts"])
    modules = {path.relative_to(REPOSITORY) for path in (REPOSITORY / "coder_core").rglob("*.py")}
    files = {path for path in (installed / "coder_core").rglob("*") if path.is_file()}
    assert {path.relative_to(installed) for path in files if path.suffix != ".pyc"} == modules


def test_an_installed_command_trains_three_steps_from_another_folder(installed: Path, tmp_path: Path) -> None:
    work = tmp_path / "work"
    write_tiny_data(work / "data")
    environment = os.environ | {"PYTHONPATH": str(installed)}

    run = partial(subprocess.run, cwd=work, env=environment, text=True, check=True)
    program = "import coder_core; print(coder_core.__file__)"
    file = run([sys.executable, "-P", "-c", program], stdout=subprocess.PIPE).stdout
    assert file.strip() == str(installed / "coder_core" / "__init__.py")
    size = ("--word-threshold=1", "--dimension=8", "--word-size=6", "--epochs=1", "--batch-size=13")
    here = ("--data=data", "--name=tiny", "--device=cpu", "--threads=1")
    run([installed / "bin" / "coder-train", *size, *here])
    status = read_status(work / "checkpoints" / "tiny") or {}
    assert (status["state"], status["step"]) == ("finished", 3)


def test_the_pinned_versions_lie_in_the_ranges_of_the_package() -> None:
    lines = (REPOSITORY / "requirements.txt").read_text("utf-8").splitlines()
    pins = {name: version for name, _, version in (line.partition("==") for line in lines) if version}
    extras = PROJECT["optional-dependencies"]
    for text in (*PROJECT["dependencies"], *extras["app"], *extras["dev"]):
        requirement = Requirement(text)
        assert pins[requirement.name] in requirement.specifier, text
