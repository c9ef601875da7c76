"""The analysis folder: written once, opened read-only, hostile content refused."""

import json
import os
import threading

import numpy as np
import pytest

from coder_core.console.faults import InputError
from coder_core.files import sealed
from coder_core.files.sealed import render_manifest
from coder_core.runs.analysis.read import open_analysis
from coder_core.runs.analysis.tables import list_splits
from tests.attack.bad_inputs import saved
from tests.runs.conftest import fill_analysis
from tests.support.precomp_folders import assert_refused
from tests.support.run_folders import reseal


def test_an_analysis_is_read_back(run):
    analysis = open_analysis(run, "test", verify=True)
    assert (analysis.image_embeddings.shape, analysis.image_embeddings.dtype) == ((3, 4), np.float32)
    assert (analysis.image_of_text.tolist(), analysis.image_best.dtype) == ([0, 0, 1, 2, 2], np.int32)
    assert analysis.captions == ["a ring", "a red ring", "äöü\u2028x", "", "stars"]
    assert (analysis.image_names, analysis.picture_folder) == (["0.png", "1.png", "2.png"], "")
    facts = (analysis.kind, analysis.split, analysis.fingerprint, analysis.metrics)
    assert facts == ("coder", "test", "abc", {"rsum": 321.5})
    fill_analysis(run, "dev", clusters=np.arange(4, dtype=np.uint8), documents={"k": [1]})
    written = open_analysis(run, "dev")
    assert (written.array("clusters").tolist(), written.document("k")) == ([0, 1, 2, 3], [1])
    assert_refused(r"has no concepts.npy", written.array, "concepts")
    assert not analysis.image_embeddings.flags.writeable


def test_large_arrays_are_mapped_and_cut_ones_refused(run, monkeypatch):
    expected = open_analysis(run, "test").text_embeddings
    monkeypatch.setattr(sealed, "MAPPED_BYTES", 0)
    rows = open_analysis(run, "test").text_embeddings
    assert (type(expected), type(rows)) == (np.ndarray, np.memmap)
    assert not rows.flags.writeable
    np.testing.assert_array_equal(rows, expected)
    file = run / "analysis" / "test" / "text_embeddings.npy"
    for size, problem in ((0, "has 0 bytes; expected 208 bytes"), (208, "is damaged")):
        os.truncate(file, size)
        assert_refused(rf"text_embeddings\.npy: {problem}", open_analysis, run, "test")


def test_readers_see_either_the_old_or_the_new_analysis(run):
    """The app holds the old arrays while evaluation writes new ones."""
    old = open_analysis(run, "test")
    before = np.array(old.image_embeddings)
    fill_analysis(run, value=1.0)
    assert np.array_equal(old.image_embeddings, before)
    assert np.allclose(open_analysis(run, "test", verify=True).image_embeddings, before + 1)
    assert [path.name for path in (run / "analysis").iterdir()] == ["test"]
    writer = threading.Thread(target=lambda: [fill_analysis(run, value=value) for value in range(1, 20)])
    writer.start()
    values = []
    while writer.is_alive():
        values.append(float(open_analysis(run, "test", verify=True).image_embeddings[0, 0]))
    last = float(open_analysis(run, "test", verify=True).image_embeddings[0, 0])
    assert [*values, last] == sorted([*values, last])
    assert last == pytest.approx(float(before[0, 0]) + 19)


def test_splits_are_listed_and_errors_say_how_to_make_others(run):
    (run / "analysis" / "half").mkdir()
    (run / "analysis" / ".tmp-x").mkdir()
    assert list_splits(run) == ["test"]
    assert list_splits(run / "nowhere") == []
    assert_refused(r"coder-lab evaluate", open_analysis, run, "dev")
    for split in ("../test", "", "Test", "a/b", ".tmp-1", "-x\n", "-x", "_x", "te st", "/etc", "![x](y)"):
        assert_refused("is not a split's name", open_analysis, run, split)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda m: m["arrays"]["image_ranks"].update(shape=[3, 1]), r"ranks.npy.*expected <i8 \(3, 1\)"),
        (lambda m: m["arrays"]["image_ranks"].update(dtype="|O"), r"image_ranks.npy: has dtype \|O"),
        (lambda m: m["arrays"].update({"../outside": m["arrays"]["image_ranks"]}), "names the table"),
        (lambda m: m["arrays"].update({"Ä": m["arrays"]["image_ranks"]}), "names the table"),
        (lambda m: m["arrays"].update({"more": m["arrays"]["image_ranks"]}), r"has no more\.npy"),
        (lambda m: m["arrays"].pop("text_ranks"), r"text_ranks\.npy: is missing"),
        (lambda m: m["files"].update({"../../config.toml": {"bytes": 9, "sha256": ""}}), r"manifest\.json"),
        (lambda m: m.update(version=5), "has version 5; expected version 1 or 2 or 3 or 4"),
        (lambda m: m.update(version=True), "has version True"),
        (lambda m: m.pop("metrics"), "lacks metrics"),
    ],
)
def test_an_invalid_manifest_with_a_valid_checksum_is_refused(run, change, message):
    """The changed manifest has the right checksum of itself."""
    path = run / "analysis" / "test" / "manifest.json"
    manifest = json.loads(path.read_text())
    change(manifest)
    path.write_bytes(render_manifest(manifest))
    assert_refused(message, open_analysis, run, "test")


