"""The command: presets, values from the command line, what is refused before anything is written, the demo."""

import re
from dataclasses import replace

import pytest
import torch

from coder_core.config.checks import with_fitting_batch, with_fitting_warmup
from coder_core.config.presets import DEMO_RUNS, PRESETS
from coder_core.config.schema import settings
from coder_core.demo import make_demo
from coder_core.model.device import product_library
from coder_core.runs.load import load_model, read_config
from coder_core.runs.record import HISTORY, read_history, read_status
from coder_core.runs.saves import SaveStore
from coder_core.train import main
from tests.support.pages import PAGES, open_page
from tests.support.tiny_runs import changed, newest_state, write_tiny_data

SMALL = ["--word-threshold=1", "--dimension=8", "--word-size=6", "--epochs=1", "--batch-size=8"]
SMALL += ["--threads=1", "--device=cpu"]
POOLED = ["--image-pooling=max", "--text-pooling=mean", "--image-layers=3"]
GPU = torch.cuda.is_available()


def plain(text):
    """Remove frames and line breaks."""
    return " ".join(re.sub("[│╭╮╰╯─]", " ", text).split())


def test_short_runs_shorten_a_presets_warmup_but_not_an_explicit_one(data, tmp_path, capsys):
    small = ["flickr8k-npairs", *SMALL, "--epochs=4", f"--data={data}", f"--root={tmp_path}"]
    for flags, steps, warned in (([], 2, False), (["--warmup-steps=30"], 30, True)):
        assert main([*small, *flags, f"--name=w{steps}"]) == 0
        assert read_config(tmp_path / f"w{steps}")[0].training.warmup_steps == steps
        assert ("warning: --warmup-steps: is 30" in plain(capsys.readouterr().out)) == warned
    for preset in ("coder-flickr8k", "flickr8k", "flickr8k-baseline", "demo"):
        config = PRESETS[preset].config
        assert with_fitting_warmup(config, 59 if preset == "demo" else 234) == (config, [])
    assert with_fitting_batch(config, pairs=6, of_train=1000)[0].training.batch_size == 2


def test_help_lists_every_preset_and_flag(capsys):
    with pytest.raises(SystemExit, match="0"):
        main(["--help"])
    output = plain(capsys.readouterr().out)
    flags = [f"--{name.replace('_', '-')}" for name in settings()]
    for text in ("usage: coder-lab train", "--resume", *PRESETS, *flags):
        assert text in output, text


def test_a_preset_trains_with_overridden_values(data, tmp_path, capsys, complaint):
    arguments = ["demo", *SMALL, f"--data={data}", "--bank-size=16", "--gamma", "0.25", f"--root={tmp_path}"]
    assert main(arguments) == 0
    run = tmp_path / "demo"
    config, facts = read_config(run)
    temperature = PRESETS["demo"].config.objective.temperature
    values = {"bank_size": 16, "gamma": 0.25, "dimension": 8, "temperature": temperature}
    assert config == changed(config, **values)
    assert config.name == "demo"
    expected = {"torch": torch.__version__, "threads": 1, "float32_products": product_library()}
    expected |= {"train_images": 20, "train_captions": 40, "feature_size": 6}
    assert expected.items() <= facts.items()
    assert re.fullmatch("[0-9a-f]{64}", facts["data_fingerprint"])
    assert "R@sum" in capsys.readouterr().out
    assert {"state": "finished", "step": 5, "steps": 5}.items() <= read_status(run).items()
    files = {"config.toml", "words.json", "manifest.json", "history.jsonl", "status.json"}
    names = {path.name for path in run.iterdir() if not path.name.startswith(".")}
    assert names == files | {"best", "state", "analysis"}
    assert {"event": "start", "steps": 5, "per_epoch": 5}.items() <= read_history(run / HISTORY)[0].items()
    assert load_model(run).encode_text(["a red star", "zebra"]).shape == (2, 8)

    # the same name again is refused, resuming a finished run ends at once
    assert "--resume" in complaint(main, arguments)
    before = newest_state(run).fingerprint
    assert main(["--resume", str(run), "--threads=1", "--save-every=7"]) == 0
    assert newest_state(run).fingerprint == before
    assert "--dimension: is 16; expected 8" in complaint(main, ["--resume", str(run), "--dimension=16"])


