"""Matrices of embeddings: what is converted is said."""

import numpy as np
import pytest

from coder_core.data.embeddings import open_matrix, read_unit_rows
from tests.support.precomp_folders import assert_refused


@pytest.mark.parametrize(("dtype", "note"), [("f2", "float16"), ("f8", "float64"), ("f4", "")])
def test_only_floats_of_another_size_are_noted_as_converted(tmp_path, dtype, note):
    np.save(tmp_path / "rows.npy", np.eye(3, dtype=dtype))
    faults = []
    assert open_matrix(tmp_path / "rows.npy", faults).shape == (3, 3)
    assert [(fault.severity, "converted to float32" in str(fault)) for fault in faults] == (
        [("note", True)] if note else []
    )
    assert all(note in str(fault) for fault in faults)
    np.save(tmp_path / "regions.npy", np.zeros((2, 3, 4), np.float32))
    assert_refused(r"shape \(2, 3, 4\)", open_matrix, tmp_path / "regions.npy", [])


def test_embeddings_that_point_one_way_are_named_as_collapsed(tmp_path):
    random = np.random.default_rng(0)
    for spread, collapsed in ((0.01, True), (1.0, False)):
        rows = np.eye(1, 8) + spread * random.normal(size=(30, 8))
        np.save(tmp_path / "rows.npy", rows.astype(np.float32))
        faults = []
        read_unit_rows(open_matrix(tmp_path / "rows.npy", faults), "images", faults)
        assert any("collapsed" in str(fault) for fault in faults) == collapsed
