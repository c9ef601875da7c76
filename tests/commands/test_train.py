"""The command: presets, values from the command line, what is refused before anything is written, the demo."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import subprocess
import sys
import termios
from dataclasses import fields
from pathlib import Path

import pytest
import torch

from coder_core.config.presets import DEMO_RUNS, PRESETS
from coder_core.config.schema import Config
from coder_core.demo import make_demo
from coder_core.model.products import product_library
from coder_core.runs.history import HISTORY, read_history
from coder_core.runs.load import load_model, read_config
from coder_core.runs.saves import SaveStore
from coder_core.runs.status import read_status
from coder_core.train import main
from tests.support.pages import PAGES, open_page, texts
from tests.support.tiny_runs import newest_state, position, write_tiny_data

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.usefixtures("own_threads")
SMALL = [
    "--word-threshold=1",
    "--dimension=8",
    "--word-size=6",
    "--epochs=1",
    "--batch-size=8",
    "--threads=1",
    "--device=cpu",
]


def plain(text: str) -> str:
    """Without frames and line breaks."""
    return " ".join(re.sub("[│╭╮╰╯─]", " ", text).split())


def test_help_lists_every_preset_and_every_value_with_its_text(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main(["--help"])
    assert left.value.code == 0
    said = plain(capsys.readouterr().out)
    assert "usage: python -m coder_core.train [PRESET] [--key value …]" in said
    assert "--resume" in said
    for name in PRESETS:
        assert name in said
    for section in ("data", "model", "objective", "memory", "training"):
        for field in fields(getattr(Config(), section)):
            assert f"--{field.name.replace('_', '-')}" in said, field.name
    for text in ("CODER section 4.1: 1024", "γ of eq. 4", "MoCo", "vse_infty: 0.2", "torch.compile"):
        assert text in said, text


def test_a_preset_with_values_of_ones_own(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["demo", *SMALL, f"--data={data}", "--bank-size=16", "--gamma", "0.25", f"--root={tmp_path}"]
    assert main(arguments) == 0
    config, about = read_config(tmp_path / "demo")
    assert config.name == "demo"
    assert (config.memory.bank_size, config.objective.gamma, config.model.dimension) == (16, 0.25, 8)
    assert config.objective.temperature == PRESETS["demo"].config.objective.temperature
    assert about["torch"] == torch.__version__
    assert about["threads"] == 1
    assert about["float32_products"] == product_library()
    assert (about["train_images"], about["train_captions"], about["feature_size"]) == (20, 40, 6)
    assert re.fullmatch("[0-9a-f]{64}", about["data_fingerprint"])
    said = capsys.readouterr().out
    assert "demo epoch 1: loss" in said
    assert "R@sum" in said
    status = read_status(tmp_path / "demo")
    assert status is not None
    assert (status["state"], status["step"], status["steps"]) == ("finished", 5, 5)
    assert {path.name for path in (tmp_path / "demo").iterdir() if not path.name.startswith(".")} == {
        "config.toml",
        "words.json",
        "manifest.json",
        "history.jsonl",
        "status.json",
        "best",
        "state",
        "analysis",
    }
    first = read_history(tmp_path / "demo" / HISTORY)[0]
    assert (first["event"], first["steps"], first["per_epoch"]) == ("start", 5, 5)
    loaded = load_model(tmp_path / "demo")
    assert loaded.encode_text(["a red star", "zebra"]).shape == (2, 8)

    # the same name again is refused, resuming a finished run ends at once
    assert main(arguments) == 1
    assert "already holds a run" in plain(capsys.readouterr().err)
    before = newest_state(tmp_path / "demo").fingerprint
    assert main(["--resume", str(tmp_path / "demo"), "--threads=1", "--save-every=7"]) == 0
    assert newest_state(tmp_path / "demo").fingerprint == before
    assert main(["--resume", str(tmp_path / "demo"), "--dimension=16"]) == 1
    assert "--dimension: is 16; expected 8, as the run began" in plain(capsys.readouterr().err)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--temperature=0"], "--temperature: is 0; expected a value above 0"),
        (["--batch-size=1"], "--batch-size: is 1; expected 2 or more"),
        (["--bank-size=4"], "smaller than the batch of 8"),
        (["--momentum=1.5", "--margin=-1"], "--momentum: is 1.5"),
        (["--name=../up"], "--name: is '../up'"),
        ([f"--name={300 * 'a'}"], "at most 200 letters"),
        (["--batch-size=50"], "at most the 40 captions of train"),
        (["--data=/nowhere/at/all"], "there is no such folder"),
        (["--data="], "--data: is empty"),
        (["--device=toaster"], "--device: is 'toaster'"),
        (["--word-threshold=100"], "no word stands 100 times"),
        (["--word-vectors=/nowhere/glove.txt"], "glove.txt"),
    ],
)
def test_what_cannot_work_fails_before_anything_is_written(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    root = tmp_path / "runs"
    assert main([*SMALL, f"--data={data}", f"--root={root}", *arguments]) == 1
    assert said in plain(capsys.readouterr().err)
    assert not root.exists()


@pytest.mark.parametrize(
    ("root", "said"), [("file/runs", "file is a file; expected a folder"), (300 * "a", "File name too long")]
)
def test_a_root_that_cannot_hold_a_run_is_refused_before_the_data_is_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], root: str, said: str
) -> None:
    (tmp_path / "file").write_text("")
    assert main([*SMALL, "--data=missing", f"--root={tmp_path / root}"]) == 1
    assert said in plain(capsys.readouterr().err)


def test_a_name_does_not_go_with_resume(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in (["--name", "other"], ["--name=other"]):
        assert main(["--resume", str(tmp_path / "run"), *name]) == 1
        assert (
            "--name: is given with --resume, which continues a run in its folder" in capsys.readouterr().err
        )


def open_terminal() -> None:
    """Make standard input the terminal of this process, which a hang-up then stops, also under nohup."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


