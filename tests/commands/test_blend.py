"""coder-lab evaluate RUN --blend: tuned towers blended with the zero-shot model."""

import csv
import io
import json

import numpy as np
import pytest
from PIL import Image
from safetensors.torch import load_file

from coder_core.api import open_run
from coder_core.api.tuning import blends
from coder_core.evaluate import main
from coder_core.evaluation.recall import retrieval_metrics
from coder_core.model.towers.tuning import TunedTower, merge_adapters
from coder_core.runs.analysis.read import open_analysis
from coder_core.runs.load import load_model
from coder_core.training.launch import start_run
from tests.attack.links import digest
from tests.support.picture_folders import NAMES, draw
from tests.support.tiny_runs import quiet
from tests.support.tiny_towers import embedded_by_transformers, tower_config

pytestmark = pytest.mark.usefixtures("one_thread")
LORA = {"image_tuning": "lora", "text_tuning": "lora", "lora_dropout": 0.1}
NAMES_OF = (  # our names of a tower's parts -> those of transformers, for pictures and for texts
    {"model": "vision_model", "projection": "visual_projection"},
    {"model": "text_model", "projection": "text_projection"},
)


@pytest.fixture(scope="module", params=["full", "lora"])
def run(towers_folder, tmp_path_factory, request):
    values = LORA if request.param == "lora" else {}
    config = tower_config(towers_folder, epochs=2, learning_rate=1e-2, **values)
    return start_run(config, tmp_path_factory.mktemp("runs"), quiet())


def test_blending_interpolates_between_zero_shot_and_trained_weights(run, towers_folder, tmp_path, capsys):
    before = contents(run)
    command = [str(run), "--blend", "0.0", "0.5", "1.0"]
    files = {flag: tmp_path / f"out{flag}" for flag in ("--json", "--csv", "--curve")}
    assert main([*command, *(f"{flag}={file}" for flag, file in files.items())]) == 0
    [stored] = (run / "derived" / "dev").iterdir()
    assert stored.name.startswith("blends-")
    assert contents(run) == before
    rows = json.loads(files["--json"].read_text())["runs"]
    assert list(rows) == [f"{run} α=0", f"{run} α=0.5", f"{run} α=1"]
    assert [row.pop("alpha") for row in rows.values()] == [0, 0.5, 1]
    stored = blends(open_run(run), "dev").set_index("alpha")
    for alpha, row in zip((0, 0.5, 1), rows.values(), strict=True):
        assert stored.loc[alpha].to_dict() == pytest.approx(row)

    zero_shot, _, tuned = rows.values()
    analysis = open_analysis(run, "dev")
    assert tuned == analysis.metrics
    pictures = [Image.open(io.BytesIO(draw(NAMES.index(name)))) for name in analysis.image_names]
    embedded = embedded_by_transformers(towers_folder / "clip", pictures, analysis.captions)
    expected = retrieval_metrics(*embedded, analysis.image_of_text)
    assert {name: zero_shot[name] for name in expected} == pytest.approx(expected, abs=1e-5)
    assert abs(tuned["md"] - zero_shot["md"]) > 1e-3  # the run learned something
    sheet = csv.DictReader(files["--csv"].open(encoding="utf-8"))
    assert [float(row["alpha"]) for row in sheet] == [0, 0.5, 1]
    page = files["--curve"].read_text("utf-8")
    assert "<title>tuned: R@sum on dev</title>" in page
    assert '"x":[0.0,0.5,1.0]' in page
    best = max((row["rsum"], float(name.split("=")[1])) for name, row in rows.items())[1]
    printed = capsys.readouterr().out
    assert printed.count(" best") == 1
    assert f"tuned α={best:g} best" in printed
    assert main([*command, "--split", "test"]) == 0
    printed = capsys.readouterr().out
    assert "tuned α=0.5" in printed
    assert " best" not in printed
    original = load_file(towers_folder / "clip" / "model.safetensors")
    tuned = weights(run, None)
    ends = (weights(run, 0.0), weights(run, 1.0))
    middle = weights(run, 0.5)
    assert tuned.keys() == original.keys() - {"logit_scale"}
    changed = [name for name, tensor in tuned.items() if not np.array_equal(tensor, original[name].numpy())]
    assert {name.split("_")[0] for name in changed} >= {"vision", "text"}
    for name, tensor in tuned.items():
        assert np.array_equal(ends[0][name], original[name].numpy())
        assert np.array_equal(ends[1][name], tensor)
        np.testing.assert_allclose(middle[name], (tensor + original[name].numpy()) / 2, rtol=1e-5, atol=1e-6)


def contents(run):
    """Return the digest of everything in a run's folder but derived results."""
    return {part.name: digest(part) if part.is_dir() else part.read_bytes() for part in run.iterdir()} | {
        "derived": ""
    }


def weights(run, alpha):
    """Return the weights of both towers by transformers' names, adapters merged; blended unless `alpha` is None."""
    loaded = load_model(run)
    named = {}
    encoders = (loaded.model.regions, loaded.model.words)
    halves = (loaded.towers.image, loaded.towers.text)
    for encoder, half, names in zip(encoders, halves, NAMES_OF, strict=True):
        assert isinstance(encoder, TunedTower)
        if alpha is not None:
            encoder.blending(half.module)(alpha)
        merge_adapters(encoder.tower)
        for name, tensor in encoder.tower.state_dict().items():
            part, _, rest = name.partition(".")
            named[f"{names[part]}.{rest}"] = tensor.numpy().copy()
    return named
