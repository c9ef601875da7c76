"""The built-in data set: its files, its features, and that nothing half-made is taken for finished."""

import hashlib
import json
import math
import os
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from coder_core.console.faults import InputError
from coder_core.demo import captions as wording
from coder_core.demo import make_demo, making, vagueness
from coder_core.demo.drawing import signed_distance
from coder_core.demo.features import CELLS, REGIONS, WIDTH, cell_features, region_features
from coder_core.demo.scenes import COLOURS, SHAPES, SIDE

IMAGES = 24
SPLITS = {"train": 18, "dev": 3, "test": 3}


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_demo(tmp_path_factory.mktemp("made") / "demo", seed=3, images=IMAGES)


def card(folder: Path) -> dict:
    return json.loads((folder / "demo.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize(("split", "images"), SPLITS.items())
def test_files_are_those_of_the_field_with_vagueness_aside(demo, split, images):
    features = np.load(demo / f"{split}_ims.npy", mmap_mode="r")
    assert isinstance(features, np.memmap)
    assert (features.shape, features.dtype) == ((images, REGIONS, WIDTH), np.float32)
    assert np.isfinite(features).all()
    captions = (demo / f"{split}_caps.txt").read_text(encoding="utf-8").split("\n")
    assert captions.pop() == ""
    assert len(captions) == 5 * images
    assert all(re.fullmatch(r"[a-z ,]+", caption) for caption in captions)  # no number gives a scene away
    names = (demo / f"{split}_ids.txt").read_text(encoding="utf-8").split()
    assert len(names) == images
    for name in names:
        with Image.open(demo / "images" / name) as picture:
            assert picture.size == (SIDE, SIDE)
    vague = vagueness(demo, split).reshape(images, 5)
    assert set(vague.ravel()) <= {0.0, 0.25, 0.5, 0.75, 1.0}
    assert (vague.min(1) == 0).all()  # every picture has an exact caption and a vague one
    assert (vague.max(1) >= 0.75).all()
    assert not list(demo.glob("*vague*"))


def test_vague_captions_name_nothing_that_tells_pictures_apart():
    tables = (wording.LOOKS, wording.TEXTURES, wording.SIZES)
    names = {word for table in tables for words in table.values() for word in words}
    names |= {*SHAPES, *COLOURS, *wording.NUMBERS.values()}
    assert not names & set(" ".join([*wording.VAGUE_CAPTIONS, *wording.EMPTY_CAPTIONS]).split())


def test_training_features_are_standardised(demo):
    features = np.load(demo / "train_ims.npy")
    live = features.std((0, 1)) > 0.1
    assert live.mean() > 0.9
    np.testing.assert_allclose(features.mean((0, 1))[live], 0, atol=0.1)
    assert features.std((0, 1))[live].min() > 0.5  # rare columns are cut at 6
    assert features.std((0, 1)).max() < 1.01


def test_seed_decides_every_byte_and_a_second_call_touches_nothing(demo, tmp_path):
    cards = [card(make_demo(tmp_path / f"{k}", seed=seed, images=10)) for k, seed in enumerate((3, 3, 4))]
    assert cards[0] == cards[1]
    assert cards[0]["sha256"] != cards[2]["sha256"]
    digest = hashlib.sha256()
    for name, size in sorted(card(demo)["bytes"].items(), key=lambda item: Path(item[0]).parts):
        content = (demo / name).read_bytes()
        assert len(content) == size
        digest.update(f"{name} {size}\n".encode() + content)
    assert digest.hexdigest() == card(demo)["sha256"]
    make_demo(demo, seed=3, images=IMAGES, progress=lambda done, of: pytest.fail("it draws again"))


@pytest.mark.parametrize("damage", ["train_caps.txt", "images/dev_0001.jpg", "side/test_vagueness.txt"])
@pytest.mark.parametrize("kept", [0, -1, None])
def test_incomplete_folder_is_made_anew(demo, tmp_path, monkeypatch, damage, kept):
    monkeypatch.setattr(making, "_write", lambda draft, *_: (draft / "demo.json").write_text('{"made": 1}'))
    folder = shutil.copytree(demo, tmp_path / "demo", copy_function=os.link)
    (folder / damage).unlink()
    if kept is not None:
        (folder / damage).write_bytes((demo / damage).read_bytes()[:kept])
    make_demo(folder, seed=3, images=IMAGES)
    assert card(folder) == {"made": 1}
    assert [path.name for path in tmp_path.iterdir()] == ["demo"]  # neither draft nor old folder stays


def test_progress_counts_and_an_interruption_leaves_nothing(tmp_path):
    calls: list[tuple[int, int]] = []

    def stop(done: int, of: int) -> None:
        calls.append((done, of))
        if done == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        make_demo(tmp_path / "demo", images=10, progress=stop)
    assert calls == [(done, 10) for done in range(1, 5)]
    for wrong in ({"images": 9}, {"seed": -1}):
        with pytest.raises(ValueError, match=str(*wrong.values())):
            make_demo(tmp_path / "demo", **wrong)
    assert list(tmp_path.iterdir()) == []


def test_other_files_and_the_draft_of_a_killed_process_are_left_alone(demo, tmp_path, monkeypatch):
    """A kill just before the last file: the draft lies beside the folder, complete but for demo.json."""

    def killed(draft: Path, seed: int, images: int) -> None:
        shutil.copytree(draft, tmp_path / "draft")
        raise KeyboardInterrupt

    monkeypatch.setattr(making, "_write_card", killed)
    with pytest.raises(KeyboardInterrupt):
        make_demo(tmp_path / "demo", images=10)
    monkeypatch.undo()
    assert not (tmp_path / "demo").exists()
    shutil.copytree(demo, tmp_path / "mixed")
    (tmp_path / "f30k_precomp").mkdir()
    for file in ("draft/train_caps.txt", "f30k_precomp/train_caps.txt", "mixed/notes.txt"):
        (tmp_path / file).write_text("mine")
        with pytest.raises(InputError, match=r"holds .*(demo|notes)\."):
            make_demo((tmp_path / file).parent, seed=9, images=10)
        assert (tmp_path / file).read_text() == "mine"


@pytest.mark.parametrize("shape", SHAPES)
def test_shapes_are_true_distances_of_about_the_radius(shape):
    x, y = np.meshgrid(*2 * [np.arange(-70, 71, dtype=np.float32)])
    distance = signed_distance(shape, x, y, 50.0)
    assert (distance.shape, distance.dtype) == ((141, 141), np.float32)
    assert (distance[[0, 0, -1, -1], [0, -1, 0, -1]] > 20).all()
    inside = np.argwhere(distance < 0) - 70
    assert 0.25 < len(inside) / (math.pi * 50**2) < 0.95
    assert 0.75 * 50 < np.abs(inside).max() <= 1.06 * 50
    assert np.abs(np.diff(distance, axis=0)).max() < 1.05  # never changes faster than the way walked


def test_features_follow_the_pixels():
    """A red square on grey shows in the red bin of the window it is in, and in no window it is not in."""
    picture = np.full((SIDE, SIDE, 3), 128, np.uint8)
    assert (region_features(cell_features(picture)[None])[..., 3 + 16 : 3 + 32] == 0).all()  # no things
    picture[16:64, 16:64] = (255, 0, 0)
    regions = region_features(cell_features(picture)[None])[0]
    assert regions.shape == (REGIONS, WIDTH)
    red = regions[:, 3]
    left, top = regions[:, -4] * CELLS, regions[:, -3] * CELLS
    assert ((red > 0) == ((left < 4) & (top < 4))).all()
    np.testing.assert_allclose(red[0], math.sqrt(48 * 48 / 96**2), rtol=1e-5)  # share of 6 × 6 cells
