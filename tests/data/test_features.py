"""Feature files: read or refused, and never unpickled."""

import os
import pickle
import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coder_core.data.dataset import read_split
from coder_core.data.features import LARGEST, open_features, scan_values
from tests.support.precomp_folders import features, places, reason, write_split

DTYPES = ("<f2", "<f4", "<f8", ">f2", ">f4", ">f8")
SHAPES = (b"(4000000000, 3000000000, 5)", b"(-4, 3, 5)", b"(4, 3, True)", b"(4, 3, 'x')", b"4")
HEADERS = (b"{" * 5000, b"[" * 9000 + b"]" * 9000, b"__import__('os')", b"\xff" * 100)
HEADERS += tuple(b"{'descr': '<f4', 'fortran_order': False, 'shape': " + shape + b", }\n" for shape in SHAPES)


class Evil:
    """Creates a file when it is unpickled."""

    def __init__(self, target):
        self.target = target

    def __reduce__(self):
        return (open, (str(self.target), "w"))


@pytest.mark.parametrize(
    ("array", "notes"),
    [
        *((features(dtype=dtype), int(dtype != "<f4")) for dtype in DTYPES),
        (np.asfortranarray(features()), 1),
        (features()[:, 0], 1),  # one vector per image
    ],
)
def test_floats_stay_memory_mapped_and_coercions_are_noted(tmp_path, array, notes):
    split = read_split(write_split(tmp_path, array=array), "train")
    assert isinstance(split.features, np.memmap)
    assert split.features.dtype == array.dtype
    np.testing.assert_array_equal(split.features, array)
    assert (split.n_images, split.regions, split.feature_size) == (4, 3 if array.ndim == 3 else 1, 5)
    assert [fault.severity for fault in split.faults] == ["note"] * notes
    assert not split.features.flags.writeable


TYPES = (np.int64, bool, np.complex64, str, np.longdouble, [("x", "f4")])
EMPTY_OR_ODD = ((4, 2, 3, 4), (), 4, (0, 3, 4), (4, 0, 4), (4, 3, 0))
OTHER = [features().astype(kind) for kind in TYPES]
OTHER += [np.zeros(shape, np.float32) for shape in EMPTY_OR_ODD]
OTHER += [b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + bytes(240) for text in HEADERS]
OTHER += [b"PK\x03\x04" + bytes(400), b"<html>404</html>", 0, 1, 7, 40, 200, -1]  # bytes that are kept


@pytest.mark.parametrize("other", OTHER, ids=range(len(OTHER)))
def test_invalid_feature_files_give_one_fault(tmp_path, other):
    path = write_split(tmp_path) / "train_ims.npy"
    whole = path.read_bytes()
    content = whole[:other] if isinstance(other, int) else other
    path.write_bytes(content) if isinstance(content, bytes) else np.save(path, content)
    assert places(tmp_path) == ["train_ims.npy"]
    message = reason(tmp_path)
    assert "allow_pickle" not in message
    if isinstance(other, int) and other in (200, -1):
        assert f"{len(content):,} bytes" in message
        assert f"{len(whole):,} bytes" in message


def test_objects_are_never_unpickled_and_pipes_do_not_block(tmp_path):
    path = write_split(tmp_path) / "train_ims.npy"
    mark = tmp_path / "ran"
    array = np.empty(4, dtype=object)
    array[:] = Evil(mark)
    np.save(path, array, allow_pickle=True)
    message = reason(tmp_path)
    path.write_bytes(pickle.dumps(Evil(mark)))
    message += reason(tmp_path)
    assert not mark.exists()
    assert "allow_pickle" not in message
    with path.open("wb") as file:
        np.savez(file, features())
    assert places(tmp_path) == ["train_ims.npy"]
    path.unlink()
    os.mkfifo(path)
    assert places(tmp_path) == ["train_ims.npy"]


@pytest.mark.parametrize("dtype", DTYPES)
def test_nonfinite_or_too_large_values_are_named(tmp_path, dtype):
    array = features(images=6, dtype=dtype)
    half = array.itemsize == 2  # whose largest value is far smaller
    array[1, 0, 0] = 1 if half else LARGEST
    assert read_split(write_split(tmp_path, array=array), "train").n_images == 6
    for bad in (np.nan, -np.nan, np.inf, -np.inf, *(() if half else (-LARGEST * 1.001,))):
        array[2, 1, 4] = array[5, 0, 0] = bad
        message = reason(write_split(tmp_path, array=array))
        assert "in 2 regions of 2 images" in message
        assert "(2, 1), (5, 0)" in message
        assert ("NaN or Inf" in message) == (not np.isfinite(bad))
        assert read_split(tmp_path, "train", check_values=False).n_images == 6


@pytest.mark.parametrize("zero", [0.0, -0.0])
def test_zero_regions_are_listed_and_a_zero_image_is_an_error(tmp_path, zero):
    array = features(images=4)
    array[1, 2] = array[3, 0] = zero
    split = read_split(write_split(tmp_path, array=array), "train")
    assert split.zero_regions.tolist() == [1 * 3 + 2, 3 * 3 + 0]
    (warning,) = split.faults
    assert (warning.severity, warning.found[:9]) == ("warning", "2 regions")
    array[2] = zero
    assert "the first, counted from 0: 2" in reason(write_split(tmp_path, array=array))


@settings(max_examples=25)
@given(data=st.data())
def test_the_scan_matches_a_loop_over_all_regions(tmp_path_factory, data):
    images = data.draw(st.integers(1, 9))
    regions = data.draw(st.integers(1, 4))
    array = features(images, regions, 2, data.draw(st.sampled_from(["<f2", "<f4", ">f4", "<f8"])))
    if data.draw(st.booleans()):
        array = np.asfortranarray(array)
    pairs = st.tuples(st.integers(0, images - 1), st.integers(0, regions - 1))
    for value in (np.nan, np.inf, 0.0):
        for row in data.draw(st.lists(pairs, max_size=3)):
            array[row] = value
    path = tmp_path_factory.mktemp("scan") / "x.npy"
    np.save(path, array)
    with pytest.MonkeyPatch.context() as patch:  # in one piece, or in pieces of some images
        patch.setattr("coder_core.data.features.SCAN_BYTES", data.draw(st.sampled_from([1 << 26, 100])))
        zero, faults = scan_values(open_features(path, []), (0, images))
    every = list(np.ndindex(images, regions))
    assert zero.tolist() == [[i, r] for i, r in every if not array[i, r].any()]
    bad = [row for row in every if not np.isfinite(array[row].astype(float)).all()]
    blank = sum(not image.any() for image in array)
    assert any(f"in {len(bad)} regions" in fault.found for fault in faults) == bool(bad)
    assert all(str(row) in faults[0].found for row in bad)
    assert any(f"{blank:,} images are zero" in fault.found for fault in faults) == (blank > 0)
