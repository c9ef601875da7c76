"""Feature files: what is read, what is refused, and never by unpickling."""

import contextlib
import io
import os
import pickle
import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coder_core.console.faults import InputError
from coder_core.data.dataset import read_split
from coder_core.data.features import LARGEST, open_features, scan_values
from tests.support.precomp_folders import features, refusal, write_split

SHAPES = (b"(4000000000, 3000000000, 5)", b"(-4, 3, 5)", b"(4, 3, True)", b"(4, 3, 'x')", b"4")


class Evil:
    """Creates a file when it is unpickled."""

    def __init__(self, target):
        self.target = target

    def __reduce__(self):
        return (open, (str(self.target), "w"))


@pytest.mark.parametrize("dtype", ["<f2", "<f4", "<f8", ">f2", ">f4", ">f8"])
def test_float_types_stay_memory_mapped_and_coercions_are_noted(tmp_path, dtype):
    array = features(dtype=dtype)
    split = read_split(write_split(tmp_path, array=array), "train")
    assert isinstance(split.features, np.memmap)
    assert split.features.dtype == np.dtype(dtype)
    np.testing.assert_array_equal(split.features, array)
    assert bool(split.faults) == (dtype != "<f4")
    assert not split.features.flags.writeable


@pytest.mark.parametrize(
    ("array", "regions", "note"),
    [(np.asfortranarray(features()), 3, "Fortran"), (features()[:, 0], 1, "read as one region")],
)
def test_fortran_order_and_one_vector_an_image_are_read_with_a_note(tmp_path, array, regions, note):
    split = read_split(write_split(tmp_path, array=array), "train")
    np.testing.assert_array_equal(split.features, array)
    assert (split.n_images, split.regions, split.feature_size) == (4, regions, 5)
    assert any(note in fault.found for fault in split.faults)


@pytest.mark.parametrize(
    "array",
    [
        features().astype(np.int64),
        features().astype(bool),
        features().astype(np.complex64),
        features().astype(str),
        features().astype(np.longdouble),
        np.zeros(4, dtype=[("x", "f4")]),
        np.zeros((4, 2, 3, 4), np.float32),
        np.float32(3),
        np.zeros(4, np.float32),
        np.zeros((0, 3, 4), np.float32),
        np.zeros((4, 0, 4), np.float32),
        np.zeros((4, 3, 0), np.float32),
    ],
    ids=lambda array: f"{array.dtype}{array.shape}",
)
def test_other_types_and_shapes_are_refused(tmp_path, array):
    write_split(tmp_path)
    np.save(tmp_path / "train_ims.npy", array)
    error = refusal(read_split, tmp_path, "train")
    assert "train_ims.npy" in error.faults[0].place
    assert "allow_pickle" not in str(error)


def test_objects_are_never_unpickled(tmp_path):
    write_split(tmp_path)
    mark = tmp_path / "ran"
    array = np.empty(4, dtype=object)
    array[:] = Evil(mark)
    np.save(tmp_path / "train_ims.npy", array, allow_pickle=True)
    message = str(refusal(read_split, tmp_path, "train"))
    (tmp_path / "train_ims.npy").write_bytes(pickle.dumps(Evil(mark)))
    message += str(refusal(read_split, tmp_path, "train"))
    assert not mark.exists()
    assert "never opened" in message
    assert "allow_pickle" not in message


@pytest.mark.parametrize("kept", [0, 1, 7, 40, 200, -1])
def test_a_cut_file_gives_both_sizes(tmp_path, kept):
    write_split(tmp_path)
    path = tmp_path / "train_ims.npy"
    data = path.read_bytes()
    path.write_bytes(data[:kept])
    message = str(refusal(read_split, tmp_path, "train"))
    if kept in (200, -1):
        assert f"{len(data[:kept]):,} bytes" in message
        assert f"{len(data):,} bytes" in message


def header(text):
    """A .npy file of 240 zeros under this header."""
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + bytes(240)


def zipped():
    buffer = io.BytesIO()
    np.savez(buffer, features=features())
    return buffer.getvalue()


@pytest.mark.parametrize(
    "content",
    [
        zipped(),
        b"<html>404</html>",
        *(
            header(b"{'descr': '<f4', 'fortran_order': False, 'shape': " + shape + b", }\n")
            for shape in SHAPES
        ),
        *(
            header(text)
            for text in (b"{" * 5000, b"[" * 9000 + b"]" * 9000, b"__import__('os')", b"\xff" * 100)
        ),
    ],
    ids=range(2 + len(SHAPES) + 4),
)
def test_other_files_and_headers_that_lie_are_one_fault_and_allocate_nothing(tmp_path, content):
    write_split(tmp_path)
    (tmp_path / "train_ims.npy").write_bytes(content)
    (fault,) = refusal(read_split, tmp_path, "train").faults
    assert fault.place == str(tmp_path / "train_ims.npy")


