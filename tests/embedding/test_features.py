"""python -m coder_core.features: a tower's patches in the layout that training reads, resumable."""

from __future__ import annotations

import json
import shutil
from collections import namedtuple
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from coder_core.api import open_run
from coder_core.check_data import main as check_data
from coder_core.data.dataset import read_split
from coder_core.data.pictures import read_picture
from coder_core.embedding import regions, resumable
from coder_core.features import main
from coder_core.model.towers.regions import own_regions, transformers_regions
from coder_core.runs.towers import load_region_tower
from coder_core.training.launch import start_run
from tests.support.picture_folders import CAPTIONS, LAYOUTS, NAMES, SPLITS, draw
from tests.support.precomp_folders import refusal
from tests.support.tiny_runs import quiet, tiny_config
from tests.support.tiny_towers import write_tiny_clip, write_tiny_naflex, write_tiny_siglip

TRAIN = [name for name in NAMES if SPLITS[name] == "train"]


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory, own_threads: None) -> Path:
    folder = tmp_path_factory.mktemp("features")
    write_tiny_clip(folder / "clip")
    write_tiny_siglip(folder / "siglip", ["a"])
    LAYOUTS["flickr8k"](folder / "data")
    return folder


def extract(base: Path, out: Path, *more: str, model: str = "clip", data: str = "data") -> int:
    return main([str(base / data), f"--out={out}", f"--model={base / model}", "--workers=0", *more])


def arrays(out: Path, split: str = "train") -> tuple[np.ndarray, np.ndarray]:
    return np.load(out / f"{split}_ims.npy"), np.load(out / f"{split}_boxes.npy")