def npy(header):
    """Return a `.npy` file with this header and one row of eight bytes."""
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode() + bytes(8)


def shaped(shape):
    return npy(f"{{'descr': '<i8', 'fortran_order': False, 'shape': ({shape},)}}\n")


CONTENTS = {
    "10^13 rows": (shaped("10000000000000"), "its header declares"),
    "16^9000 rows": (shaped(f"0x{'f' * 9000}"), r"has shape \[3\] and 9,075 bytes"),
    "nested parentheses": (npy("(" * 4000), "cannot be read"),
    "nested signs": (npy("{'descr': " + "-" * 4000 + "1}\n"), "cannot be read"),
    "npz": (saved(np.savez, np.zeros(3, np.int64)), "cannot be read"),
    "broken npz": (b"PK\x03\x04 no archive, in 25 bytes or more", "cannot be read"),
    "empty": (b"", r"has shape \[3\] and 0 bytes; expected 24 bytes and a header"),
    "sparse": (bytes(1 << 20), r"has shape \[3\] and 1,048,576 bytes"),
    "pickle": (saved(np.save, np.array([print, 1, 2], object)), r"cannot be read \(.* never unpickled\)"),
}


@pytest.mark.parametrize("name", CONTENTS)
def test_a_sealed_file_that_is_not_its_array_is_refused_in_one_error(run, name):
    content, message = CONTENTS[name]
    file = run / "analysis" / "test" / "image_ranks.npy"
    file.write_bytes(content)
    reseal(file.parent)
    with pytest.raises(InputError, match=rf"image_ranks\.npy: .*{message}") as refused:
        open_analysis(run, "test")
    assert len(refused.value.faults) == 1


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"image_of_text": np.zeros(2, int)}, r"image_of_text.npy: .* \(2,\); expected \(5,\)"),
        ({"weight_diversity": np.zeros((5, 3))}, r"weight_diversity.npy: .* \(5, 3\); expected \(5, 2\)"),
        ({"names": np.array(["a"])}, "only numbers"),
        ({"scores": np.zeros((3, 5)), "image_embeddings": np.zeros((3, 4))}, "either scores"),
        ({"a-b": np.zeros(1)}, "a table is named"),
    ],
)
def test_mismatched_arrays_are_not_written(run, changes, message):
    with pytest.raises(ValueError, match=message):
        fill_analysis(run, "dev", **changes)
    assert list_splits(run) == ["test"]


@pytest.mark.parametrize(
    ("name", "row", "value", "message"),
    [
        ("image_of_text", 4, 3, "contains 3; expected 0 to 2"),
        ("image_ranks", 1, -2, "contains -2; expected -1 to 4"),
        ("text_ranks", 2, 3, "contains 3; expected 0 to 2"),
        ("image_best", 2, 5, "contains 5; expected 0 to 4"),
        ("text_best", 0, -1, "contains -1; expected 0 to 2"),
        ("image_embeddings", 1, np.nan, "contains nan; expected finite numbers"),
        ("text_embeddings", 3, np.inf, "contains inf; expected finite numbers"),
    ],
)
def test_impossible_values_are_named_with_their_row(run, name, row, value, message):
    """Matching checksums, which an attacker can compute, do not make values valid."""
    file = run / "analysis" / "test" / f"{name}.npy"
    array = np.load(file)
    array[row] = value
    np.save(file, array)
    reseal(file.parent)
    assert_refused(rf"{name}\.npy row {row}: {message}", open_analysis, run, "test")