@settings(max_examples=60, deadline=None)
@given(position=st.integers(0, 127), value=st.integers(0, 255))
def test_any_changed_header_byte_is_read_or_refused(tmp_path_factory, position, value):
    folder = tmp_path_factory.mktemp("header")
    write_split(folder)
    path = folder / "train_ims.npy"
    data = bytearray(path.read_bytes())
    data[position] = value
    path.write_bytes(data)
    with contextlib.suppress(InputError):
        file = open_features(path, [])
        assert file.map().nbytes + file.offset == len(data)


def test_pipes_and_folders_are_refused_at_once(tmp_path):
    write_split(tmp_path)
    path = tmp_path / "train_ims.npy"
    path.unlink()
    os.mkfifo(path)
    assert "not a plain file" in str(refusal(read_split, tmp_path, "train"))
    path.unlink()
    path.mkdir()
    assert "not a plain file" in str(refusal(read_split, tmp_path, "train"))


@pytest.mark.parametrize("dtype", ["<f2", "<f4", "<f8", ">f4"])
@pytest.mark.parametrize("bad", [np.nan, -np.nan, np.inf, -np.inf])
def test_values_that_are_not_finite_are_named(tmp_path, dtype, bad):
    array = features(images=6, dtype=dtype)
    array[2, 1, 4] = bad
    array[5, 0, 0] = bad
    write_split(tmp_path, array=array)
    message = str(refusal(read_split, tmp_path, "train"))
    assert "NaN or Inf in 2 regions of 2 images" in message
    assert "(2, 1), (5, 0)" in message
    assert read_split(tmp_path, "train", check_values=False).n_images == 6


@pytest.mark.parametrize("dtype", ["<f4", "<f8", ">f8"])
def test_values_whose_squares_overflow_float32_are_named(tmp_path, dtype):
    array = features(images=6, dtype=dtype)
    array[1, 0, 0] = LARGEST
    write_split(tmp_path, array=array)
    assert read_split(tmp_path, "train").n_images == 6
    array[2, 1, 4], array[5, 0, 0] = -LARGEST * 1.001, 3e38 if dtype == "<f4" else 1e300
    write_split(tmp_path, array=array)
    message = str(refusal(read_split, tmp_path, "train"))
    assert "numbers too large to train on in 2 regions of 2 images" in message
    assert "(2, 1), (5, 0)" in message


@pytest.mark.parametrize("zero", [0.0, -0.0])
def test_zero_regions_are_listed_and_a_zero_image_is_an_error(tmp_path, zero):
    array = features(images=4)
    array[1, 2] = zero
    array[3, 0] = zero
    split = read_split(write_split(tmp_path, array=array), "train")
    assert split.zero_regions.tolist() == [1 * 3 + 2, 3 * 3 + 0]
    (warning,) = split.faults
    assert warning.severity == "warning"
    assert "2 regions are all zero" in warning.found
    array[2] = zero
    message = str(refusal(read_split, write_split(tmp_path, array=array), "train"))
    assert "1 images are zero in all their features; the first, counted from 0: 2" in message


@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_the_scan_agrees_with_a_loop_over_all_regions(tmp_path_factory, data):
    images, regions = data.draw(st.integers(1, 9)), data.draw(st.integers(1, 4))
    array = features(images, regions, 2, data.draw(st.sampled_from(["<f2", "<f4", ">f4", "<f8"])))
    if data.draw(st.booleans()):
        array = np.asfortranarray(array)
    for value in (np.nan, np.inf, 0.0):
        for row in data.draw(
            st.lists(st.tuples(st.integers(0, images - 1), st.integers(0, regions - 1)), max_size=3)
        ):
            array[row] = value
    path = tmp_path_factory.mktemp("scan") / "x.npy"
    np.save(path, array)
    zero, faults = scan_values(open_features(path, []), (0, images))
    every = [(i, r) for i in range(images) for r in range(regions)]
    assert zero.tolist() == [[i, r] for i, r in every if not array[i, r].any()]
    bad = sum(not np.isfinite(array[i, r].astype(float)).all() for i, r in every)
    blank = sum(not array[i].any() for i in range(images))
    assert any(f"in {bad:,} regions" in fault.found for fault in faults) == (bad > 0)
    assert any(f"{blank:,} images are zero" in fault.found for fault in faults) == (blank > 0)


def test_the_scan_crosses_pieces(tmp_path, monkeypatch):
    monkeypatch.setattr("coder_core.data.features.SCAN_BYTES", 100)
    array = features(images=50)
    array[49, 2, 0] = np.nan
    array[17, 1] = 0
    write_split(tmp_path, array=array)
    zero, faults = scan_values(open_features(tmp_path / "train_ims.npy", []), (0, 50))
    assert zero.tolist() == [[17, 1]]
    assert "(49, 2)" in faults[0].found
