"""Results beside a run: found again, recomputed when damaged, never shown when stale."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from coder_core import cluster, project
from coder_core.console.faults import InputError
from coder_core.console.progress import JobProgress, ProgressFile, read_progress
from coder_core.evaluation import EmbeddingPair, rank, score_tiles
from coder_core.evaluation.recall import metrics_from_ranks
from coder_core.geometry.settings import ClusterSettings, LayoutSettings
from coder_core.runs.analysis.read import open_analysis
from coder_core.runs.analysis.write import write_analysis
from coder_core.runs.derived import compute as deriving
from coder_core.runs.derived import store as derived
from coder_core.runs.derived.store import DerivedFolder
from tests.geometry.test_layout import cloud
from tests.support.run_folders import cut, flip

PCA = LayoutSettings("pca")


def analysed(root: Path, name: str, seed: int = 0, caption: str = "a scene") -> Path:
    points = cloud(12, seed=seed)
    owner = np.repeat(np.arange(12), 2)
    found = rank(score_tiles([EmbeddingPair(points.images, points.texts)], owner), best=5)
    write_analysis(
        root / name,
        "dev",
        image_embeddings=points.images,
        text_embeddings=points.texts,
        image_of_text=owner,
        captions=[f"{caption} {j}" for j in range(24)],
        image_names=[str(i) for i in range(12)],
        metrics=metrics_from_ranks(found),
        fingerprint="0" * 12,
        image_ranks=found.image_ranks,
        text_ranks=found.text_ranks,
        image_best=found.image_best,
        text_best=found.text_best,
    )
    return root / name


def folder_of(run: Path, other: Path | None = None) -> DerivedFolder:
    reference = open_analysis(other, "dev") if other else None
    return deriving.layout_folder(run, "dev", PCA, open_analysis(run, "dev"), reference)


def count_layouts(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    counted: list[int] = []
    real = deriving.lay_out

    def counting(points: object, *rest: object, **named: object) -> object:
        counted.append(1)
        return real(points, *rest, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(deriving, "lay_out", counting)
    return counted


def test_what_is_kept_is_not_computed_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = analysed(tmp_path, "a"), analysed(tmp_path, "b", seed=1)
    counted = count_layouts(monkeypatch)
    first = deriving.make_layouts([a], "dev", PCA)
    both = deriving.make_layouts([a, b], "dev", PCA)
    again = deriving.make_layouts([a, b], "dev", PCA)
    assert len(counted) == 2  # a alone, b beside a
    np.testing.assert_array_equal(both[0][1].plane, first[0][1].plane)
    np.testing.assert_array_equal(again[1][1].plane, both[1][1].plane)
    assert again[1][1].disparity == both[1][1].disparity is not None
    assert again[0][1].shares == first[0][1].shares is not None


def test_the_key_holds_both_runs_and_the_parameters(tmp_path: Path) -> None:
    a, b = analysed(tmp_path, "a"), analysed(tmp_path, "b", seed=1)
    c = analysed(tmp_path, "c", seed=2)
    folders = [folder_of(a), folder_of(b), folder_of(b, a), folder_of(b, c), folder_of(c, a)]
    umap = deriving.layout_folder(a, "dev", LayoutSettings("umap"), open_analysis(a, "dev"))
    wider = deriving.layout_folder(a, "dev", LayoutSettings("umap", neighbours=30), open_analysis(a, "dev"))
    k = [deriving.clusters_folder(a, "dev", ClusterSettings(n), open_analysis(a, "dev")) for n in (3, 4)]
    assert len({t.key for t in [*folders, umap, wider, *k]}) == 9
    other = deriving.layout_folder(a, "dev", LayoutSettings("umap", perplexity=5), open_analysis(a, "dev"))
    assert other.key == umap.key  # UMAP has no perplexity


@pytest.mark.parametrize("file", ["plane.npy", "manifest.json"])
@pytest.mark.parametrize("harm", [flip, cut, Path.unlink])
def test_a_damaged_result_is_named_and_computed_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str, harm: Callable[[Path], None]
) -> None:
    run = analysed(tmp_path, "a")
    place, layout = deriving.make_layouts([run], "dev", PCA)[0]
    harm(place.path / file)
    with pytest.raises(InputError, match=file):
        deriving.read_layout(place)
    counted = count_layouts(monkeypatch)
    _, mended = deriving.make_layouts([run], "dev", PCA)[0]
    assert len(counted) == 1
    np.testing.assert_array_equal(mended.plane, layout.plane)
    assert deriving.read_layout(place) is not None


def test_a_result_under_another_name_is_refused(tmp_path: Path) -> None:
    a, b = analysed(tmp_path, "a"), analysed(tmp_path, "b", seed=1)
    made, wanted = deriving.make_layouts([a], "dev", PCA)[0][0], folder_of(b)
    wanted.path.parent.mkdir(parents=True)
    made.path.rename(wanted.path)
    with pytest.raises(InputError, match="another result"):
        deriving.read_layout(wanted)


def test_a_new_analysis_leaves_nothing_stale(tmp_path: Path) -> None:
    run = analysed(tmp_path, "a")
    old = deriving.make_layouts([run], "dev", PCA)[0][0]
    kept = deriving.make_clusters(run, "dev", ClusterSettings(3))[0]
    assert old.path.exists()
    analysed(tmp_path, "a", seed=3)
    assert deriving.read_layout(folder_of(run)) is None
    (old.path.parent / "notes").mkdir()  # not ours
    new = deriving.make_layouts([run], "dev", PCA)[0][0]
    assert sorted(path.name for path in old.path.parent.iterdir()) == sorted([new.path.name, "notes"])
    assert not kept.path.exists()


def test_runs_on_other_samples_cannot_be_laid_over_each_other(tmp_path: Path) -> None:
    a, b = analysed(tmp_path, "a"), analysed(tmp_path, "b", caption="another")
    with pytest.raises(InputError, match="other samples than a"):
        deriving.make_layouts([a, b], "dev", PCA)


def test_a_split_cannot_lead_out_of_the_run(tmp_path: Path) -> None:
    run = analysed(tmp_path, "a")
    with pytest.raises(InputError, match="not a split's name"):
        derived.derived_folder(run, "../x", "layout", {}, [open_analysis(run, "dev")])


def test_the_commands_write_progress_and_say_where_it_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    a, b = analysed(tmp_path, "a"), analysed(tmp_path, "b", seed=1)
    file = tmp_path / "progress.json"
    assert project.main([str(a), str(b), "--method", "pca", "--progress", str(file)]) == 0
    assert read_progress(file) == JobProgress(1.0, "finished", "finished")
    said = capsys.readouterr().out
    assert str(folder_of(a).path) in said
    assert str(folder_of(b, a).path) in said
    assert "disparity" in said
    assert cluster.main([str(a), "--clusters", "3", "--progress", str(file)]) == 0
    assert "3 clusters of 24 pairs" in capsys.readouterr().out


def test_a_command_that_cannot_work_says_why_in_the_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, file = analysed(tmp_path, "a"), tmp_path / "progress.json"
    assert cluster.main([str(run), "--clusters", "99", "--progress", str(file)]) == 1
    progress = read_progress(file)
    assert progress is not None
    assert progress.state == "failed"
    assert "at most one for every pair" in progress.message
    assert project.main([str(run), str(run), str(run)]) == 1
    assert "one or two run folders" in capsys.readouterr().err
    assert project.main([str(tmp_path / "none"), "--method", "pca"]) == 1


def test_progress_is_replaced_seldom_and_read_whatever_it_holds(tmp_path: Path) -> None:
    file = tmp_path / "progress.json"
    assert read_progress(file) is None
    report = ProgressFile(file)
    report(1, 10, "one")
    report(2, 10, "one")
    assert read_progress(file) == JobProgress(0.1, "one")
    report(7, 1, "two")
    assert read_progress(file) == JobProgress(1.0, "two")
    for content in (
        "",
        "{",
        "[]",
        "null",
        '{"fraction": NaN, "phase": "", "state": "", "message": ""}',
        "[" * 99_999,
    ):
        file.write_text(content)
        assert read_progress(file) is None
    assert json.loads(json.dumps(JobProgress(0.5, "x").__dict__)) == {
        "fraction": 0.5,
        "phase": "x",
        "state": "running",
        "message": "",
    }