def test_a_closed_terminal_saves_as_sigterm_does(data: Path, tmp_path: Path) -> None:
    terminal, inside = pty.openpty()
    arguments = [
        *SMALL,
        "--epochs=100000",
        "--patience=0",
        f"--data={data}",
        f"--root={tmp_path}",
        "--name=run",
    ]
    process = subprocess.Popen(
        [sys.executable, "-m", "coder_core.train", *arguments],
        cwd=ROOT,
        stdin=inside,
        stdout=inside,
        stderr=inside,
        start_new_session=True,
        preexec_fn=open_terminal,
    )
    os.close(inside)
    while ((status := read_status(tmp_path / "run")) or {}).get("step", 0) < 20:
        assert process.poll() is None
        if select.select([terminal], [], [], 0.1)[0]:
            os.read(terminal, 4096)
    os.close(terminal)
    assert process.wait(timeout=60) == 3
    status = read_status(tmp_path / "run")
    assert status is not None
    assert status["state"] == "stopped"
    assert position(tmp_path / "run")["step"] == status["step"]


def test_a_gpu_that_is_not_there_is_refused(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if torch.cuda.is_available():
        pytest.skip("this machine has a GPU")
    assert main([*SMALL, f"--data={data}", f"--root={tmp_path / 'runs'}", "--device=cuda"]) == 1
    assert "PyTorch sees no GPU" in plain(capsys.readouterr().err)
    assert not (tmp_path / "runs").exists()


def test_resuming_what_is_no_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--resume", str(tmp_path / "none")]) == 1
    assert str(tmp_path / "none") in plain(capsys.readouterr().err).replace(" ", "")


@pytest.mark.parametrize("damage", ["bit", "cut"])
def test_a_damaged_config_is_named(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], damage: str
) -> None:
    assert main([*SMALL, f"--data={data}", f"--root={tmp_path}"]) == 0
    place = tmp_path / "run" / "config.toml"
    content = bytearray(place.read_bytes())
    content[40] ^= 1
    place.write_bytes(bytes(content) if damage == "bit" else bytes(content[:-5]))
    assert main(["--resume", str(tmp_path / "run")]) == 1
    assert str(place) in capsys.readouterr().err.replace("\n", "")


def test_without_dev_the_last_step_is_the_best(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = write_tiny_data(tmp_path / "data")
    for file in data.glob("dev_*"):
        file.unlink()
    assert main([*SMALL, f"--data={data}", f"--root={tmp_path / 'runs'}", "--epochs=2"]) == 0
    assert "has no dev split" in plain(capsys.readouterr().out)
    assert SaveStore(tmp_path / "runs/run/best", keep=1).names() == ["10"]
    assert not (tmp_path / "runs/run/analysis").exists()


def test_every_pooling_and_depth_trains(data: Path, tmp_path: Path) -> None:
    for pooling, layers in (("mean", 0), ("max", 3)):
        flags = [
            f"--image-pooling={pooling}",
            f"--text-pooling={pooling}",
            f"--image-layers={layers}",
            f"--name={pooling}",
        ]
        assert main([*SMALL, f"--data={data}", f"--root={tmp_path}", *flags]) == 0
        assert position(tmp_path / pooling)["step"] == 5


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_no_argument_trains_the_demo_then_leaves_it_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a process of its own, since training takes all threads; on 40 pictures instead of a thousand."""
    demo = make_demo(tmp_path / "demo", images=40)
    environment = os.environ | {"CODER_DEMO": str(demo), "OMP_NUM_THREADS": "1"}
    root = tmp_path / "runs"

    def command() -> str:
        arguments = [sys.executable, "-m", "coder_core.train", "--root", str(root)]
        ended = subprocess.run(
            arguments, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=600
        )
        assert ended.returncode == 0, ended.stderr
        return plain(ended.stdout)

    said = command()
    for name in DEMO_RUNS:
        status = read_status(root / name)
        assert status is not None
        assert status["state"] == "finished"
        assert read_config(root / name)[0].data.data == "demo"
        assert (root / name / "analysis" / "dev" / "manifest.json").is_file()
        assert f"{name} epoch {PRESETS[name].config.training.epochs}: loss" in said
    saves = [newest_state(root / name).fingerprint for name in DEMO_RUNS]
    again = command()
    assert again.count("is finished; it stays as it is.") == 3
    assert [newest_state(root / name).fingerprint for name in DEMO_RUNS] == saves
    every_page_has_something_to_show(root, monkeypatch)


def every_page_has_something_to_show(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every page has its runs in the sidebar, or one click away."""
    for page in PAGES:
        app = open_page(monkeypatch, root, page)
        if page == "weights":
            assert "demo-baseline and coder-demo were trained without sample weights." in texts(app)
            app.button(key="another-run").click().run()
            assert (app.selectbox(key="run").value, app.selectbox(key="versus").value) == DEMO_RUNS[::2]
        assert not app.exception
        if page == "reviews":  # nobody has judged anything yet; there are pairs to judge
            assert re.search(r"0 of \d+ judged or skipped", str(app.get("progress")[0].proto))
            continue
        if page == "data":  # a list, and the first of it in detail
            assert [heading.value for heading in app.header][-1] == "One pair in detail"
            continue
        if page == "slices":  # this demo has fewer than 20 queries of any kind
            assert "No slice has enough queries." in texts(app)
            continue
        assert 'class="cl-empty' not in texts(app), page
        assert app.get("plotly_chart") or app.get("imgs"), page
