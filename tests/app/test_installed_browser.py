"""A stranger's first minutes: wheel → fresh environment → `coder-lab look` in an empty folder → the answer in a browser."""

import os
import shutil
import site
import socket
import subprocess
import sys
import sysconfig
import time
import urllib.request
import zipfile
from pathlib import Path

import pytest

from tests.support.picture_folders import CAPTIONS, NAMES, write_pictures
from tests.support.tiny_towers import write_tiny_clip

pytestmark = pytest.mark.browser
REPOSITORY = Path(__file__).resolve().parents[2]
SOURCES = (
    "coder_core",
    "app",
    "pages",
    ".streamlit",
    "pyproject.toml",
    "setup.py",
    "README.md",
    "streamlit_app.py",
)
# of the map, which is no Python file
LIBRARY = "coder_lab/app/components/space_map/bundle/regl-scatterplot.js"
UNWANTED = shutil.ignore_patterns("__pycache__")


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    """A fresh virtual environment with the wheel. The pinned dependencies are those of the environment of the tests,
    which has neither coder_core nor the app."""
    folder = tmp_path_factory.mktemp("fresh")
    source = folder / "source"
    source.mkdir()
    for name in SOURCES:
        path = REPOSITORY / name
        if path.is_dir():
            shutil.copytree(path, source / name, ignore=UNWANTED)
        else:
            shutil.copy(path, source)
    quiet = ["--quiet", "--disable-pip-version-check", "--no-deps", "--no-index"]
    build = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        str(source),
        "--no-build-isolation",
        "--wheel-dir",
        str(folder),
    ]
    subprocess.run([*build, *quiet], check=True)
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        assert archive.namelist().count(LIBRARY) == 1

    python = folder / "env" / "bin" / "python"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder / "env")], check=True)
    (packages,) = (folder / "env" / "lib").glob("python*/site-packages")
    install = [sys.executable, "-m", "pip", "--python", str(python), "install", str(wheel), "--no-compile"]
    subprocess.run([*install, *quiet], check=True)
    dependencies = {sysconfig.get_path("purelib"), *site.getsitepackages()}
    (packages / "dependencies.pth").write_text("".join(f"{path}\n" for path in sorted(dependencies)))
    return folder / "env" / "bin"


@pytest.fixture(scope="module")
def working_folder(tmp_path_factory):
    """An empty folder but for a shop of 12 pictures with captions, and a hand-made CLIP."""
    folder = tmp_path_factory.mktemp("stranger")
    write_pictures(folder / "shop" / "images")
    rows = [f"{name},{caption.replace(',', '')}" for name in NAMES for caption in CAPTIONS[name]]
    (folder / "shop" / "captions.csv").write_text("\n".join(["image,caption", *rows]) + "\n")
    write_tiny_clip(folder / "clip")
    return folder


def test_from_the_wheel_to_the_answer(environment, working_folder, browser):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    variables = {
        name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "CODER_CHECKPOINTS")
    }
    command = [
        environment / "coder-lab",
        "look",
        "shop",
        "--model",
        "clip",
        "--port",
        str(port),
        "--no-browser",
    ]
    log = (working_folder / "log").open("w")
    server = subprocess.Popen(
        command, cwd=working_folder, env=variables, stdout=log, stderr=subprocess.STDOUT
    )
    try:
        end = time.monotonic() + 200
        while time.monotonic() < end:
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/_stcore/health", timeout=2).close()
                break
            except OSError:
                assert server.poll() is None, (working_folder / "log").read_text()
                time.sleep(0.2)
        printed = (working_folder / "log").read_text()
        address = next(
            word for word in printed.split() if word.startswith(f"http://127.0.0.1:{port}/overview?")
        )
        page = browser.new_page()
        page.goto(address, timeout=120_000)
        page.get_by_text("shop-clip").first.wait_for(timeout=120_000)
        assert page.locator("[data-testid=stException]").count() == 0
        page.close()
    finally:
        server.terminate()
        server.wait(timeout=30)
        log.close()
    assert (working_folder / "checkpoints" / "shop-clip" / "analysis" / "dev").is_dir()
