"""`list_runs`, `open_run`, `compare` on run folders written by the project's own writers."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from coder_core.api import OUTCOMES, InputError, compare, config_differences, list_runs, open_run
from coder_core.api.diversity import negative_weights
from coder_core.api.retrieval.comparison import outcomes, rank_changes
from coder_core.runs.analysis.write import write_analysis
from tests.support.run_folders import damage, ranks_of, synthetic, write_run


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("lab") / "runs"
    write_run(root, "a-baseline", loss="btr-hardest", noise=3.0, images=30)
    write_run(root, "b", noise=1.5, images=30)
    write_run(root, "other", noise=1.5, images=12)
    damage(write_run(root, "torn", images=12))
    (root / ".training").mkdir()
    (root / "not a run").mkdir()
    return root


def test_runs_are_listed_by_name_and_a_damaged_one_names_its_fault(root: Path) -> None:
    runs = {run.name: run for run in list_runs(root)}
    assert list(runs) == ["a-baseline", "b", "other", "torn"]
    assert runs["b"].state == "finished"
    assert runs["b"].usable
    assert runs["b"].metrics["dev"]["rsum"] > 0
    assert "config.toml" in runs["torn"].fault
    assert not runs["torn"].usable
    assert list_runs(root / "nowhere") == []


@pytest.mark.parametrize("part", ["status.json", "analysis/dev/manifest.json"])
def test_every_damaged_small_file_is_a_listed_fault(tmp_path: Path, part: str) -> None:
    run = write_run(tmp_path / "runs", "x", images=12)
    (run / part).write_text("[" * 100_000)
    [summary] = list_runs(tmp_path / "runs")
    assert Path(part).name in summary.fault


def test_a_folder_that_is_no_split_is_a_fault_of_its_run(tmp_path: Path) -> None:
    for name in ("a", "b"):
        write_run(tmp_path / "runs", name, images=6, pictures=False)
    analyses = tmp_path / "runs" / "a" / "analysis"
    (analyses / "dev").rename(analyses / "![x](&#47;&#47;evil.example)")
    a, b = list_runs(tmp_path / "runs")
    assert a.splits == ()
    assert (
        "'![x](&#47;&#47;evil.example)' of a: is not a split's name; expected lower-case letters" in a.fault
    )
    assert b.usable


def test_a_cut_array_is_named_when_the_run_is_used(tmp_path: Path) -> None:
    run = write_run(tmp_path / "runs", "x", images=12)
    file = run / "analysis/dev/text_embeddings.npy"
    os.truncate(file, 500)
    with pytest.raises(InputError, match=r"text_embeddings\.npy"):
        open_run(run).diversity("dev")


def test_a_link_out_of_the_root_is_named_and_not_followed(tmp_path: Path) -> None:
    write_run(tmp_path / "elsewhere", "x", images=12)
    write_run(tmp_path / "runs", "b", images=12)
    (tmp_path / "runs" / "a").symlink_to("b")
    (tmp_path / "runs" / "gone").symlink_to(tmp_path / "nowhere")
    (tmp_path / "runs" / "x").symlink_to(tmp_path / "elsewhere" / "x")
    a, b, x = list_runs(tmp_path / "runs")
    assert (a.fault, b.fault) == ("", "")
    assert (x.name, x.state, x.usable, x.config, x.splits) == ("x", "left out", False, {}, ())
    assert (
        f"runs/x: is a link to {tmp_path / 'elsewhere' / 'x'}, and links are followed inside runs only."
        in x.fault
    )
    assert x.fault.endswith(f"CODER_CHECKPOINTS={tmp_path / 'elsewhere'}")


@pytest.mark.parametrize("split", ["../dev", "/etc", "test", ""])
def test_only_a_known_split_is_opened(root: Path, split: str) -> None:
    with pytest.raises(InputError, match="has no analysis of split"):
        open_run(root / "b").captions(split)


def test_search_finds_what_a_full_matrix_finds(root: Path) -> None:
    run = open_run(root / "b")
    v, w = run.embeddings("dev")
    owner = run.image_of_text("dev")
    scores = w @ v.T
    for number in (0, 7, 149):
        found = run.search(number, split="dev", modality="text", top=5)
        np.testing.assert_array_equal(found["candidate"], np.argsort(-scores[number])[:5])
        assert found["match"].tolist() == (found["candidate"] == owner[number]).tolist()
    found = run.search(3, split="dev", modality="image", top=150)
    assert found["match"].sum() == 5
    np.testing.assert_array_equal(np.sort(found["candidate"]), np.arange(150))
    with pytest.raises(InputError, match="0 to 149"):
        run.search(150, split="dev")


def test_similarity_is_the_block_asked_for(root: Path) -> None:
    run = open_run(root / "b")
    v, w = run.embeddings("dev")
    np.testing.assert_allclose(
        run.similarity([2, 0], [5, 9, 1], split="dev"), (v @ w.T)[[2, 0]][:, [5, 9, 1]], atol=1e-6
    )


def test_diversity_table_has_one_row_an_anchor(root: Path) -> None:
    run = open_run(root / "b")
    table = run.diversity("dev", modality="image", epsilon=0.2)
    image_ranks, _, _, _ = ranks_of(*synthetic(30, noise=1.5))
    np.testing.assert_array_equal(table["rank"], image_ranks + 1)
    np.testing.assert_allclose(table["raw"], 1 + np.exp(-0.2 / table["spread"]))
    assert table["diversity"].max() == 1.0
    entropy = run.diversity("dev", modality="text", function="entropy")
    std = run.diversity("dev", modality="text")
    assert np.corrcoef(entropy["spread"], std["spread"])[0, 1] < -0.5  # they rank in opposite order


@pytest.mark.parametrize("candidates", ["split", "batch"])
@pytest.mark.parametrize("modality", ["image", "text"])
def test_an_opened_anchor_agrees_with_the_table(root: Path, modality: str, candidates: str) -> None:
    run = open_run(root / "b")
    settings = {"modality": modality, "candidates": candidates, "batch_size": 8, "seed": 2}
    table = run.diversity("dev", **settings)  # type: ignore[arg-type]
    for number in (0, 11):
        anchor = run.anchor(number, split="dev", **settings)  # type: ignore[arg-type]
        assert anchor.diversity == table["diversity"][number]
        assert anchor.similarities.std() == pytest.approx(anchor.spread, abs=1e-6)
        assert anchor.temperature == pytest.approx(0.1 * anchor.diversity)
        assert len(anchor.positives) == (5 if modality == "image" else 1)
        assert not set(anchor.positive_rows.tolist()) & set(anchor.candidates.tolist())
        nearest = anchor.nearest(3)
        assert nearest["similarity"].tolist() == sorted(anchor.similarities.tolist(), reverse=True)[:3]


def test_small_diversity_gives_more_weight_above_gamma_and_less_below() -> None:
    for similarity, more in ((0.5, True), (0.1, False)):
        plain = negative_weights(np.array([similarity]), temperature=0.1, gamma=0.3)[0]
        scaled = negative_weights(np.array([similarity]), temperature=0.1 * 0.6, gamma=0.3)[0]
        assert bool(scaled > plain) is more


def test_weights_are_the_gradient_of_the_loss() -> None:
    """∂/∂S of μ·log(1 + Σ exp((S − γ)/μ)) is the weight."""
    similarities, mu, gamma = np.array([0.9, 0.3, -0.2]), 0.1, 0.3

    def loss(s: np.ndarray) -> float:
        return float(mu * np.log1p(np.exp((s - gamma) / mu).sum()))

    step = 1e-6
    slopes = [(loss(similarities + step * e) - loss(similarities - step * e)) / (2 * step) for e in np.eye(3)]
    np.testing.assert_allclose(negative_weights(similarities, temperature=mu, gamma=gamma), slopes, atol=1e-7)


def test_outcomes_by_hand() -> None:
    changes = rank_changes(
        {"i2t": np.array([0, 1, 5, 0]), "t2i": np.array([0])},
        {"i2t": np.array([0, 0, 9, 3]), "t2i": np.array([2])},
    )
    assert changes["outcome"].tolist() == ["both right", "fixed", "both wrong", "broken", "broken"]
    assert changes["change"].tolist() == [0, 1, -4, -3, -2]
    assert set(changes["outcome"]) <= set(OUTCOMES)
    assert outcomes(np.array([4]), np.array([5]), at=5).tolist() == ["broken"]


def test_an_image_without_captions_asks_nothing() -> None:
    changes = rank_changes(
        {"i2t": np.array([0, -1]), "t2i": np.array([0])}, {"i2t": np.array([2, -1]), "t2i": np.array([0])}
    )
    assert changes["query"].tolist() == [0, 0]


def test_compare_refuses_other_samples(root: Path) -> None:
    runs = [open_run(root / name) for name in ("a-baseline", "b", "other")]
    assert len(compare(runs[0], runs[1], "dev")) == 30 + 150
    with pytest.raises(InputError, match="holds other captions"):
        compare(runs[0], runs[2], "dev")


def test_differences_name_only_what_differs(root: Path) -> None:
    found = config_differences({run.name: run.config for run in list_runs(root)[:2]})
    assert found.index.tolist() == ["objective.loss"]
    assert found.loc["objective.loss"].tolist() == ["btr-hardest", "dcl"]


def test_differences_are_those_that_trained_otherwise() -> None:
    plain = {
        "objective": {"loss": "dcl"},
        "boosting": {"boosting_weight": 0.2},
    }  # of a version that knew little else
    today = {
        "objective": {"loss": "dcl", "margin": 0.2, "weight_mmd": 0.0},
        "data": {"reviews": ""},
        "name": "b",
    }
    assert config_differences(
        {"a": plain, "b": today}
    ).empty  # a weight of no boosting, and settings of today
    boosted = {**plain, "boosting": {"boosting": "rm", "boosting_weight": 0.2}}
    found = config_differences({"a": boosted, "b": today})
    assert found.loc["boosting.boosting"].tolist() == ["rm", "none"]
    assert found.loc["boosting.boosting_weight"].tolist() == ["0.2", "1"]
    unknown = {"objective": {"loss": "dcl", "of_tomorrow": 3}}
    assert config_differences({"a": unknown, "b": {}}).loc["objective.of_tomorrow"].tolist() == ["3", "—"]


def test_torch_is_not_imported(root: Path) -> None:
    """Everything but a free text works without torch, so that pages open fast."""
    program = (
        "import sys; from coder_core.api import *\n"
        f"a, b = open_run({str(root / 'a-baseline')!r}), open_run({str(root / 'b')!r})\n"
        "b.diversity('dev'); b.anchor(3, split='dev'); compare(a, b, 'dev'); b.search(3, split='dev')\n"
        "assert b.picture('dev', 0)\n"
        "assert b.history.epoch.max() == 3\n"
        "print('torch' in sys.modules)"
    )
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=Path.cwd()
    )
    assert result.stdout.strip() == "False"


def test_a_picture_name_that_leaves_the_folder_shows_nothing(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "runs", "x", images=12)
    a = open_run(folder).analysis("dev")
    unsafe = ["../x", "/etc/passwd", "0.png\0", "nothing.png"]
    names = (
        "image_embeddings",
        "text_embeddings",
        "image_of_text",
        "captions",
        "picture_folder",
        "image_ranks",
    )
    values = {name: getattr(a, name) for name in (*names, "text_ranks", "image_best", "text_best", "metrics")}
    write_analysis(folder, "dev", image_names=[*a.image_names[:8], *unsafe], fingerprint="1" * 12, **values)
    run = open_run(folder)
    assert run.picture("dev", 0, 64) is not None
    assert [run.picture("dev", image, 64) for image in range(8, 12)] == [None] * 4