@pytest.mark.parametrize(
    ("arguments", "culprit"),
    [
        (["--temperature=0"], "--temperature: is 0; expected a number above 0"),
        (["--bank-size=4"], "batch of 8"),
        (["--name=../up"], "--name: is '../up'"),
        ([f"--name={300 * 'a'}"], "200"),
        (["--batch-size=50"], "the 40 captions"),
        (["--data=/nowhere/at/all"], "/nowhere/at/all"),
        (["--data="], "--data: "),
        (["--device=toaster"], "--device: is 'toaster'"),
        pytest.param(["--device=cuda"], "--device", marks=pytest.mark.skipif(GPU, reason="it has one")),
        (["--word-threshold=100"], "100 times"),
        (["--word-vectors=/nowhere/glove.txt"], "glove.txt"),
        (["--data=missing", "--root=pyproject.toml/runs"], "pyproject.toml"),  # before the data is read
        (["--data=missing", f"--root={300 * 'a'}"], "File name too long"),
        (["--resume=none", "--name=other"], "--name: "),
        (["--resume=none"], "none"),
    ],
)
def test_invalid_arguments_fail_before_anything_is_written(data, tmp_path, complaint, arguments, culprit):
    root = tmp_path / "runs"
    assert culprit in complaint(main, [*SMALL, f"--data={data}", f"--root={root}", *arguments])
    assert not root.exists()


def test_without_dev_the_last_step_is_saved_as_best(tmp_path, capsys):
    data = write_tiny_data(tmp_path / "data")
    for file in data.glob("dev_*"):
        file.unlink()
    assert main([*SMALL, f"--data={data}", f"--root={tmp_path / 'runs'}", "--epochs=2", *POOLED]) == 0
    assert "dev" in plain(capsys.readouterr().out)
    assert SaveStore(tmp_path / "runs/run/best", keep=1).names() == ["10"]
    assert not (tmp_path / "runs/run/analysis").exists()


@pytest.mark.slow
def test_no_argument_trains_the_demo_only_once(tmp_path, monkeypatch):
    """On 20 pictures instead of a thousand, in one epoch, with small embeddings."""
    monkeypatch.setenv("CODER_DEMO", str(make_demo(tmp_path / "demo", images=20)))
    for name in DEMO_RUNS:
        config = changed(PRESETS[name].config, epochs=1, threads=1, dimension=32, word_size=16)
        monkeypatch.setitem(PRESETS, name, replace(PRESETS[name], config=config))
    root = tmp_path / "runs"
    assert main(["--root", str(root)]) == 0
    for name in DEMO_RUNS:
        status = read_status(root / name)
        assert (status["state"], status["step"]) == ("finished", status["steps"])
        assert read_config(root / name)[0].data.data == "demo"
        assert (root / name / "analysis" / "dev" / "manifest.json").is_file()
    saves = [newest_state(root / name).fingerprint for name in DEMO_RUNS]
    assert main(["--root", str(root)]) == 0
    assert [newest_state(root / name).fingerprint for name in DEMO_RUNS] == saves
    every_page_has_something_to_show(root, monkeypatch)


def every_page_has_something_to_show(root, monkeypatch):
    """Assert that every page has its runs in the sidebar or one click away."""
    for page in PAGES:
        app = open_page(monkeypatch, root, page)
        if page == "weights":
            assert app.saying(*DEMO_RUNS[:2])
            app.click("another-run")
            assert app.value("run") == [*DEMO_RUNS[::2]]
        if page == "reviews":  # nothing is judged yet; there are pairs to judge
            assert re.search(r"0 of \d+ judged or skipped", str(app.get("progress")[0].proto))
            continue
        if page == "data":  # a list, and the first of it in detail
            assert [heading.value for heading in app.header][-1] == "Images that fit this caption best"
            continue
        if page == "slices":  # this demo has fewer than 20 queries of any kind
            assert app.answer().startswith("No slice has enough queries")
            continue
        assert not app.refusals(), page
        assert app.get("plotly_chart") or app.get("imgs") or app.maps(), page
