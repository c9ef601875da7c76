"""μ and γ from a run's own similarities, against quantiles of the whole matrix."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from coder_core.api import Loss, open_run
from coder_core.api.similarity import values_from_similarities
from tests.support.clip_runs import CAPTIONS_PER_IMAGE, import_clip


def test_gamma_lies_between_negatives_and_positives_and_mu_is_a_third_of_their_distance(
    tmp_path: Path,
) -> None:
    run = open_run(import_clip(tmp_path / "runs", "clip", images=24))
    v, w = run.embeddings("dev")
    own = np.arange(24)[:, None] == np.repeat(np.arange(24), CAPTIONS_PER_IMAGE)
    scores = np.asarray(v, np.float64) @ np.asarray(w, np.float64).T
    middle, top = np.quantile(scores[~own], [0.5, 0.99])
    positive = np.median(scores[own])
    values = values_from_similarities(run, "dev")
    assert (values.negatives, values.negatives_top, values.positives) == pytest.approx(
        (middle, top, positive), abs=1e-6
    )
    assert values.loss.gamma == pytest.approx((top + positive) / 2, abs=0.0025)
    assert values.loss.temperature == pytest.approx((positive - middle) / 3, abs=0.0025)
    assert values.loss.gamma < 0.1 < Loss().gamma
    drawn = values_from_similarities(run, "dev", pairs=1000)
    assert drawn.negatives == pytest.approx(middle, abs=0.02)


def test_without_negatives_the_values_are_those_of_the_paper(tmp_path: Path) -> None:
    values = values_from_similarities(open_run(import_clip(tmp_path / "runs", "clip", images=1)), "dev")
    assert values.loss == Loss()
    assert np.isnan(values.negatives)
