"""Towers trained on pictures: they start as transformers' models, learn, store only what changed, and resume."""

import io
import json
import shutil
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file

from coder_core.api import open_run
from coder_core.console.faults import InputError
from coder_core.data import batches
from coder_core.data.features import UnreadableRowsError
from coder_core.embed import main as embed
from coder_core.evaluate import main as evaluate
from coder_core.model.encode import encode_split
from coder_core.model.run_towers import open_towers, with_size_of_towers
from coder_core.runs.analysis.read import open_analysis
from coder_core.runs.load import load_model, read_config
from coder_core.training.launch import continue_run, start_run
from coder_core.training.parts.boosting import BoostingTeacher
from coder_core.training.parts.memory import MomentumMemory
from coder_core.training.prepare import Inputs, make_objective, prepare
from tests.support.picture_folders import CAPTIONS, NAMES, SPLITS, draw
from tests.support.precomp_folders import assert_refused, refusal
from tests.support.tiny_bert import write_tiny_bert
from tests.support.tiny_runs import changed, events, newest_state, quiet
from tests.support.tiny_towers import (
    WORDS,
    embedded_by_transformers,
    tower_config,
    with_every_part,
    write_pictures_of_any_shape,
    write_tiny_clip,
)

pytestmark = pytest.mark.usefixtures("one_thread")
CPU = torch.device("cpu")
DEV = [name for name in NAMES if SPLITS[name] == "dev"]
TEXTS = [caption for name in DEV for caption in CAPTIONS[name]]


@pytest.fixture(scope="module")
def full(towers_folder, tmp_path_factory):
    return start_run(tower_config(towers_folder, epochs=2), tmp_path_factory.mktemp("runs"), quiet())


def prepared(config):
    towers = open_towers(config)
    return prepare(with_size_of_towers(config, towers)[0], Inputs(towers=towers))


def encode_dev(ready):
    return encode_split(ready.model, ready.data.dev, ready.words.dev)


def losses(run):
    return [event["loss"] for event in events(run, "epoch")]


@pytest.mark.parametrize("model", ["clip", "siglip"])
def test_training_starts_from_the_cosines_of_transformers(towers_folder, model):
    actual = encode_dev(prepared(tower_config(towers_folder, model=model)))
    pictures = [Image.open(io.BytesIO(draw(NAMES.index(name)))) for name in DEV]
    images, texts = embedded_by_transformers(towers_folder / model, pictures, TEXTS, pad=model == "siglip")
    expected = images @ texts.T
    assert expected.std() > 0.01  # something was compared
    np.testing.assert_allclose(actual.images @ actual.texts.T, expected, atol=1e-6)


def test_a_plain_bert_can_be_a_text_tower(towers_folder, tmp_path):
    """Its folder, like many, has no picture settings and no pooler of BERT."""
    bert = str(write_tiny_bert(tmp_path / "bert", WORDS))
    own = {"text_tower": bert, "text_pooling": "gpo", "projection": "linear", "dimension": 8, "epochs": 1}
    run = start_run(tower_config(towers_folder, **own), tmp_path / "runs", quiet())
    before = load_file(Path(bert) / "model.safetensors")["embeddings.word_embeddings.weight"]
    after = load_model(run).model.words.tower.model.embeddings.word_embeddings.weight
    assert after.shape == before.shape
    assert not torch.equal(after, before)
    assert "pool" in str(refusal(prepared, tower_config(towers_folder, **own | {"text_pooling": "tower"})))


@pytest.fixture(scope="module")
def flexible(towers_folder, tmp_path_factory):
    """Run with trained adapters of a SigLIP 2 that reads pictures of any shape; dev's have 2 × 8, 3 × 5 and 4 × 4
    patches."""
    write_pictures_of_any_shape(towers_folder)
    tuning = {"image_tuning": "lora", "text_tuning": "lora", "learning_rate": 1e-2, "epochs": 2}
    tuning |= {"image_rate": 0.5, "text_rate": 0.5}
    config = tower_config(towers_folder, "flexible", model="naflex", **tuning)
    return start_run(config, tmp_path_factory.mktemp("runs"), quiet())


