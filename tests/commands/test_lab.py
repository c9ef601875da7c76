"""coder-lab: the list of commands, completion, and `look` from pictures or vectors to the running app."""

import os
import socket
import subprocess
import sys
import time
import urllib.request
from importlib import import_module
from pathlib import Path

import numpy as np
import psutil
import pytest

from coder_core import __main__ as lab
from coder_core import completion, look, serve
from coder_core.api import open_run
from coder_core.demo import make_demo
from tests.support.picture_folders import CAPTIONS, NAMES, write_pictures


@pytest.fixture
def shop(tmp_path):
    """Folder of 12 pictures with a table of captions and no splits."""
    write_pictures(tmp_path / "shop" / "images")
    rows = [f"{name},{caption}" for name in NAMES for caption in (CAPTIONS[name][0].replace(",", ""),)]
    (tmp_path / "shop" / "captions.csv").write_text("\n".join(["image,caption", *rows]) + "\n")
    return tmp_path / "shop"


def open_port():
    """Return a port that no program uses."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def test_every_command_has_a_main_and_a_line_in_the_help(capsys):
    assert lab.main(["--help"]) == 0
    printed = capsys.readouterr().out
    for name, module in lab.COMMANDS.items():
        assert callable(import_module(f"coder_core.{module}").main)
        assert f"\n  {name} " in printed


def test_an_unknown_command_is_refused_with_a_similar_one(capsys):
    assert lab.main(["evalute"]) == 2
    assert "Did you mean coder-lab evaluate?" in capsys.readouterr().err


def test_the_help_imports_neither_torch_nor_numpy():
    code = "import sys, coder_core.__main__ as m; m.main(['--help']); print({'torch', 'numpy'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "set()"


def test_bash_completes_commands_and_flags(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(
        completion, "COMMANDS", {name: lab.COMMANDS[name] for name in ("look", "embed", "project")}
    )
    assert completion.main(["bash"]) == 0
    script = tmp_path / "completion.bash"
    script.write_text(capsys.readouterr().out)

    def completed(*words):
        line = " ".join(words)
        code = f"source {script}; COMP_WORDS=({line}); COMP_CWORD={len(words) - 1}; _coder_lab; echo ${{COMPREPLY[@]}}"
        return subprocess.run(["bash", "-c", code], capture_output=True, text=True, check=True).stdout.split()

    assert completed("coder-lab", "pro") == ["project"]
    assert completed("coder-lab", "embed", "--text-e") == ["--text-embeddings"]
    assert "--prompt" in completed("coder-lab", "embed", "--p")
    assert completed("coder-lab", "look", "--mod") == ["--model"]


def test_pictures_are_embedded_whole_once_and_opened(shop, towers_folder, tmp_path, capsys, complaint):
    root = tmp_path / "runs"
    words = [str(shop), "--model", str(towers_folder / "clip"), "--root", str(root), "--no-serve"]
    assert look.main(words) == 0
    assert "/overview?run=shop-clip&split=dev" in capsys.readouterr().out
    assert len(open_run(root / "shop-clip").captions("dev")) == len(NAMES)  # no splits: all of the data
    manifest = root / "shop-clip" / "analysis" / "dev" / "manifest.json"
    before = manifest.stat().st_mtime_ns

    assert look.main(words) == 0
    assert "already embedded" in capsys.readouterr().out
    assert manifest.stat().st_mtime_ns == before

    table = shop / "captions.csv"
    table.write_text(table.read_text().replace("a ring", "a hoop"))
    assert "the data have changed" in complaint(look.main, words)


def test_the_built_in_data_are_looked_at_by_name(towers_folder, tmp_path, capsys, monkeypatch, complaint):
    monkeypatch.setenv("CODER_DEMO", str(tmp_path / "demo"))
    words = ["demo", "--model", str(towers_folder / "clip"), "--root", str(tmp_path / "runs"), "--no-serve"]
    make_demo(tmp_path / "demo", images=50)
    assert look.main(words) == 0
    assert "/overview?run=demo-clip&split=dev" in capsys.readouterr().out
    assert len(open_run(tmp_path / "runs" / "demo-clip").image_names("dev")) == 6
    assert "or demo for the built-in pictures" in complaint(look.main, ["gone", *words[1:]])


def test_without_a_flag_the_runs_are_those_of_the_environment(monkeypatch):
    monkeypatch.setenv("CODER_CHECKPOINTS", "elsewhere")
    assert serve.ServerArguments().root == Path("elsewhere")
    monkeypatch.delenv("CODER_CHECKPOINTS")
    assert serve.ServerArguments().root == Path("checkpoints")


def test_without_a_model_the_command_that_fetches_one_is_named(shop, complaint, monkeypatch, tmp_path):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "none"))
    said = complaint(look.main, [str(shop), "--no-serve"])
    assert f"hf download {look.FOR_EXAMPLE}" in said


def test_vectors_are_imported_once_and_changed_files_are_refused(tmp_path, complaint):
    random = np.random.default_rng(0)
    files = {name: tmp_path / f"{name}.npy" for name in ("images", "texts")}
    for file in files.values():
        np.save(file, random.normal(size=(9, 4)).astype(np.float32))
    captions = tmp_path / "captions.txt"
    captions.write_text("".join(f"caption {number}\n" for number in range(9)))
    sources = [str(file) for file in files.values()]
    place = ["--root", str(tmp_path / "runs"), "--no-serve"]

    assert "Add --captions FILE" in complaint(look.main, [*sources, *place])
    words = [*sources, "--captions", str(captions), *place]
    assert look.main(words) == 0
    assert look.main(words) == 0

    later = time.time() + 5
    os.utime(files["images"], (later, later))
    assert "changed after it was imported" in complaint(look.main, words)


def test_the_app_is_served_with_the_demo_training_in_the_background(tmp_path):
    """The server answers at once, from an empty folder; the demo's job runs beside it and is stopped here."""
    port = open_port()
    flags = ["--port", str(port), "--no-browser"]
    command = [sys.executable, "-P", "-m", "coder_core", "app", *flags]
    environment = os.environ | {"PYTHONPATH": str(serve.app_folder()), "CODER_DEMO": str(tmp_path / "demo")}
    (tmp_path / "own").mkdir()
    for file in ("one.py", "own/two.py"):
        (tmp_path / file).write_text("")
    relative = {"CODER_CHECKPOINTS": "runs", "CODER_LOSSES": "one.py:own/two.py", "CODER_REVIEWS": "r.jsonl"}
    environment |= relative | {"PYTHONPATH": os.path.relpath(serve.app_folder(), tmp_path)}
    server = subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=subprocess.DEVNULL)
    try:
        end = time.monotonic() + 120
        while time.monotonic() < end:
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/_stcore/health", timeout=2) as answer:
                    assert answer.status == 200
                    break
            except OSError:
                assert server.poll() is None
                time.sleep(0.1)
        served = psutil.Process(server.pid).environ()  # it has another working folder
        assert served["CODER_CHECKPOINTS"] == str(tmp_path / "runs")
        assert served["CODER_LOSSES"] == f"{tmp_path}/one.py:{tmp_path}/own/two.py"
        assert served["CODER_REVIEWS"] == f"{tmp_path}/r.jsonl"
        assert served["PYTHONPATH"] == str(serve.app_folder())

        from coder_core.api.training import JobFolder

        folder = JobFolder(tmp_path / "runs" / ".training")
        job = folder.current()
        assert job is not None
        assert job.running
        folder.stop()
    finally:
        server.terminate()
        server.wait(timeout=30)


def test_a_port_in_use_is_refused_before_any_work(shop, complaint):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        said = complaint(look.main, [str(shop), "--port", str(taken.getsockname()[1])])
    assert "Address already in use" in said
