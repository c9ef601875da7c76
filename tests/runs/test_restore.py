"""A run folder, also a stored one of this format, becomes its model again, or the damaged file is named."""

import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from coder_core.api import list_runs, open_run
from coder_core.console.faults import InputError
from coder_core.data.dataset import read_split
from coder_core.evaluate import main
from coder_core.geometry.settings import ClusterSettings, LayoutSettings
from coder_core.model.encode import encode_split
from coder_core.runs.analysis.read import open_analysis
from coder_core.runs.derived.compute import clusters_folder, layout_folder, read_clusters, read_layout
from coder_core.runs.history import history_faults
from coder_core.runs.load import load_model, load_weights, read_config, read_vocabulary
from coder_core.runs.saves import SaveStore
from coder_core.training.launch import start_run
from tests.support.run_folders import cut, flip
from tests.support.tiny_runs import quiet, tiny_config, write_tiny_data

pytestmark = pytest.mark.usefixtures("own_threads")


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trained")
    config = tiny_config(write_tiny_data(folder / "data"), epochs=2, bank_size=8, momentum=0.995)
    return start_run(config, folder, quiet())


@pytest.fixture
def run(trained: Path, tmp_path: Path) -> Path:
    return shutil.copytree(trained, tmp_path / "run")


def test_the_best_model_gives_the_embeddings_of_the_analysis(trained: Path) -> None:
    loaded = load_model(trained)
    assert loaded.save == SaveStore(trained / "best", keep=1).names()[0]
    assert loaded.faults == []
    assert loaded.feature_size == 6
    config, _ = read_config(trained)
    dev = read_split(config.data.data, "dev")
    tokens = loaded.reader.encode(dev.captions)
    images, texts = encode_split(loaded.model, dev, tokens, device=loaded.device)[:2]
    written = open_analysis(trained, "dev", verify=True)
    np.testing.assert_allclose(images, written.image_embeddings, atol=1e-6)
    np.testing.assert_allclose(texts, written.text_embeddings, atol=1e-6)
    np.testing.assert_allclose(loaded.encode_text(dev.captions), texts, atol=1e-6)


def test_before_the_first_evaluation_the_last_state_serves(run: Path) -> None:
    shutil.rmtree(run / "best")
    assert load_model(run).save == "10"


@pytest.mark.parametrize(
    "file", ["best/*/model.safetensors", "best/*/manifest.json", "config.toml", "words.json"]
)
def test_a_damaged_file_is_named(run: Path, file: str) -> None:
    [path] = run.glob(file)
    (cut if file.startswith("best") else flip)(path)
    with pytest.raises(InputError) as refused:
        load_model(run)
    assert str(path) in str(refused.value)


def test_a_damaged_state_falls_back_to_the_one_before(run: Path) -> None:
    shutil.rmtree(run / "best")
    path = run / "state" / "10" / "model.safetensors"
    flip(path)
    loaded = load_model(run)
    assert loaded.save == "5"
    assert [fault.place for fault in loaded.faults] == [str(path)]


def test_no_weights_yet(run: Path) -> None:
    for kind in ("best", "state"):
        shutil.rmtree(run / kind)
    with pytest.raises(InputError, match="holds no saved weights yet"):
        load_model(run)


def test_weights_of_another_model_are_refused_by_name_and_shape() -> None:
    module = torch.nn.Linear(2, 3)
    with pytest.raises(InputError) as refused:
        load_weights(module, {"weight": torch.zeros(3, 4), "scale": torch.ones(1)}, "x.safetensors")
    assert str(refused.value).splitlines() == [
        "x.safetensors: lacks bias",
        "x.safetensors: holds scale, which the model does not have",
        "x.safetensors: weight has shape (3, 4); expected (3, 2)",
    ]


def test_the_vocabulary_is_that_of_the_train_captions(trained: Path) -> None:
    config, _ = read_config(trained)
    vocabulary = read_vocabulary(trained, config)
    train = read_split(config.data.data, "train")
    assert set(vocabulary.words[2:]) == {word for caption in train.captions for word in caption.split()}


FIXTURE = Path(__file__).resolve().parents[1] / "fixtures" / "finished_runs"
RUNS = ["whole", "weighted"]


@pytest.fixture
def stored(tmp_path: Path) -> Path:
    """A copy of the runs: one with concepts, bank and prototypes, one with the weights of neighbourhoods."""
    return Path(shutil.copytree(FIXTURE / "checkpoints", tmp_path / "checkpoints"))


@pytest.mark.parametrize("name", RUNS)
def test_one_is_listed_opens_and_encodes(stored: Path, name: str) -> None:
    listed = {run.name: run for run in list_runs(stored)}
    assert sorted(listed) == sorted(RUNS)
    assert (listed[name].state, listed[name].fault, listed[name].splits) == ("finished", "", ("dev",))
    assert history_faults(stored / name / "history.jsonl") == []
    run = open_run(stored / name)
    assert run.metrics("dev")["rsum"] > 300
    assert list(run.history["step"])[:2] == [5, 10]
    assert {len(embeddings) for embeddings in run.embeddings("dev")} == {8, 40}
    assert run.encode_text(["a red ring"]).shape[0] == 1
    assert len(run.diversity("dev")) == 40
    assert (run.concepts("dev") is not None) == (name == "whole")


@pytest.mark.parametrize("name", RUNS)
def test_evaluating_again_writes_the_same_analysis(stored: Path, name: str) -> None:
    before = open_analysis(stored / name, "dev", verify=True)
    assert main([str(stored / name), "--split", "dev", "--data", str(FIXTURE / "data")]) == 0
    after = open_analysis(stored / name, "dev", verify=True)
    assert after.manifest["version"] == before.manifest["version"]
    assert after.fingerprint == before.fingerprint
    assert sorted(after.arrays) == sorted(before.arrays)
    for array in before.arrays:
        new, old, tolerance = after.array(array), before.array(array), 1e-3 if "attention" in array else 2e-5
        assert new.dtype == old.dtype
        np.testing.assert_allclose(new, old, atol=tolerance)


def test_what_was_derived_is_found(stored: Path) -> None:
    analysis = open_analysis(stored / "whole", "dev")
    layout = read_layout(layout_folder(stored / "whole", "dev", LayoutSettings("pca"), analysis))
    clusters = read_clusters(clusters_folder(stored / "whole", "dev", ClusterSettings(4), analysis))
    assert layout.plane.shape == (48, 2)
    assert clusters.centroids.shape == (4, 16)
