"""Sample weights as the app reads them, of runs trained with them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from coder_core.api import InputError, Run, open_run
from coder_core.api.training import sample_weights
from coder_core.api.training.sample_weights import correlations, weight_table, weighting
from tests.support.weighted_runs import train_weighted

pytestmark = pytest.mark.usefixtures("own_threads")
WEIGHT, CODER = sample_weights.WEIGHT, sample_weights.CODER
DIVERSITY, DISCREPANCY = sample_weights.DIVERSITY, sample_weights.DISCREPANCY


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train_weighted(tmp_path_factory.mktemp("weights"))


@pytest.mark.parametrize(("modality", "column"), [("image", 0), ("text", 1)])
def test_every_pair_has_its_weight_and_its_measures(root: Path, modality: str, column: int) -> None:
    run = open_run(root / "combined")
    analysis, owner = run.analysis("dev"), run.image_of_text("dev")
    table = weight_table(run, "dev", modality)
    np.testing.assert_array_equal(table["image"], owner)
    assert list(correlations(table)) == [WEIGHT, DIVERSITY, DISCREPANCY, CODER]
    np.testing.assert_allclose(table[WEIGHT], analysis.array("sample_weight"))
    np.testing.assert_allclose(table[DIVERSITY], analysis.array("weight_diversity")[:, column])
    np.testing.assert_allclose(table[DISCREPANCY], analysis.array("weight_discrepancy")[:, column])
    spread = run.spread("dev", modality=modality)
    np.testing.assert_allclose(table[CODER], spread[owner] if modality == "image" else spread)


def test_larger_is_more_diverse_whatever_gamma_was(root: Path) -> None:
    run = open_run(root / "opposite")
    written = run.analysis("dev").array("weight_diversity")
    assert run.analysis("dev").document("weighting")["direction"] == 1
    np.testing.assert_allclose(weight_table(run, "dev", "text")[DIVERSITY], -written[:, 1])


def test_statistics_are_those_of_the_raw_scores(root: Path) -> None:
    run = open_run(root / "combined")
    found = weighting(run, "dev")
    assert (found.kind, found.neighbours) == ("combined", 4)
    for row in found.statistics.itertuples():
        raw = -np.asarray(run.analysis("dev").array(f"weight_{str(row.measure).lower()}"), dtype=np.float64)
        assert row.mean == pytest.approx(raw.mean(), rel=1e-4)
        assert row.std == pytest.approx(raw.std(), rel=1e-4)


def test_weights_without_neighbours_have_no_measures(root: Path) -> None:
    run = open_run(root / "hal")
    assert list(correlations(weight_table(run, "dev", "image"))) == [WEIGHT, CODER]
    assert weighting(run, "dev").statistics.empty


def test_a_run_without_weights_says_what_to_train(run: Run) -> None:
    with pytest.raises(InputError, match="--sample-weights"):
        weighting(run, "dev")