def test_naflex_adapters_start_from_zero_shot_and_learn(flexible, tmp_path):
    config, _ = read_config(flexible)
    flags_of_embed = [f"--root={tmp_path}", "--name=zero", "--split=dev", "--workers=0", "--device=cpu"]
    assert embed(["pictures", config.data.data, f"--model={config.towers.image_tower}", *flags_of_embed]) == 0
    zero = open_analysis(tmp_path / "zero", "dev")
    start = encode_dev(prepared(config))
    np.testing.assert_allclose(start.images, zero.image_embeddings, atol=1e-6)
    np.testing.assert_allclose(start.texts, zero.text_embeddings, atol=1e-6)
    assert losses(flexible)[-1] < losses(flexible)[0]
    assert all(".lora_" in name for name in newest_state(flexible).tensors("model"))
    assert {event["learning_rate"] for event in events(flexible, "step")} == {1e-2}  # not a tower's share


@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor:UserWarning")  # torch.compile reads all
def test_compiled_naflex_has_the_same_losses(flexible, tmp_path, monkeypatch):
    """Traced as for a GPU but run by PyTorch's own kernels, because compiling for a CPU takes minutes."""
    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend="eager"))
    config = changed(read_config(flexible)[0], batch_size=12)  # all batches of one shape
    plain = start_run(config, tmp_path / "plain", quiet())
    compiled = start_run(changed(config, compile=True), tmp_path, quiet())
    np.testing.assert_allclose(losses(compiled), losses(plain), rtol=1e-5)


def test_patches_of_pictures_of_any_shape_become_regions(flexible, tmp_path):
    frozen = {"image_tuning": "frozen", "text_tuning": "frozen", "projection": "linear"}
    pooled = {"image_pooling": "gpo", "text_pooling": "gpo", "dimension": 8, "epochs": 2}
    config = changed(read_config(flexible)[0], **frozen, **pooled)
    run = start_run(config, tmp_path, quiet())
    assert losses(run)[-1] < losses(run)[0]
    loaded = load_model(run)
    analysis = open_analysis(run, "dev")
    image_tower = loaded.towers.image
    for row, (name, grid) in enumerate(zip(analysis.image_names, ((2, 8), (3, 5), (4, 4)), strict=True)):
        picture = Image.open(Path(config.data.data) / "Flicker8k_Dataset" / name).convert("RGB")
        np.testing.assert_allclose(
            loaded.encode_pictures([picture])[0], analysis.image_embeddings[row], atol=1e-5
        )
        features, boxes, _ = loaded.patches(picture)
        assert len(features) == len(boxes) == grid[0] * grid[1]
        np.testing.assert_allclose(boxes[-1], [1 - 1 / grid[1], 1 - 1 / grid[0], 1, 1], atol=1e-6)
        assert image_tower.lengths(torch.from_numpy(image_tower.prepare(picture))[None]) == len(features)


def test_training_from_cached_pictures_resembles_training_from_the_files(towers_folder, tmp_path):
    """With 40 pixels, the whole height of the pictures, the cache loses nothing; 37 are 1.15 times the tower's 32."""
    config = tower_config(towers_folder, epochs=1, augment="crop-flip")
    files = start_run(config, tmp_path / "files", quiet())
    whole = start_run(changed(config, cache_pictures=40, workers=1), tmp_path / "whole", quiet())
    scaled = start_run(changed(config, cache_pictures=-1), tmp_path / "scaled", quiet())
    np.testing.assert_allclose(losses(whole), losses(files), rtol=1e-3)
    np.testing.assert_allclose(losses(scaled), losses(files), rtol=3e-2)
    assert losses(scaled) != losses(files)
    # dev is read from its files, so evaluating a run gives what its training printed
    assert evaluate([str(scaled), "--split", "dev"]) == 0
    metrics = [event["metrics"]["rsum"] for event in events(scaled, "epoch")]
    assert open_analysis(scaled, "dev").metrics["rsum"] == pytest.approx(metrics[-1])


def test_a_tower_of_patches_needs_the_size_of_cached_pictures(flexible, tmp_path):
    config = changed(read_config(flexible)[0], cache_pictures=-1, epochs=1)
    assert "--cache-pictures 512" in str(refusal(start_run, config, tmp_path, quiet()))
    cached = start_run(changed(config, cache_pictures=64), tmp_path, quiet())
    assert losses(cached) == pytest.approx(losses(flexible)[:1], rel=1e-6)


