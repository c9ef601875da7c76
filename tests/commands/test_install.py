"""The wheel: what it holds, that it installs, and that its commands train from any folder."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
import zipfile
from functools import partial
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from coder_core.runs.status import read_status
from tests.support.tiny_runs import write_tiny_data

REPOSITORY = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((REPOSITORY / "pyproject.toml").read_text("utf-8"))["project"]


def pip(*arguments: str | Path) -> None:
    quiet = ("--quiet", "--disable-pip-version-check", "--no-deps", "--no-index")
    subprocess.run([sys.executable, "-m", "pip", *map(str, arguments), *quiet], check=True)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from a copy, so that no build folder is left in the repository."""
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    unwanted = shutil.ignore_patterns("__pycache__")
    shutil.copytree(REPOSITORY / "coder_core", source / "coder_core", ignore=unwanted)
    for other in ("app", "pages", "tests"):
        (source / other).mkdir()
        (source / other / "__init__.py").touch()
    for file in ("pyproject.toml", "README.md", "streamlit_app.py"):
        shutil.copy(REPOSITORY / file, source)
    pip("wheel", source, "--wheel-dir", folder, "--no-build-isolation")
    [built] = folder.glob("*.whl")
    return built


def test_the_wheel_holds_coder_core_only(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    folders = {"coder_core", f"coder_lab-{PROJECT['version']}.dist-info"}
    assert {name.split("/")[0] for name in names} == folders
    modules = {str(path.relative_to(REPOSITORY)) for path in (REPOSITORY / "coder_core").rglob("*.py")}
    assert {name for name in names if name.startswith("coder_core/")} == modules


def test_an_installed_command_trains_three_steps_from_another_folder(wheel: Path, tmp_path: Path) -> None:
    installed, work = tmp_path / "installed", tmp_path / "work"
    pip("install", wheel, "--target", installed)
    assert {path.name for path in (installed / "bin").iterdir()} == set(PROJECT["scripts"])
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