@pytest.mark.parametrize("model", ["clip", "siglip"])
def test_features_are_the_patches_of_the_model_and_boxes_where_they_lie(
    model: str, base: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from transformers import AutoImageProcessor, AutoModel

    assert extract(base, tmp_path, "--grid=2", model=model) == 0
    said = capsys.readouterr().out
    assert "12 pictures × 2 × 2 regions × 32 numbers, float16: 3.8 KiB to write" in said
    values, places = arrays(tmp_path)
    assert (values.shape, values.dtype, places.shape) == ((6, 4, 32), np.float16, (6, 4, 4))
    tower = AutoModel.from_pretrained(base / model).vision_model.eval()
    picture = Image.open(base / "data" / "Flicker8k_Dataset" / TRAIN[2]).convert("RGB")
    pixels = AutoImageProcessor.from_pretrained(base / model, backend="pil")(
        images=picture, return_tensors="pt"
    )
    with torch.inference_mode():
        tokens = tower(**pixels).last_hidden_state
        tokens = tower.post_layernorm(tokens)[:, 1:] if model == "clip" else tokens
    wanted = tokens.reshape(2, 2, 2, 2, 32).mean((1, 3)).reshape(4, 32)
    np.testing.assert_allclose(values[2], wanted.numpy(), atol=4e-3)
    # CLIP sees the 40 × 40 pixels in the middle of 60 × 40, SigLIP the whole
    left, right = (1 / 6, 5 / 6) if model == "clip" else (0, 1)
    middle = (left + right) / 2
    wanted_boxes = [
        [left, 0, middle, 0.5],
        [middle, 0, right, 0.5],
        [left, 0.5, middle, 1],
        [middle, 0.5, right, 1],
    ]
    np.testing.assert_allclose(places[2], wanted_boxes, atol=0.02)
    split = read_split(tmp_path, "train", pictures=base / "data" / "Flicker8k_Dataset")
    assert split.image_names == TRAIN
    assert split.captions == [caption for name in TRAIN for caption in CAPTIONS[name]]
    np.testing.assert_array_equal(split.image_of_text, np.repeat(np.arange(6), 2))
    assert check_data([str(tmp_path), "--word-threshold=1"]) == 0


def test_training_reads_them(base: Path, tmp_path: Path) -> None:
    assert extract(base, tmp_path / "out", "--grid=0", "--splits", "train", "dev") == 0
    assert arrays(tmp_path / "out")[0].shape == (6, 16, 32)
    config = tiny_config(tmp_path / "out")
    run = start_run(config, tmp_path / "runs", quiet())
    assert json.loads((run / "status.json").read_text())["state"] == "finished"
    # and a new picture goes through the tower that made them
    opened = open_run(run)
    assert opened.reads_pictures("dev")
    pictures = [draw(NAMES.index(name)) for name in NAMES if SPLITS[name] == "dev"]
    rows = [opened.encode_picture(read_picture(content, "x.jpg"), split="dev") for content in pictures]
    np.testing.assert_allclose(rows, opened.scoring("dev")[0], atol=1e-5)
    about = dict(opened.analysis("dev").document("regions"))
    assert (about["model"], about["rows"], about["size"]) == (str(base / "clip"), 4, 32)
    for changes, said in (
        ({"fingerprint": "0" * 64}, "is another model now"),
        ({"size": 3}, "gives other regions now: size 32"),
        ({"kind": "own", "tower": "evil:tower"}, "set CODER_TOWERS=evil:tower"),
        ({"kind": "x"}, "are of the kind 'x'"),
        ({"grid": -3}, "key grid: is -3"),
        ({"model": "no/such"}, "is not on this machine"),
    ):
        assert said in str(refusal(load_region_tower, about | changes, "tiny"))


def test_it_goes_on_where_it_was_killed_and_leaves_alone_what_is_there(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(resumable, "BLOCK_ON_CPU", 2)
    assert extract(base, tmp_path / "whole", "--grid=2") == 0
    blocks, asked = resumable.prepared_blocks, []

    def counted(*given: Any) -> Any:
        asked.append(list(given[2]))
        return blocks(*given)

    def killed(*given: Any) -> Any:
        for number, block in enumerate(blocks(*given)):
            if number == 2:
                raise KeyboardInterrupt
            yield block

    monkeypatch.setattr(resumable, "prepared_blocks", killed)
    assert extract(base, tmp_path / "out", "--grid=2") == 130
    assert not list((tmp_path / "out").glob("*_ims.npy"))
    monkeypatch.setattr(resumable, "prepared_blocks", counted)
    assert extract(base, tmp_path / "out", "--grid=2") == 0
    assert asked == [[2], [0, 1], [0, 1]]
    for split in ("train", "dev", "test"):
        for first, second in zip(
            arrays(tmp_path / "whole", split), arrays(tmp_path / "out", split), strict=True
        ):
            np.testing.assert_array_equal(first, second)
    capsys.readouterr()
    assert extract(base, tmp_path / "out", "--grid=2") == 0
    assert "train is there and is left alone." in capsys.readouterr().out
    assert asked[3:] == []
    assert not list((tmp_path / "out").glob(".*"))
    assert extract(base, tmp_path / "out", "--grid=4") == 1
    assert "tells of another tower, grid or precision" in capsys.readouterr().err
    (tmp_path / "out" / "tower.json").unlink()
    assert extract(base, tmp_path / "out", "--grid=2") == 1
    assert "dev_ims.npy: is there already and is not of this command" in capsys.readouterr().err


def test_broken_pictures_and_a_disk_without_room(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    data = shutil.copytree(base / "data", tmp_path / "data")
    (data / "Flicker8k_Dataset" / TRAIN[1]).write_bytes(draw(0)[:-100])
    given = [str(data), f"--out={tmp_path / 'out'}", f"--model={base / 'clip'}", "--workers=0", "--grid=2"]
    given += ["--splits", "train"]
    assert main(given) == 1
    assert "train: 1 of 6 pictures cannot be read" in capsys.readouterr().err
    assert main([*given, "--skip-broken"]) == 0
    split = read_split(tmp_path / "out", "train")
    assert split.image_names == [TRAIN[0], *TRAIN[2:]]
    assert extract(base, tmp_path / "whole", "--grid=2", "--splits", "train") == 0
    for first, second in zip(arrays(tmp_path / "out"), arrays(tmp_path / "whole"), strict=True):
        np.testing.assert_array_equal(first, second[[0, 2, 3, 4, 5]])
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(regions.shutil, "disk_usage", lambda folder: usage(9, 8, 1))
    assert extract(base, tmp_path / "full", "--grid=2") == 1
    assert "takes 3,840 bytes, and 1 are free" in capsys.readouterr().err


def test_what_gives_no_grid_is_refused(base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "from 1 to 4, or 0 for all" in str(refusal(transformers_regions, str(base / "clip"), grid=7))
    naflex = write_tiny_naflex(tmp_path / "naflex", ["a"])
    assert "(NaFlex), which gives no fixed grid" in str(refusal(transformers_regions, str(naflex), grid=2))
    (tmp_path / "region_tower_of_a_test.py").write_text(
        "import numpy as np\n"
        "class Six:\n"
        "    def encode_pictures(self, pictures): return np.ones((len(pictures), 6, 3))\n"
        "class Grid(Six):\n"
        "    grid = (2, 3)\n"
        "    def view(self, width, height): return (0, 0, 0.5, 1)\n"
        "class Huge(Grid):\n"
        "    def encode_pictures(self, pictures): return np.full((len(pictures), 6, 3), 1e6)\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    module = "region_tower_of_a_test"
    assert "gives 6 features a picture, not 2 × 2" in str(refusal(own_regions, f"{module}:Six", grid=0))
    tower = own_regions(f"{module}:Grid", grid=0)
    assert (tower.rows, tower.columns, tower.size) == (2, 3, 3)
    prepared = tower.prepare(Image.new("RGB", (8, 8)))
    assert prepared.view == (0, 0, 0.5, 1)
    assert tower.encode_picture(Image.new("RGB", (8, 8))).shape == (6, 3)
    huge = own_regions(f"{module}:Huge", grid=0)
    assert "numbers above 65,504" in str(refusal(huge.encode, [prepared]))
