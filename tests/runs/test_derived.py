"""Results beside a run and neighbours in the cache: found again, recomputed when damaged, never shown when stale."""

from pathlib import Path

import numpy as np
import pytest

from coder_core import cluster, project
from coder_core.config.schema import Config
from coder_core.console.output import JobProgress, ProgressFile, read_progress, silent
from coder_core.data.dataset import read_split
from coder_core.geometry.settings import ClusterSettings, LayoutSettings
from coder_core.runs.analysis.read import open_analysis
from coder_core.runs.derived import compute as deriving
from coder_core.runs.derived.neighbours import train_neighbourhood
from coder_core.runs.derived.store import derived_folder
from tests.support.precomp_folders import assert_refused
from tests.support.run_folders import cut, flip, synthetic, write_embeddings
from tests.support.tiny_bert import write_tiny_bert
from tests.support.tiny_runs import WORDS, changed

PCA = LayoutSettings("pca")


def analysed(root, name, seed=0, caption="a scene"):
    captions = [f"{caption} {j}" for j in range(24)]
    write_embeddings(root / name, *synthetic(12, noise=1.0, seed=seed, per_image=2), captions=captions)
    return root / name


def folder_of(run, other=None):
    reference = open_analysis(other, "dev") if other else None
    return deriving.layout_folder(run, "dev", PCA, open_analysis(run, "dev"), reference)


@pytest.fixture
def counted(monkeypatch):
    """List with one item for every layout that is computed."""
    layouts = []
    lay_out = deriving.lay_out
    monkeypatch.setattr(deriving, "lay_out", lambda *a, **b: layouts.append(1) or lay_out(*a, **b))
    return layouts


def test_results_are_cached_by_both_runs_and_their_parameters(tmp_path, counted):
    a = analysed(tmp_path, "a")
    b = analysed(tmp_path, "b", seed=1)
    first = deriving.make_layouts([a], "dev", PCA)
    both = deriving.make_layouts([a, b], "dev", PCA)
    again = deriving.make_layouts([a, b], "dev", PCA)
    assert len(counted) == 2  # a alone, b beside a
    np.testing.assert_array_equal(both[0][1].plane, first[0][1].plane)
    np.testing.assert_array_equal(again[1][1].plane, both[1][1].plane)
    assert again[1][1].disparity == both[1][1].disparity is not None
    assert again[0][1].shares == first[0][1].shares is not None
    a, b, c = (analysed(tmp_path, name, seed=seed) for seed, name in enumerate("abc"))
    of_a = open_analysis(a, "dev")

    def umap(**settings):
        return deriving.layout_folder(a, "dev", LayoutSettings("umap", **settings), of_a)

    layouts = [folder_of(a), folder_of(b), folder_of(b, a), folder_of(b, c), folder_of(c, a)]
    clusters = [deriving.clusters_folder(a, "dev", ClusterSettings(n), of_a) for n in (3, 4)]
    assert len({folder.key for folder in [*layouts, *clusters, umap(), umap(neighbours=30)]}) == 9
    assert umap(perplexity=5).key == umap().key  # UMAP has no perplexity


@pytest.mark.parametrize("file", ["plane.npy", "manifest.json"])
def test_a_damaged_result_is_named_and_computed_again(tmp_path, counted, file):
    run = analysed(tmp_path, "a")
    folder, layout = deriving.make_layouts([run], "dev", PCA)[0]
    for number, harm in enumerate((flip, cut, Path.unlink), 2):
        harm(folder.path / file)
        assert_refused(file, deriving.read_layout, folder)
        _, repaired = deriving.make_layouts([run], "dev", PCA)[0]
        assert len(counted) == number
        np.testing.assert_array_equal(repaired.plane, layout.plane)
        assert deriving.read_layout(folder) is not None


def test_results_under_another_name_and_runs_on_other_samples_are_refused(tmp_path):
    a = analysed(tmp_path, "a")
    b = analysed(tmp_path, "b", seed=1)
    c = analysed(tmp_path, "c", caption="another")
    made = deriving.make_layouts([a], "dev", PCA)[0][0]
    other = folder_of(b)
    other.path.parent.mkdir(parents=True)
    made.path.rename(other.path)
    assert_refused("do not match its name", deriving.read_layout, other)
    assert_refused("other samples than a", deriving.make_layouts, [a, c], "dev", PCA)
    arguments = ("layout", {}, [open_analysis(a, "dev")])
    assert_refused("not a split's name", derived_folder, a, "../x", *arguments)  # a path out of the run


