"""Decoded pictures are those of their files, scaled down; shards are shared, resumed, verified and made again."""

import io
import os
import shutil
import signal
from collections import namedtuple
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from coder_core.config.schema import Config
from coder_core.data.augmentation import Change, change_picture, change_pixels
from coder_core.data.captioned import picture_cache
from coder_core.data.captioned.checking import decode_pictures
from coder_core.data.captioned.picture_cache import cached_pictures
from coder_core.data.captioned.reading import read_captioned
from coder_core.data.features import UnreadableRowsError
from coder_core.data.pictures import read_scaled
from coder_core.train import read_arguments
from tests.support.picture_folders import NAMES, OF_SPLIT, draw, flickr8k
from tests.support.precomp_folders import refusal

SIDE = 24
TRAIN = OF_SPLIT["train"]


@pytest.fixture
def data(tmp_path, monkeypatch):
    """A folder with six train pictures, which take three shards, and an empty cache."""
    monkeypatch.setenv("CODER_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(picture_cache, "SHARD", 2)
    flickr8k(tmp_path / "data")
    return tmp_path / "data"


def opened(data, *, workers=0, progress=None):
    """Open the cache of a folder; return it, its notes and the numbers of pictures that were decoded."""
    split = read_captioned(data).split("train")
    decoded = []

    def note(done, total, phase=""):
        decoded.append((done, total))
        if progress is not None:
            progress(done)

    cache, notes = cached_pictures(split, contents(split), SIDE, np.asarray, workers=workers, progress=note)
    return cache, notes, decoded


def contents(split):
    return decode_pictures(split)[0]


def shards(data):
    """Return the files of pixels in the cache, with the time of their last change."""
    files = (data.parent / "cache" / "decoded").rglob("pixels.bin")
    return {file: file.stat().st_mtime_ns for file in files}


def expected(content):
    picture = Image.open(io.BytesIO(content)).convert("RGB")
    return np.asarray(picture.resize((36, SIDE), Image.Resampling.BICUBIC))


@pytest.mark.parametrize("workers", [0, 1])
def test_a_cached_picture_is_the_decoded_file_scaled_down(data, workers):
    before = {path: path.stat().st_mtime_ns for path in data.rglob("*")}
    cache, (note,), decoded = opened(data, workers=workers)
    for image, name in enumerate(TRAIN):
        np.testing.assert_array_equal(cache.read(image), expected(draw(NAMES.index(name))))
    assert decoded == [(2, 6), (4, 6), (6, 6)]
    assert note.severity == "note"
    assert "6 pictures of 24 pixels" in note.found
    assert {path: path.stat().st_mtime_ns for path in data.rglob("*")} == before
    assert {path.name for path in data.parent.iterdir()} == {"cache", "data"}


def test_small_pictures_stay_and_large_photographs_lose_at_most_a_little_by_draft_mode():
    small = Image.new("RGB", (20, 30), "red")
    buffer = io.BytesIO()
    small.save(buffer, "PNG")
    assert read_scaled(buffer.getvalue(), "small", SIDE).size == (20, 30)
    random = np.random.default_rng(0)
    coarse = Image.fromarray(random.integers(0, 256, (6, 8, 3), dtype=np.uint8))
    buffer = io.BytesIO()
    coarse.resize((400, 300), Image.Resampling.BICUBIC).save(buffer, "JPEG", quality=90)
    whole = Image.open(io.BytesIO(buffer.getvalue())).resize((32, SIDE), Image.Resampling.BICUBIC)
    scaled = np.asarray(read_scaled(buffer.getvalue(), "photograph", SIDE)).astype(int)
    apart = np.abs(scaled - np.asarray(whole))
    assert scaled.shape == (SIDE, 32, 3)
    assert 0 < apart.max() < 12
    assert apart.mean() < 2


def test_two_runs_share_the_shards_wherever_their_data_lies(data):
    opened(data)
    copy = data.with_name("copy")
    shutil.copytree(data, copy)
    cache, notes, decoded = opened(copy)
    assert (notes, decoded) == ([], [])
    np.testing.assert_array_equal(cache.read(0), expected(draw(0)))


def test_a_damaged_shard_is_named_and_made_again(data):
    cache, _, _ = opened(data)
    opened(data)  # now the shards' sha256 are known to be right
    before = shards(data)
    cut, flipped, _ = cache.files
    with cut.open("r+b") as file:
        file.truncate(100)
    content = bytearray(flipped.read_bytes())
    content[50] ^= 1
    flipped.write_bytes(content)
    with pytest.raises(UnreadableRowsError, match="was cut"):
        cache.read(1)
    cache, notes, decoded = opened(data)
    warnings = [note for note in notes if note.severity == "warning"]
    assert [warning.place for warning in warnings] == [str(cut.parent), str(flipped.parent)]
    assert decoded[-1] == (4, 4)
    np.testing.assert_array_equal(cache.read(2), expected(draw(2)))
    changed = {file for file, time in shards(data).items() if before[file] != time}
    assert changed == {cut, flipped}


def test_a_killed_command_leaves_whole_shards_and_the_next_one_makes_the_rest(data):
    child = os.fork()
    if child == 0:
        opened(data, progress=lambda done: os.kill(os.getpid(), signal.SIGKILL))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    assert len(shards(data)) == 1
    cache, _, decoded = opened(data)
    assert decoded == [(2, 4), (4, 4)]
    np.testing.assert_array_equal(cache.read(5), expected(draw(5)))


def test_a_changed_picture_is_decoded_again_with_its_shard(data):
    split = read_captioned(data).split("train")
    earlier = contents(split)
    opened(data)
    (data / "Flicker8k_Dataset" / TRAIN[3]).write_bytes(draw(9))
    error = refusal(cached_pictures, split, earlier, SIDE + 1, np.asarray, workers=0)
    assert "has changed" in str(error)
    assert TRAIN[3] in str(error)
    cache, _, decoded = opened(data)
    assert decoded == [(2, 2)]
    np.testing.assert_array_equal(cache.read(3), expected(draw(9)))


def test_a_full_disk_is_refused_with_the_space_needed(data, monkeypatch):
    usage = namedtuple("usage", "free")
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage(6 * 36 * SIDE * 3))
    error = str(refusal(opened, data))
    assert "1.56e-05 GB are free" in error
    assert "CODER_CACHE" in error
    assert shards(data) == {}


def test_pixels_are_changed_as_pictures_are():
    pixels = np.random.default_rng(0).integers(0, 256, (30, 41, 3), dtype=np.uint8)
    for flip in (False, True):
        change = Change(0.96, 0.3, 0.8, flip)
        picture = change_picture(Image.fromarray(pixels), change)
        np.testing.assert_array_equal(change_pixels(pixels, change), np.asarray(picture))


def test_the_flag_alone_asks_for_the_usual_size():
    def size(*flags):
        return read_arguments(flags, Config()).config.towers.cache_pictures

    assert size() == 0
    assert size("--cache-pictures") == size("--cache-pictures", "--epochs", "2") == -1
    assert size("--cache-pictures", "300") == size("--cache-pictures=300") == 300


def test_the_folder_of_a_cache_that_cannot_be_written_is_named(data, monkeypatch):
    (data / "file").write_text("")
    monkeypatch.setenv("CODER_CACHE", str(Path(data) / "file"))
    split = read_captioned(data).split("train")
    error = refusal(cached_pictures, split, contents(split), SIDE, np.asarray, workers=0)
    assert "CODER_CACHE" in str(error)