def test_full_tuning_lowers_the_loss_and_other_splits_can_be_evaluated(full):
    assert losses(full)[-1] < losses(full)[0]
    assert evaluate([str(full), "--split", "test"]) == 0
    analysis = open_analysis(full, "test")
    loaded = load_model(full)
    assert analysis.image_embeddings.shape == (3, 24)
    texts = loaded.encode_text(list(analysis.captions))
    np.testing.assert_allclose(texts, analysis.text_embeddings, atol=1e-5)
    picture = Image.open(io.BytesIO(draw(NAMES.index(analysis.image_names[0])))).convert("RGB")
    np.testing.assert_allclose(loaded.encode_pictures([picture])[0], analysis.image_embeddings[0], atol=1e-5)
    assert analysis.document("tuned").keys() == {"image", "text"}
    run = open_run(full)
    assert run.reads_pictures("test")
    actual = run.search(run.encode_picture(picture, split="test"), split="test", modality="image")
    assert actual["candidate"][0] == (analysis.text_embeddings @ analysis.image_embeddings[0]).argmax()
    assert len(run.search("a ring, drawn", split="test")) == 3


@pytest.fixture(scope="module")
def everything(towers_folder):
    return with_every_part(towers_folder)


def test_only_adapters_and_heads_are_stored_and_frozen_weights_unchanged(towers_folder, everything, tmp_path):
    """Frozen weights stay those of the model bit for bit, and are never copied."""
    tuned = start_run(changed(everything, epochs=2), tmp_path, quiet())
    stored = newest_state(tuned).tensors("model")
    of_towers = {name for name in stored if ".tower." in name}
    assert all(".lora_A." in name or ".lora_B." in name for name in of_towers)
    assert {name.split(".")[0] for name in of_towers} == {"regions"}
    assert {"regions.linear.weight", "words.linear.weight"} <= stored.keys()
    assert any(".lora_B." in name and bool(stored[name].any()) for name in of_towers)  # they learned
    assert not [name for name in newest_state(tuned).tensors("memory") if ".base_layer." in name]
    noted = json.loads((tuned / "towers.json").read_text())
    towers = everything.towers
    models = {"image": towers.image_tower, "text": towers.text_tower}
    assert {side: entry["model"] for side, entry in noted.items()} == models
    assert all(len(entry["fingerprint"]) == 64 for entry in noted.values())
    model = load_model(tuned).model
    original = load_file(towers_folder / "siglip" / "model.safetensors")
    for module, half in ((model.regions.tower, "vision_model"), (model.words.tower, "text_model")):
        ours = {name.replace(".base_layer", ""): tensor for name, tensor in module.model.state_dict().items()}
        of_half = ((name, tensor) for name, tensor in original.items() if name.startswith(half))
        theirs = {name.removeprefix(f"{half}."): tensor for name, tensor in of_half}
        assert theirs
        assert all(torch.equal(ours[name], tensor) for name, tensor in theirs.items())

    ready = prepared(everything)
    parts = make_objective(everything, ready, CPU).parts
    places = {p.data_ptr(): name for name, p in ready.model.named_parameters() if ".tower." in name}
    twins = [part.twin for part in parts if isinstance(part, MomentumMemory)]
    twins += [part.branch for part in parts if isinstance(part, BoostingTeacher)]
    assert len(twins) == 2
    for twin in twins:
        shared = {places[p.data_ptr()] for p in twin.parameters() if p.data_ptr() in places}
        assert shared == {name for name in places.values() if ".lora_" not in name}


def test_a_changed_tower_is_refused_by_name(full, towers_folder, tmp_path):
    moved = Path(shutil.copytree(towers_folder / "clip", tmp_path / "moved"))
    write_tiny_clip(towers_folder / "clip", seed=1)
    try:
        assert_refused(r"--image-tower .*clip: is a different model now", load_model, full)
        shutil.rmtree(towers_folder / "clip")
        assert_refused(r"--image-tower .*clip", load_model, full)
        moved_config = changed(read_config(full)[0], image_tower=str(moved), text_tower=str(moved))
        assert continue_run(full, moved_config, quiet()) == full  # finished: nothing is left to do
    finally:
        shutil.copytree(moved, towers_folder / "clip", dirs_exist_ok=True)


