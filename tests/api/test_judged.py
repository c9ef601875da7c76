"""Runs by the judgements of people, against numbers worked out by hand."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from coder_core.api import Run, open_run
from coder_core.api.retrieval import (
    OtherSplitError,
    judged_recall,
    judged_results,
    judged_values,
    judgement_files,
    run_judgements,
)
from coder_core.api.reviews import data_folder
from coder_core.runs.analysis.write import write_analysis
from tests.support.run_folders import ranks_of, write_run

LINES = "1.png#0\t0.png\n2.png#0\t0.png\nelsewhere.png#0\t0.png\n"


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Three images with a caption each. By score captions have the images 0 1 2, 0 1 2 and 1 0 2, images the captions
    1 0 2, 2 0 1 and 2 1 0."""
    folder = write_run(tmp_path / "runs", "three", images=3, pictures=False, per_image=1)
    v = np.eye(3, dtype=np.float32)
    w = np.array([[0.8, 0.6, 0.0], [0.94, 0.33, 0.1], [0.65, 0.7, 0.29]], np.float32)
    w /= np.linalg.norm(w, axis=1, keepdims=True)
    image_ranks, text_ranks, image_best, text_best = ranks_of(v, w, np.arange(3))
    write_analysis(
        folder,
        "dev",
        image_embeddings=v,
        text_embeddings=w,
        image_of_text=np.arange(3),
        captions=["a", "b", "c"],
        image_names=[f"{row}.png" for row in range(3)],
        metrics={},
        fingerprint="0" * 64,
        image_ranks=image_ranks,
        text_ranks=text_ranks,
        image_best=image_best.astype(np.int32),
        text_best=text_best.astype(np.int32),
    )
    (tmp_path / "positives.tsv").write_text(LINES)
    return open_run(folder)


def test_recall_by_the_labels_and_by_the_judgements(run: Run, tmp_path: Path) -> None:
    (tmp_path / "CrowdFlowerAnnotations.txt").write_text("2.png\t0.png#0\t0\t0\t3\n")
    assert [file.name for file in judgement_files(tmp_path)] == [
        "positives.tsv",
        "CrowdFlowerAnnotations.txt",
    ]
    judgements = run_judgements(run, "dev", tmp_path / "positives.tsv")
    assert judgements.fact == "2 positives beyond the labels, 1 line about other splits"
    values = judged_values(run, "dev", judgements)
    table = judged_recall(["three"], [values]).set_index("direction")
    expected = pd.DataFrame(
        [
            [1 / 3, 1, 1, 2 / 3, 1, 1, 2 / 3, 2 / 3],
            [1 / 3, 1, 1, 2 / 3, 1, 1, (1 + 1 + 1 / 4) / 3, (1 + 1 + 1 / 2) / 3],
        ],
        ["i2t", "t2i"],
        [*(f"{by}_{k}" for by in ("labels", "judged") for k in (1, 5, 10)), "map_at_r", "r_precision"],
    )
    pd.testing.assert_frame_equal(
        table[expected.columns], 100 * expected, check_names=False, check_dtype=False
    )
    assert table["queries"].tolist() == [3, 3]
    part = judged_recall(["three"], [values], {"i2t": np.array([0]), "t2i": np.array([2])}).set_index(
        "direction"
    )
    assert part.loc["t2i", ["queries", "labels_1", "judged_1", "map_at_r"]].tolist() == [1, 0, 0, 25]
    assert part.loc["i2t", ["queries", "labels_1", "judged_1", "map_at_r"]].tolist() == [1, 0, 100, 100]


def test_judged_results_are_those_that_no_label_names(run: Run, tmp_path: Path) -> None:
    judgements = run_judgements(run, "dev", tmp_path / "positives.tsv")
    expected = {(1, 0), (2, 0)}  # captions and images
    for direction in ("t2i", "i2t"):
        best = np.asarray(
            run.analysis("dev").text_best if direction == "t2i" else run.analysis("dev").image_best
        )
        judged = judged_results(run, "dev", direction, judgements)  # type: ignore[arg-type]
        pairs = {(int(query), int(best[query, place])) for query, place in np.argwhere(judged)}
        assert pairs == (expected if direction == "t2i" else {pair[::-1] for pair in expected})


def test_a_file_about_other_splits_is_no_damage_and_another_line_is(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "positives.tsv"
    file.write_text("elsewhere.png#0\t0.png\n")
    with pytest.raises(OtherSplitError):
        run_judgements(run, "dev", file)
    file.write_text(LINES + "1.png 0.png\n")
    with pytest.raises(ValueError, match=r"positives.tsv line 4: is .*1.png 0.png") as raised:
        run_judgements(run, "dev", file)
    assert not isinstance(raised.value, OtherSplitError)


def test_judgements_lie_in_the_data_folder_that_the_app_was_started_with(tmp_path: Path) -> None:
    root, data = tmp_path / "runs", tmp_path / "data" / "flickr8k"
    (data / "precomp").mkdir(parents=True)
    assert data_folder(str(data / "precomp"), [data], root) == data
    assert data_folder(str(data), [data], root) == data
    assert data_folder("demo", [data], root) == root
    assert data_folder(str(tmp_path), [data], root) == root  # nobody named it
