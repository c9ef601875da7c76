"""python -m benchmarks.efficiency: the timed code gives the results of the analysis; the figures are written."""

import csv

import numpy as np
import pytest

from benchmarks.efficiency import Searched, main
from coder_core.evaluation.scores import EVERY, check_scores
from coder_core.runs.analysis.read import open_analysis
from coder_core.training.launch import start_run
from tests.support.tiny_runs import quiet, tiny_config, write_tiny_data

RUNS = {"cosine": {}, "both": {"concepts": 6}, "several": {"embeddings": 2}}
RUNS |= {"interaction": {"scorer": "interaction"}}


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    base = tmp_path_factory.mktemp("efficiency")
    data = write_tiny_data(base / "data", images=30, captions=3)
    usual = {"loss": "infonce", "weight_instance": 1.0, "epochs": 1, "bank_size": 0}
    configs = [tiny_config(data, name, **usual | values) for name, values in RUNS.items()]
    return [start_run(config, base / "runs", quiet()) for config in configs]


def test_timed_answers_match_the_analysis(runs):
    for folder in runs:
        analysis = open_analysis(folder, "dev")
        best = Searched(folder, "dev").answer(analysis.captions).best.numpy()
        scores = check_scores(analysis.sources).exact(EVERY).numpy().T
        ordered = np.take_along_axis(scores, best, axis=1)
        expected = -np.sort(-scores, axis=1)
        np.testing.assert_allclose(ordered, expected[:, : best.shape[1]], atol=2e-3)  # float16 parts


def test_figure_and_csv_are_written(runs, tmp_path, capsys):
    assert main([*map(str, runs), f"--out={tmp_path / 'new'}", "--queries=6", "--rounds=2"]) == 0
    output = capsys.readouterr().out
    rows = list(csv.DictReader((tmp_path / "new" / "efficiency.csv").open(encoding="utf-8")))
    assert [row["run"] for row in rows] == list(RUNS)
    assert len({row["scored"] for row in rows}) == len(RUNS)
    assert float(rows[0]["slower"]) == 1
    for folder, row in zip(runs, rows, strict=True):
        analysis = open_analysis(folder, "dev")
        assert float(row["rsum"]) == pytest.approx(analysis.metrics["rsum"])
        pairs = float(row["queries"]) * len(analysis.image_names) / 1000
        assert float(row["pairs"]) == pytest.approx(pairs)
        assert pairs > 0
        assert row["run"] in output
    assert (tmp_path / "new" / "efficiency.html").is_file()


def test_runs_on_different_captions_are_refused(runs, tmp_path, complaint):
    data = write_tiny_data(tmp_path / "other", images=12, captions=2)
    other = start_run(tiny_config(data, "other", epochs=1), tmp_path / "runs", quiet())
    assert "other: " in complaint(main, [str(runs[0]), str(other), f"--out={tmp_path}"])