def test_broken_pictures_are_named_at_once_or_skipped(towers_folder, tmp_path):
    data = Path(shutil.copytree(towers_folder / "data", tmp_path / "data"))
    train = [name for name in NAMES if SPLITS[name] == "train"]
    (data / "Flicker8k_Dataset" / train[1]).write_bytes(b"no picture")
    config = tower_config(towers_folder, data=str(data))
    assert_refused(rf"1 of 6 pictures cannot be decoded; the first: .*{train[1]}", prepared, config)
    ready = prepared(tower_config(towers_folder, data=str(data), skip_broken=True))
    assert ready.data.train.n_images == 5
    (data / "Flicker8k_Dataset" / train[2]).unlink()
    with pytest.raises(UnreadableRowsError, match=train[2]):
        list(ready.batches.stream(0, 5))
    ready.batches.split = replace(ready.data.train, pictures=replace(ready.data.train.pictures, workers=1))
    with pytest.raises(UnreadableRowsError, match=train[2]):
        list(ready.batches.stream(0, 5))


@pytest.mark.parametrize(("processes", "together"), [(1, 3), (2, 1)])
def test_workers_change_no_bit_of_a_batch(everything, monkeypatch, processes, together):
    monkeypatch.setattr(batches, "DECODED_AT_ONCE", together)  # of 4 pairs
    ready = prepared(everything)
    last = replace(ready.batches, part=processes - 1, parts=processes)
    here = list(last.stream(1, 4))
    last.split = replace(ready.data.train, pictures=replace(ready.data.train.pictures, workers=2))
    for batch, expected in zip(last.stream(1, 4), here, strict=True):
        assert all(torch.equal(vars(batch)[name], value) for name, value in vars(expected).items())
    assert not torch.equal(here[0].regions, here[1].regions)


def test_the_documented_custom_tower_trains_from_random_weights(towers_folder, tmp_path, monkeypatch, capsys):
    text = Path("docs/training.md").read_text("utf-8").split("\n## Towers\n")[1]
    (tmp_path / "smalltowers.py").write_text(text.split("```python")[1].split("```")[0])
    monkeypatch.syspath_prepend(tmp_path)
    towers = dict.fromkeys(("image_tower", "text_tower"), "smalltowers:small")
    values = {"image_pooling": "mean", "text_pooling": "mean", "projection": "linear", "dimension": 16}
    config = tower_config(towers_folder, **towers, **values, learning_rate=3e-3, epochs=2)
    run = start_run(config, tmp_path, quiet())
    assert losses(run)[-1] < losses(run)[0]
    assert "regions.tower.module.0.weight" in newest_state(run).tensors("model")
    monkeypatch.setattr("coder_core.model.towers.own._typed", set())
    assert_refused("smalltowers:small", load_model, run)
    monkeypatch.setenv("CODER_TOWERS", "smalltowers:small")
    assert load_model(run).encode_text(["a ring"]).shape == (1, 16)
    out = tmp_path / "blend.json"
    assert evaluate([str(run), "--device=cpu", "--blend", "0", "1", "--json", str(out)]) == 0
    before, after = json.loads(out.read_text())["runs"].values()
    metrics = open_analysis(run, "dev").metrics
    assert after == {name: metrics[name] for name in after if name != "alpha"} | {"alpha": 1}
    assert before["md"] != after["md"]
    small = sys.modules["smalltowers"].small

    def changed_small():
        user = small()
        torch.nn.init.zeros_(user.image_tower[0].weight)
        return user

    monkeypatch.setattr(sys.modules["smalltowers"], "small", changed_small)
    assert load_model(run).encode_text(["a ring"]).shape == (1, 16)  # a save holds what was trained in full
    assert evaluate([str(run), "--blend", "0", "1"]) == 1
    assert "smalltowers:small" in capsys.readouterr().err
    with pytest.raises(InputError, match=r"--image-tower json:loads: .*TypeError"):
        open_towers(changed(config, image_tower="json:loads"))
