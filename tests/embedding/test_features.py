"""coder-lab features: a tower's patches in the layout that training reads, resumable."""

import itertools
import json
import shutil
from collections import namedtuple

import numpy as np
import pytest
import torch
from PIL import Image

from coder_core.api import open_run
from coder_core.check_data import main as check_data
from coder_core.data.dataset import read_split
from coder_core.data.pictures import read_picture
from coder_core.data.split import with_groups
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
def base(tmp_path_factory):
    folder = tmp_path_factory.mktemp("features")
    write_tiny_clip(folder / "clip")
    write_tiny_siglip(folder / "siglip", ["a"])
    LAYOUTS["flickr8k"](folder / "data")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(resumable, "BLOCK_ON_CPU", 2)
        yield folder


def extract(base, out, *more, model="clip", data="data"):
    return main([str(base / data), f"--out={out}", f"--model={base / model}", "--workers=0", *more])


@pytest.fixture(scope="module")
def whole(base):
    """The features of CLIP, pooled to 2 × 2."""
    assert extract(base, base / "whole", "--grid=2") == 0
    return base / "whole"


def test_groups_of_the_pictures_are_written_for_training(base, tmp_path, capsys):
    file = tmp_path / "groups.tsv"
    first, second, *_ = TRAIN
    file.write_text(f"{first}\tP1\n{second}\tP1\n")
    out = tmp_path / "out"
    assert extract(base, out, "--grid=2", f"--groups={file}") == 0
    assert f"--groups {out / 'groups.tsv'}" in " ".join(capsys.readouterr().out.split()).replace("- ", "-")
    config = tiny_config(out, groups=str(out / "groups.tsv"))
    train = with_groups({"train": read_split(out, "train")}, config.data)["train"]
    group_of = dict(zip(train.image_names, train.image_groups.tolist(), strict=True))
    assert group_of[first] == group_of[second]
    assert len(set(group_of.values())) == len(TRAIN) - 1


def arrays(out, split="train"):
    return np.load(out / f"{split}_ims.npy"), np.load(out / f"{split}_boxes.npy")


@pytest.mark.parametrize("model", ["clip", "siglip"])
def test_features_are_pooled_patches_with_their_boxes(model, base, tmp_path, capsys):
    from transformers import AutoImageProcessor, AutoModel

    assert extract(base, tmp_path, "--grid=2", model=model) == 0
    assert "12 pictures × 2 × 2 regions × 32 numbers, float16: 3.8 kB" in capsys.readouterr().out
    values, boxes = arrays(tmp_path)
    assert (values.shape, values.dtype, boxes.shape) == ((6, 4, 32), np.float16, (6, 4, 4))
    tower = AutoModel.from_pretrained(base / model).vision_model.eval()
    picture = Image.open(base / "data" / "Flicker8k_Dataset" / TRAIN[2]).convert("RGB")
    processor = AutoImageProcessor.from_pretrained(base / model, backend="pil")
    with torch.inference_mode():
        tokens = tower(**processor(images=picture, return_tensors="pt")).last_hidden_state
        tokens = tower.post_layernorm(tokens)[:, 1:] if model == "clip" else tokens
    expected = tokens.reshape(2, 2, 2, 2, 32).mean((1, 3)).reshape(4, 32)
    np.testing.assert_allclose(values[2], expected.numpy(), atol=4e-3)
    # CLIP sees the 40 × 40 pixels in the middle of 60 × 40, SigLIP the whole
    columns = np.linspace(*((1 / 6, 5 / 6) if model == "clip" else (0, 1)), 3)
    cells = [[columns[j], i / 2, columns[j + 1], (i + 1) / 2] for i in (0, 1) for j in (0, 1)]
    np.testing.assert_allclose(boxes[2], cells, atol=0.02)
    split = read_split(tmp_path, "train", pictures=base / "data" / "Flicker8k_Dataset")
    assert split.image_names == TRAIN
    assert split.captions == [caption for name in TRAIN for caption in CAPTIONS[name]]
    np.testing.assert_array_equal(split.image_of_text, np.repeat(np.arange(6), 2))
    assert check_data([str(tmp_path), "--word-threshold=1"]) == 0