def test_a_new_analysis_removes_stale_results(tmp_path):
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


def test_commands_write_progress_and_invalid_progress_files_are_ignored(tmp_path, capsys):
    a = analysed(tmp_path, "a")
    b = analysed(tmp_path, "b", seed=1)
    file = tmp_path / "progress.json"
    assert project.main([str(a), str(b), "--method", "pca", "--progress", str(file)]) == 0
    assert read_progress(file) == JobProgress(1.0, "finished", "finished")
    printed = capsys.readouterr().out
    assert all(str(folder.path) in printed for folder in (folder_of(a), folder_of(b, a)))
    assert cluster.main([str(a), "--clusters", "3", "--progress", str(file)]) == 0
    assert "3 clusters of 24 pairs" in capsys.readouterr().out
    assert cluster.main([str(a), "--clusters", "99", "--progress", str(file)]) == 1
    failed = read_progress(file)
    assert failed.state == "failed"
    assert failed.message in capsys.readouterr().err
    assert project.main([str(a), str(a), str(a)]) == 1
    assert project.main([str(tmp_path / "none"), "--method", "pca"]) == 1
    # the progress file is rarely replaced
    file = tmp_path / "seldom.json"
    assert read_progress(file) is None
    report = ProgressFile(file)
    report(1, 10, "one")
    report(2, 10, "one")
    assert read_progress(file) == JobProgress(0.1, "one")
    report(7, 1, "two")
    assert read_progress(file) == JobProgress(1.0, "two")
    no_number = '{"fraction": NaN, "phase": "", "state": "", "message": ""}'
    for content in ("", "{", "[]", "null", no_number, "[" * 99_999):
        file.write_text(content)
        assert read_progress(file) is None


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("CODER_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "neighbours"


def neighbourhood(data, *, captions=None, progress=silent, **values):
    usual = {"sample_weights": "diversity", "neighbours": 4, "text_space_size": 8}
    config = changed(Config(), **usual | values)
    split = read_split(data, "train")
    return train_neighbourhood(config, captions or split.captions, split.image_of_text, progress=progress)


def test_other_captions_counts_or_spaces_start_another_search(data, cache, tmp_path):
    model = write_tiny_bert(tmp_path / "model", WORDS)
    split = read_split(data, "train")
    neighbourhood(data)
    neighbourhood(data, neighbours=5, neighbours_of_neighbours=0)
    neighbourhood(data, text_space_size=6)
    neighbourhood(data, text_space=str(model))
    neighbourhood(data, captions=[*split.captions[:-1], "another star"])
    assert len(list(cache.iterdir())) == 5
    neighbourhood(data, sample_weights="combined", diversity_share=2.0, seed=7)
    assert len(list(cache.iterdir())) == 5  # settings that do not affect the neighbours start no search


def test_interrupted_searches_leave_nothing_and_finished_ones_are_cached(data, cache):
    def interrupt(done, total, what=""):
        if what == "finding semantic neighbours":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        neighbourhood(data, progress=interrupt)
    assert not cache.exists() or not list(cache.iterdir())
    phases = []
    first = neighbourhood(data, progress=lambda done, total, phase: phases.append(phase))
    assert len(set(phases)) == 3
    second = neighbourhood(data, progress=lambda *_: pytest.fail("it is searched again"))
    assert np.array_equal(first.neighbours, second.neighbours)
    assert first.neighbours.shape == (40, 4)
    assert first.about(Config()) == second.about(Config())
    (folder,) = cache.iterdir()
    stored = (folder / "neighbours.npy").read_bytes()  # damaged, they are searched again and replaced
    (folder / "neighbours.npy").write_bytes(stored[:-3] + b"\xff\xff\xff")
    assert np.array_equal(neighbourhood(data).neighbours, first.neighbours)
    assert (folder / "neighbours.npy").read_bytes() == stored
