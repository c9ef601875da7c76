"""coder-lab embed import: any model's embeddings become a run; errors in them are named."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from coder_core.api import compare, facts, list_runs, open_run
from coder_core.data.embeddings import ONCE_PER_IMAGE, read_embeddings
from coder_core.embed import main
from coder_core.evaluate import main as evaluate
from coder_core.evaluation import ranking, sampled
from coder_core.evaluation.sampled import RankOptions
from coder_core.files.sealed import SealedFolder, render_manifest, write_sealed
from coder_core.runs.analysis import evaluate as analysis_evaluate
from coder_core.runs.analysis import unfinished_ranks
from coder_core.runs.analysis.import_embeddings import rank_imported
from coder_core.runs.analysis.read import open_analysis
from coder_core.runs.analysis.rows import embedded_row
from coder_core.runs.derived.store import derived_folder
from tests.support.picture_folders import write_lines
from tests.support.precomp_folders import assert_refused, refusal
from tests.support.run_folders import (
    draw_pictures,
    overwritten,
    ranks_of,
    recalls,
    reseal,
    synthetic,
    write_run,
)

IMAGES = 12


@pytest.fixture
def files(tmp_path):
    """Twelve images with five captions each, rows of any length, and pictures named by the ids."""
    folder = tmp_path / "clip"
    folder.mkdir()
    v, w, owner = synthetic(IMAGES, noise=1.0)
    np.save(folder / "i.npy", v * 3.0)
    np.save(folder / "t.npy", w.astype(np.float16))
    write_lines(folder / "c.txt", (f"scene {i}, way {k}" for k, i in enumerate(owner)))
    write_lines(folder / "ids.txt", draw_pictures(folder / "pictures", IMAGES))
    return folder


@pytest.fixture
def runs(files):
    return files.parent / "runs"


def run_import(folder, *more, name="clip"):
    files = [f"--images={folder}/i.npy", f"--texts={folder}/t.npy", f"--captions={folder}/c.txt"]
    return main(["import", *files, f"--name={name}", f"--root={folder.parent / 'runs'}", *more])


def with_pictures(folder):
    return [f"--ids={folder / 'ids.txt'}", f"--pictures={folder / 'pictures'}"]


def refused(folder, capsys, *more):
    """Return the message with which the files are refused; check that nothing is left behind."""
    assert run_import(folder, *more) == 1
    assert not list((folder.parent / "runs").glob("*"))
    return capsys.readouterr().err


def contents(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_imported_embeddings_become_a_run_ranked_by_cosine(files, runs, capsys):
    assert run_import(files, *with_pictures(files)) == 0
    printed = capsys.readouterr().out
    assert all(text in printed for text in ("R@sum", "float16", "length 3 to 3"))
    analysis = open_analysis(runs / "clip", "dev", verify=True)
    assert analysis.kind == "embeddings"
    v = analysis.image_embeddings
    w = analysis.text_embeddings
    for rows in (v, w):
        np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1.0, atol=1e-6)
    owner = np.repeat(np.arange(IMAGES), 5)
    image_ranks, text_ranks, image_best, _ = ranks_of(v.astype(np.float64), w.astype(np.float64), owner)
    for name, table in (("image_ranks", image_ranks), ("text_ranks", text_ranks), ("image_best", image_best)):
        np.testing.assert_array_equal(analysis.array(name), table)
    expected = recalls(image_ranks, text_ranks)
    assert {name: analysis.metrics[name] for name in expected} == pytest.approx(expected)
    assert analysis.image_names[3] == "3.png"
    assert Path(analysis.picture_folder) == files / "pictures"


def assert_same_analysis(one, other):
    assert one.metrics == other.metrics
    assert one.arrays == other.arrays
    for name in other.arrays:
        assert np.array_equal(one.array(name), other.array(name)), name
    assert one.document("images") == other.document("images")
    assert one.manifest["fingerprint"] == other.manifest["fingerprint"]


def test_of_a_large_split_a_sample_of_the_queries_is_ranked(files, runs, monkeypatch, capsys):
    assert run_import(files, *with_pictures(files), name="whole") == 0
    monkeypatch.setattr(sampled, "RANKED_PAIRS", IMAGES * IMAGES * 5 - 1)
    monkeypatch.setattr(sampled, "SAMPLED", 7)
    capsys.readouterr()
    assert run_import(files, *with_pictures(files)) == 0
    printed = capsys.readouterr().out
    words = "sampled 7 of 12 images and 7 of 60 captions"
    assert printed.count(words) == 2
    assert "text→image R@1" in printed
    large = open_analysis(runs / "clip", "dev")
    whole = open_analysis(runs / "whole", "dev")
    queries = large.ranked_queries
    for side, rows in (("image", queries.images), ("text", queries.texts)):
        for table in ("ranks", "best"):
            of_whole = whole.array(f"{side}_{table}")
            np.testing.assert_array_equal(large.array(f"{side}_{table}")[rows], of_whole[rows])
    assert large.metrics["md"] == whole.metrics["md"]  # of all pairs
    assert large.metrics["i2t_r1"] == 100 * np.mean(whole.image_ranks[queries.images] < 1)
    for name in ("mrr", "ndcg10"):
        assert embedded_row(runs / "clip", "dev").metrics[f"t2i_{name}"] == large.metrics[f"t2i_{name}"]

    assert evaluate([str(runs / "clip")]) == 0  # keeps the sample
    assert words in capsys.readouterr().out
    listed = files / "run.trec"
    assert evaluate([str(runs / "clip"), "--ways", "3", "--run-out", str(listed)]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert f"run.trec: contains only the ranked queries ({words}). Add --rank all" in printed
    assert f"c-way accuracy · mean of 10 draws ± 95% · seed 0 · {words}" in printed
    ids = [*(f"{image}.png" for image in queries.images), *(f"{t // 5}.png#{t % 5}" for t in queries.texts)]
    assert {line.split()[0] for line in listed.read_text().splitlines()} == set(ids)
    of_sample = {kind: derived_folder(runs / "clip", "dev", kind, {}, [large]) for kind in ("hubs", "layout")}
    assert evaluate([str(runs / "clip"), "--rank", "all"]) == 0
    assert "sampled" not in capsys.readouterr().out
    ranked = open_analysis(runs / "clip", "dev")
    assert_same_analysis(ranked, whole)
    of_all = {kind: derived_folder(runs / "clip", "dev", kind, {}, [ranked]) for kind in of_sample}
    assert of_sample["layout"] == of_all["layout"]
    assert of_sample["hubs"].key != of_all["hubs"].key  # a result about the sample is not shown for all


def test_sampled_queries_that_have_no_results_are_refused(files, runs):
    assert run_import(files, "--rank=3") == 0
    folder = runs / "clip" / "analysis" / "dev"
    kept = np.load(folder / "image_queries.npy")
    for changed in (kept[::-1], (kept + 1) % IMAGES):
        np.save(folder / "image_queries.npy", np.ascontiguousarray(changed))
        reseal(folder)
        assert "image_queries.npy" in str(refusal(open_analysis, runs / "clip", "dev"))


class StoppedError(Exception):
    """A killed process."""


def test_an_interrupted_ranking_of_all_queries_continues(files, runs, monkeypatch):
    monkeypatch.setattr(ranking, "QUERIES_AT_ONCE", 10)
    monkeypatch.setattr(unfinished_ranks, "QUERIES_AT_ONCE", 10)
    assert run_import(files, *with_pictures(files), name="whole") == 0
    assert run_import(files, *with_pictures(files), "--rank=0") == 0
    monkeypatch.setattr(analysis_evaluate, "RANKED_PAIRS", 1)
    done = []

    def stop(now, total, phase=""):
        done.append(now)
        if now > 30:
            raise StoppedError

    with pytest.raises(StoppedError):
        rank_imported(runs / "clip", "dev", RankOptions("all"), stop)
    [unfinished] = (runs / ".unfinished").iterdir()
    assert sorted(part.name for part in unfinished.iterdir()) == ["i2t-0", "i2t-1", "t2i-0"]
    assert open_analysis(runs / "clip", "dev").metrics == {}
    rank_imported(runs / "clip", "dev", RankOptions("all"), lambda now, *_: done.append(now))
    assert done == sorted(done)  # nothing finished is ranked again, and the progress counts on
    assert done[-1] == IMAGES * 6
    assert not (runs / ".unfinished").exists()
    assert_same_analysis(open_analysis(runs / "clip", "dev"), open_analysis(runs / "whole", "dev"))


def test_a_split_that_an_earlier_version_left_unranked_is_ranked_by_evaluate(files, runs):
    assert run_import(files, *with_pictures(files), name="whole") == 0
    assert run_import(files, *with_pictures(files)) == 0
    whole = open_analysis(runs / "whole", "dev")
    images = whole.document("images")
    samples = {"captions": whole.captions, "image_names": images["names"], "picture_folder": images["folder"]}
    samples |= {"fingerprint": whole.fingerprint, "source": whole.manifest["source"]}
    names = ("image_embeddings", "text_embeddings", "image_of_text")
    parts = {f"{name}.npy": np.asarray(whole.array(name)) for name in names}
    parts |= {"samples.json": json.dumps(samples), "imported.json": json.dumps(whole.document("imported"))}
    shutil.rmtree(runs / "clip" / "analysis")
    write_sealed(runs / "clip" / "unranked" / "dev", parts, about={"kind": "embeddings"})
    assert "coder-lab evaluate" in str(refusal(open_run, runs / "clip"))
    assert evaluate([str(runs / "clip")]) == 0
    assert not list((runs / "clip" / "unranked").iterdir())
    assert_same_analysis(open_analysis(runs / "clip", "dev"), whole)


def test_the_api_opens_an_imported_run(files, runs):
    run_import(files, *with_pictures(files))
    run_import(files, name="again")
    summary = {run.name: run for run in list_runs(runs)}["clip"]
    assert summary.usable
    assert (summary.state, summary.imported) == ("imported", True)
    assert (summary.fault, dict(summary.config)) == ("", {})
    shown = facts(summary)
    assert {"loss": "imported", "data": "c.txt", "dimension": 32, "epochs": None}.items() <= shown.items()
    assert shown["created"].startswith("20")
    run = open_run(runs / "clip")
    assert run.history.empty
    assert not run.loss.trained
    assert len(run.diversity("dev")) == 5 * IMAGES
    assert run.anchor(3, split="dev").nearest(2)["similarity"].is_monotonic_decreasing
    assert run.picture("dev", 0)
    assert (compare(run, open_run(runs / "again"), "dev")["change"] == 0).all()
    refusal(run.search, "a red ring", split="dev")


def test_damaged_files_of_an_imported_run_are_named(files, runs):
    run_import(files)
    folder = runs / "clip" / "analysis" / "dev"
    manifest = SealedFolder(folder).manifest
    assert manifest["kind"] == "embeddings"
    changed = render_manifest(manifest | {"kind": "coder"})  # a trained run has a configuration
    damaged = (folder / "imported.json").read_bytes().replace(b"clip", b"clap", 1)
    for name, content in (("manifest.json", changed), ("imported.json", damaged)):
        with overwritten(folder / name, content):
            assert name in list_runs(runs)[0].fault


def test_other_splits_are_added_but_other_models_and_trained_runs_refused(files, runs, complaint):
    run = runs / "clip"
    assert run_import(files) == 0
    before = contents(run)
    fingerprint = open_analysis(run, "dev").fingerprint
    np.save(files / "i.npy", np.load(files / "i.npy")[::-1])
    assert run_import(files, "--split=test") == 0
    assert open_run(run).splits == ("dev", "test")
    assert list_runs(runs)[0].imported
    assert before.items() <= contents(run).items()
    assert open_analysis(run, "test").metrics["rsum"] < open_analysis(run, "dev").metrics["rsum"]
    assert [path.name for path in runs.iterdir()] == ["clip"]
    before = contents(runs)
    of_test = open_analysis(run, "test").fingerprint
    assert "--overwrite" in complaint(run_import, files)
    assert contents(runs) == before
    assert run_import(files, "--overwrite") == 0
    assert open_analysis(run, "dev", verify=True).fingerprint != fingerprint
    assert open_analysis(run, "test").fingerprint == of_test
    for name in ("i", "t"):
        np.save(files / f"{name}.npy", np.load(files / f"{name}.npy")[:, :16])

    write_run(runs, "trained", images=IMAGES, pictures=False)
    culprits = {"clip": "has 32 numbers per sample; expected 16", "trained": str(runs / "trained")}
    for name, culprit in culprits.items():
        assert culprit in complaint(run_import, files, "--split=test", "--overwrite", name=name)

    assert open_run(runs / "trained").splits == ("dev",)


@pytest.mark.parametrize(
    ("flags", "culprit"),
    [
        *(([f"--name={name}"], "--name") for name in ("../up", "/abs", "-dash", "", "a b", ".hidden")),
        ([f"--name={300 * 'a'}"], "200"),
        (["--name=a", f"--split={300 * 'a'}"], "200"),
        (["--name=a", "--split=../x"], "../x"),
        (["--name=a", "--root=pyproject.toml"], "pyproject.toml"),
    ],
)
def test_an_invalid_destination_is_refused_before_files_are_read(flags, culprit, complaint):
    message = complaint(main, ["import", "--images=x", "--texts=x", "--captions=x", *flags])
    assert culprit in message
    assert message.count("error:") == 1


@pytest.mark.parametrize("counts", [[5] * IMAGES, [2, 1, 3, 1, 4, 7, 3, 5, 3, 4, 3, 6]])
def test_ids_allow_any_number_of_captions_and_repeated_images_are_merged(files, counts):
    images = np.load(files / "i.npy")
    owner = np.repeat(np.arange(IMAGES), counts)
    m = len(owner)
    pairs = images[owner]
    random = np.random.default_rng(0)
    near = pairs + 1e-3 * random.normal(size=pairs.shape)
    order = random.permutation(m)
    np.save(files / "t.npy", random.normal(size=(m, 32)))
    write_lines(files / "c.txt", (f"caption {k}" for k in range(m)))

    def read(rows, owners=None):
        np.save(files / "i.npy", rows)
        write_lines(files / "ids.txt", [""] if owners is None else [f"image-{i}" for i in owners])
        ids = None if owners is None else files / "ids.txt"
        result = read_embeddings(files / "i.npy", files / "t.npy", files / "c.txt", ids=ids)
        return result, [fault.fix for fault in result.faults if fault.severity == "warning"]

    shuffled = pairs[order], owner[order]
    for rows, owners in ((images, owner), (pairs, None), (pairs, owner), (near, owner), shuffled):
        result, warnings = read(rows, owners)
        expected = images[owner if owners is None else owners] / 3
        of_text = result.image_of_text
        assert result.images[of_text] == pytest.approx(expected, abs=2e-3)
        assert (len(result.images), warnings) == (IMAGES, [])
        if owners is not None:
            assert [result.image_names[i] for i in of_text] == [f"image-{i}" for i in owners]
    assert f"{counts[0] - 1} rows" in str(refusal(read, np.concatenate([-pairs[:1], pairs[1:]]), owner))
    for rows in (near, np.where(np.arange(m)[:, None] % 2, near, pairs)):
        result, warnings = read(rows)
        assert (len(result.images), warnings) == (m, [ONCE_PER_IMAGE])


def with_value(row, value):
    rows = np.random.default_rng(0).normal(size=(IMAGES, 32)).astype(np.float32)
    rows[row] = value
    return rows


@pytest.mark.parametrize(
    ("array", "culprit"),
    [
        (with_value(4, np.nan), "the first, counted from 0: 4"),
        (with_value(7, np.inf), "the first, counted from 0: 7"),
        (with_value(2, 0.0), "1 rows"),
        (np.full((IMAGES, 32), 1e200), "i.npy"),
        (np.ones((IMAGES, 33), np.float32), "33 numbers per image, 32 per caption"),
        (np.ones((IMAGES, 2, 32), np.float32), "expected (rows, width)"),
        (np.ones(IMAGES, np.float32), "shape (12,)"),
        (np.ones((IMAGES, 32), np.int64), "dtype int64"),
        (np.ones((0, 32), np.float32), "shape (0, 32)"),
        (np.ones((7, 32), np.float32), "60 captions for 7 images"),
        (np.array([{}], dtype=object), "i.npy"),
    ],
)
def test_invalid_arrays_are_named_and_never_unpickled(files, array, culprit, capsys):
    np.save(files / "i.npy", array, allow_pickle=True)
    message = refused(files, capsys)
    assert culprit in message
    assert "allow_pickle" not in message


def test_mismatched_files_and_queries_are_refused(files, capsys):
    size = (files / "t.npy").stat().st_size
    for name, content, culprit in (
        ("c.txt", b"a\n" * 59, f"has 60 rows, but {files / 'c.txt'} has 59 lines"),
        ("c.txt", b"a\n" * 30 + b"\n" + b"a\n" * 29, "c.txt line 31: "),
        ("ids.txt", b"x\n" * IMAGES, "'x'"),
        ("ids.txt", b"".join(b"../%d.png\n" % image for image in range(IMAGES)), "../0.png"),
        ("t.npy", (files / "t.npy").read_bytes()[:-100], f"has {size - 100:,} bytes"),
    ):
        with overwritten(files / name, content):
            assert culprit in refused(files, capsys, f"--ids={files / 'ids.txt'}")

    assert "nowhere" in refused(files, capsys, f"--pictures={files / 'nowhere'}")
    for texts, width, culprit in (
        (["a", "b"], 31, "i.npy and q.npy: 32 numbers per image, 31 per query"),
        (["a", "b"], 32, f"q.npy: has 3 rows, but {files / 'q.txt'} has 2 lines"),
        (["a", "b", "a"], 32, "q.txt line 3: 'a'"),
        (["a", "", "b"], 32, "q.txt line 2"),
    ):
        assert culprit in refused(files, capsys, *save_queries(files, texts, width, 2 if width == 31 else 3))

    flags = save_queries(files, ["a", "b"])
    for flag, missing in zip(flags, ("--query-texts: ", "--queries: "), strict=True):
        assert missing in refused(files, capsys, flag)

    np.save(files / "q.npy", np.outer([1, 0], np.ones(32)))
    assert "q.npy: 1 rows" in refused(files, capsys, *flags)


def test_missing_pictures_and_collapsed_embeddings_give_warnings(files, runs, capsys):
    shutil.rmtree(files / "pictures")
    (files / "pictures").mkdir()
    rows = np.ones((60, 32), np.float32)
    rows[:, 0] += np.linspace(0, 0.01, 60, dtype=np.float32)
    np.save(files / "t.npy", rows)
    assert run_import(files, *with_pictures(files)) == 0
    notes = json.loads((runs / "clip/analysis/dev/imported.json").read_text())["notes"]
    for text in (capsys.readouterr().out, " ".join(notes)):
        assert "12 of 12 pictures" in text
        assert "1.0000" in text


def save_queries(folder, texts, width=32, rows=2):
    """Write queries of random embeddings; return the flags that import them."""
    np.save(folder / "q.npy", 2.0 * np.random.default_rng(3).normal(size=(rows, width)))
    write_lines(folder / "q.txt", texts)
    return [f"--queries={folder / 'q.npy'}", f"--query-texts={folder / 'q.txt'}"]


def test_saved_queries_are_sealed_with_the_run_and_search_its_images(files, runs, capsys):
    assert run_import(files, *save_queries(files, ["a unicorn", "ein Hund 🐶"])) == 0
    assert "2 saved queries" in capsys.readouterr().out
    run = open_run(runs / "clip")
    assert run.saved_queries("dev") == ["a unicorn", "ein Hund 🐶"]
    query = np.load(files / "q.npy")[1]
    scores = run.embeddings("dev")[0] @ (query / np.linalg.norm(query))
    results = run.search("ein Hund 🐶", split="dev", top=IMAGES)
    np.testing.assert_array_equal(results["candidate"], np.argsort(-scores, kind="stable"))
    np.testing.assert_allclose(results["score"], np.sort(scores)[::-1], atol=1e-6)
    assert not results["match"].any()
    assert_refused("saved query", run.search, "a unicorn!", split="dev")
    analysis = run.analysis("dev")
    (analysis.path / "queries.json").write_text('["a unicorn"]')
    assert_refused(r"queries\.json", open_analysis, runs / "clip", "dev", verify=True)
    assert run_import(files, "--overwrite") == 0
    again = open_run(runs / "clip")
    assert again.saved_queries("dev") == []
    assert again.analysis("dev").fingerprint != analysis.fingerprint