def test_runs_trained_on_features_encode_new_pictures(base, tmp_path):
    assert extract(base, tmp_path / "out", "--grid=0", "--splits", "train", "dev") == 0
    assert arrays(tmp_path / "out")[0].shape == (6, 16, 32)
    run = start_run(tiny_config(tmp_path / "out", epochs=1), tmp_path / "runs", quiet())
    assert json.loads((run / "status.json").read_text())["state"] == "finished"
    # and a new picture goes through the tower that made them
    opened = open_run(run)
    assert opened.reads_pictures("dev")
    pictures = [draw(NAMES.index(name)) for name in NAMES if SPLITS[name] == "dev"]
    rows = [opened.encode_picture(read_picture(content, "x.jpg"), split="dev") for content in pictures]
    np.testing.assert_allclose(rows, opened.scoring("dev")[0], atol=1e-5)
    about = dict(opened.analysis("dev").document("regions"))
    assert (about["model"], about["rows"], about["size"]) == (str(base / "clip"), 4, 32)
    for changes, culprit in (
        ({"fingerprint": "0" * 64}, "is a different model"),
        ({"size": 3}, "size 32"),
        ({"kind": "own", "tower": "evil:tower"}, "CODER_TOWERS=evil:tower"),
        ({"kind": "x"}, "'x'"),
        ({"grid": -3}, "key grid: is -3"),
        ({"model": "no/such"}, "no/such"),
    ):
        assert culprit in str(refusal(load_region_tower, about | changes, "tiny"))


def test_extraction_resumes_where_it_was_interrupted(base, whole, tmp_path, monkeypatch, complaint):
    blocks = resumable.prepared_blocks
    numbers = list[list[int]]()
    out = tmp_path / "out"

    def until_killed(*arguments):
        yield from itertools.islice(blocks(*arguments), 2)
        raise KeyboardInterrupt

    def counted(*arguments):
        numbers.append(list(arguments[2]))
        return blocks(*arguments)

    monkeypatch.setattr(resumable, "prepared_blocks", until_killed)
    assert extract(base, out, "--grid=2") == 130
    assert not list(out.glob("*_ims.npy"))
    monkeypatch.setattr(resumable, "prepared_blocks", counted)
    for _ in range(2):  # the second finds all done
        assert extract(base, out, "--grid=2") == 0
        assert numbers == [[2], [0, 1], [0, 1]]
    for split in ("train", "dev", "test"):
        for first, second in zip(arrays(whole, split), arrays(out, split), strict=True):
            np.testing.assert_array_equal(first, second)
    assert not list(out.glob(".*"))
    assert "tower.json: " in complaint(extract, base, out, "--grid=4")
    (out / "tower.json").unlink()
    assert "dev_ims.npy: " in complaint(extract, base, out, "--grid=2")


def test_broken_pictures_and_a_full_disk_are_refused(base, whole, tmp_path, monkeypatch, complaint):
    data = shutil.copytree(base / "data", tmp_path / "data")
    out = tmp_path / "out"
    (data / "Flicker8k_Dataset" / TRAIN[1]).write_bytes(draw(0)[:-100])
    flags = ["--grid=2", "--splits", "train"]
    assert "train: 1 of 6 pictures cannot be read" in complaint(extract, base, out, *flags, data=str(data))
    assert extract(base, out, *flags, "--skip-broken", data=str(data)) == 0
    assert read_split(out, "train").image_names == [TRAIN[0], *TRAIN[2:]]
    for first, second in zip(arrays(out), arrays(whole), strict=True):
        np.testing.assert_array_equal(first, second[[0, 2, 3, 4, 5]])
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(regions.shutil, "disk_usage", lambda folder: usage(9, 8, 1))
    assert "takes 3,840 bytes, and 1 are free" in complaint(extract, base, tmp_path / "full", "--grid=2")


GRIDS = """
import numpy as np
class Six:
    def encode_pictures(self, pictures): return np.ones((len(pictures), 6, 3))
class Grid(Six):
    grid = (2, 3)
    def view(self, width, height): return (0, 0, 0.5, 1)
class Huge(Grid):
    def encode_pictures(self, pictures): return np.full((len(pictures), 6, 3), 1e6)
"""


def test_towers_without_the_requested_grid_are_refused(base, tmp_path, monkeypatch):
    naflex = write_tiny_naflex(tmp_path / "naflex", ["a"])
    picture = Image.new("RGB", (8, 8))
    assert "from 1 to 4, or 0 for all" in str(refusal(transformers_regions, str(base / "clip"), grid=7))
    assert "(NaFlex), which gives no fixed grid" in str(refusal(transformers_regions, str(naflex), grid=2))
    module = "region_tower_of_a_test"
    (tmp_path / f"{module}.py").write_text(GRIDS)
    monkeypatch.syspath_prepend(str(tmp_path))
    assert "gives 6 features per picture, not 2 × 2" in str(refusal(own_regions, f"{module}:Six", grid=0))
    tower, huge = (own_regions(f"{module}:{name}", grid=0) for name in ("Grid", "Huge"))
    assert (tower.rows, tower.columns, tower.size) == (2, 3, 3)
    assert tower.prepare(picture).view == (0, 0, 0.5, 1)
    assert tower.encode_picture(picture).shape == (6, 3)
    assert "numbers above 65,504" in str(refusal(huge.encode, [tower.prepare(picture)]))
