"""python -m coder_core.embed import: any model's embeddings become a run; what is wrong with them is named."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from coder_core.api import InputError, compare, facts, list_runs, open_run
from coder_core.embed import main
from coder_core.files.manifest import render_manifest
from coder_core.files.sealed import read_manifest
from coder_core.runs.analysis.read import open_analysis
from tests.support.run_folders import draw_pictures, ranks_of, recalls, synthetic, write_run

IMAGES = 12


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """Twelve images with five captions each, rows of any length, and pictures named by the ids."""
    folder = tmp_path / "clip"
    folder.mkdir()
    v, w, owner = synthetic(IMAGES, noise=1.0)
    np.save(folder / "i.npy", v * 3.0)
    np.save(folder / "t.npy", w.astype(np.float16))
    (folder / "c.txt").write_text("".join(f"scene {i}, way {k}\n" for k, i in enumerate(owner)))
    (folder / "ids.txt").write_text(
        "".join(f"{name}\n" for name in draw_pictures(folder / "pictures", IMAGES))
    )
    return folder


def run_import(folder: Path, *more: str, name: str = "clip") -> int:
    given = [
        f"--{key}={folder / file}"
        for key, file in (("images", "i.npy"), ("texts", "t.npy"), ("captions", "c.txt"))
    ]
    return main(["import", *given, f"--name={name}", f"--root={folder.parent / 'runs'}", *more])


def refused(folder: Path, capsys: pytest.CaptureFixture[str], *more: str) -> str:
    """Message when the files are refused; nothing is left behind."""
    assert run_import(folder, *more) == 1
    assert not [path for path in (folder.parent / "runs").glob("*") if path.name != "kept"]
    return capsys.readouterr().err


def test_it_becomes_a_run_with_the_ranks_of_its_cosines(
    files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_import(files, f"--ids={files / 'ids.txt'}", f"--pictures={files / 'pictures'}") == 0
    printed = capsys.readouterr().out
    assert "R@sum" in printed
    assert "float16; converted to float32" in printed
    assert "rows of length 3 to 3, divided by it" in printed
    analysis = open_analysis(files.parent / "runs" / "clip", "dev", verify=True)
    assert analysis.kind == "embeddings"
    v, w = analysis.image_embeddings, analysis.text_embeddings
    for rows in (v, w):
        np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1.0, atol=1e-6)
    owner = np.repeat(np.arange(IMAGES), 5)
    image_ranks, text_ranks, image_best, _ = ranks_of(
        np.asarray(v, np.float64), np.asarray(w, np.float64), owner
    )
    np.testing.assert_array_equal(analysis.image_ranks, image_ranks)
    np.testing.assert_array_equal(analysis.text_ranks, text_ranks)
    np.testing.assert_array_equal(analysis.image_best, image_best)
    for name, value in recalls(image_ranks, text_ranks).items():
        assert analysis.metrics[name] == pytest.approx(value), name
    assert analysis.image_names[3] == "3.png"
    assert Path(analysis.picture_folder) == files / "pictures"


def test_the_api_knows_it_as_imported(files: Path) -> None:
    run_import(files, f"--ids={files / 'ids.txt'}", f"--pictures={files / 'pictures'}")
    run_import(files, name="again")
    runs = files.parent / "runs"
    summary = {run.name: run for run in list_runs(runs)}["clip"]
    assert summary.usable
    assert summary.imported
    assert (summary.state, summary.fault, dict(summary.config)) == ("imported", "", {})
    about = facts(summary)
    assert (about["loss"], about["data"], about["dimension"], about["epochs"]) == (
        "imported",
        "c.txt",
        32,
        None,
    )
    assert about["created"].startswith("20")
    run = open_run(runs / "clip")
    assert run.history.empty
    assert not run.loss.trained
    assert len(run.diversity("dev")) == 5 * IMAGES
    assert run.anchor(3, split="dev").nearest(2)["similarity"].is_monotonic_decreasing
    assert run.picture("dev", 0)
    assert (compare(run, open_run(runs / "again"), "dev")["change"] == 0).all()
    with pytest.raises(InputError, match="holds imported embeddings and no model"):
        run.search("a red ring", split="dev")


def test_a_coder_run_without_its_configuration_is_still_damaged(files: Path) -> None:
    run_import(files)
    place = files.parent / "runs" / "clip" / "analysis" / "dev"
    manifest = read_manifest(place)
    assert manifest["kind"] == "embeddings"
    (place / "manifest.json").write_bytes(render_manifest(manifest | {"kind": "coder"}))
    [summary] = list_runs(files.parent / "runs")
    assert "manifest.json: cannot be read" in summary.fault  # the run's own, of its configuration


def test_a_flipped_bit_in_what_it_was_made_of_is_named(files: Path) -> None:
    run_import(files)
    file = files.parent / "runs" / "clip" / "analysis" / "dev" / "imported.json"
    file.write_bytes(file.read_bytes().replace(b"clip", b"clap", 1))
    [summary] = list_runs(files.parent / "runs")
    assert "imported.json" in summary.fault


def test_an_existing_name_is_refused_and_untouched(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runs = files.parent / "runs"
    assert run_import(files) == 0
    before = {path: path.read_bytes() for path in runs.rglob("*") if path.is_file()}
    np.save(files / "i.npy", np.ones((IMAGES, 32)))
    assert run_import(files) == 1
    assert "exists already" in capsys.readouterr().err
    assert {path: path.read_bytes() for path in runs.rglob("*") if path.is_file()} == before


def test_another_split_leaves_the_first_as_it_was(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = files.parent / "runs" / "clip"
    assert run_import(files) == 0
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    np.save(files / "i.npy", np.load(files / "i.npy")[::-1])
    assert run_import(files, "--split=test") == 0
    assert open_run(run).splits == ("dev", "test")
    assert list_runs(run.parent)[0].imported
    assert all(path.read_bytes() == content for path, content in before.items())
    assert open_analysis(run, "test").metrics["rsum"] < open_analysis(run, "dev").metrics["rsum"]
    assert not [path for path in run.parent.iterdir() if path.name != "clip"]


def test_the_same_split_is_replaced_only_when_asked(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = files.parent / "runs" / "clip"
    assert run_import(files) == 0
    assert run_import(files, "--split=test") == 0
    before = open_analysis(run, "dev").fingerprint
    np.save(files / "i.npy", np.load(files / "i.npy")[::-1])
    assert run_import(files) == 1
    assert "add --overwrite to take its place" in capsys.readouterr().err
    assert open_analysis(run, "dev").fingerprint == before
    assert run_import(files, "--overwrite") == 0
    assert open_analysis(run, "dev", verify=True).fingerprint != before
    assert open_analysis(run, "test").fingerprint == before


def test_a_split_of_another_model_or_in_a_trained_run_is_refused(
    files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_import(files) == 0
    for name in ("i", "t"):
        np.save(files / f"{name}.npy", np.load(files / f"{name}.npy")[:, :16])
    assert run_import(files, "--split=test") == 1
    assert "has 32 numbers a sample; expected 16" in capsys.readouterr().err
    write_run(files.parent / "runs", "trained", images=IMAGES, pictures=False)
    assert run_import(files, "--split=test", "--overwrite", name="trained") == 1
    assert "exists already; expected a new name" in capsys.readouterr().err
    assert open_run(files.parent / "runs" / "trained").splits == ("dev",)


@pytest.mark.parametrize("name", ["../up", "/abs", "-dash", "", "a b", ".hidden"])
def test_a_name_cannot_leave_the_folder_of_runs(
    files: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    given = [f"--images={files / 'i.npy'}", f"--texts={files / 't.npy'}", f"--captions={files / 'c.txt'}"]
    assert main(["import", *given, f"--name={name}", f"--root={files.parent / 'runs'}"]) == 1
    assert "--name" in capsys.readouterr().err
    assert not (files.parent / "runs").exists()


@pytest.mark.parametrize(
    ("place", "said"),
    [
        (["--name", 300 * "a"], "at most 200 letters"),
        (["--name", "a", "--split", 300 * "a"], "the first a letter or digit, at most 200"),
        (["--name", "a", "--root", "pyproject.toml"], "pyproject.toml is a file"),
    ],
)
def test_a_place_that_cannot_be_written_is_refused_before_the_files_are_read(
    place: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["import", "--images=x", "--texts=x", "--captions=x", *place]) == 1
    told = capsys.readouterr().err
    assert said in told
    assert told.count("error:") == 1


def test_a_split_is_a_name_too(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "is not a split's name" in refused(files, capsys, "--split=../x")
    assert run_import(files, "--split=test") == 0
    assert open_run(files.parent / "runs" / "clip").splits == ("test",)


def test_one_id_a_caption_gives_any_number_of_captions(files: Path) -> None:
    owner = np.array([0, 0, 1, 2, 2, 2, *range(3, IMAGES)])
    _, w, _ = synthetic(IMAGES, noise=1.0)
    np.save(files / "t.npy", w[: len(owner)])
    (files / "c.txt").write_text("".join(f"caption {k}\n" for k in range(len(owner))))
    (files / "ids.txt").write_text("".join(f"image-{i}\n" for i in owner))
    assert run_import(files, f"--ids={files / 'ids.txt'}") == 0
    run = open_run(files.parent / "runs" / "clip")
    np.testing.assert_array_equal(run.image_of_text("dev"), owner)
    assert run.analysis("dev").image_names[2] == "image-2"


def test_images_stored_once_a_caption_are_read_once(files: Path) -> None:
    v = np.load(files / "i.npy")
    np.save(files / "i.npy", np.repeat(v, 5, axis=0))
    assert run_import(files) == 0
    assert len(open_run(files.parent / "runs" / "clip").embeddings("dev")[0]) == IMAGES


def with_value(row: int, value: float) -> np.ndarray:
    rows = np.random.default_rng(0).normal(size=(IMAGES, 32)).astype(np.float32)
    rows[row] = value
    return rows


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (with_value(4, np.nan), "the first, counted from 0: 4"),
        (with_value(7, np.inf), "the first, counted from 0: 7"),
        (with_value(2, 0.0), "1 rows are zero in every number"),
        (np.full((IMAGES, 32), 1e200), "numbers too large"),
        (np.ones((IMAGES, 33), np.float32), "33 numbers an image, 32 a caption"),
        (np.ones((IMAGES, 2, 32), np.float32), "expected (rows, width)"),
        (np.ones(IMAGES, np.float32), "shape (12,)"),
        (np.ones((IMAGES, 32), np.int64), "dtype int64"),
        (np.ones((IMAGES, 32), bool), "dtype bool"),
        (np.ones((IMAGES, 32), np.complex64), "dtype complex64"),
        (np.full((IMAGES, 32), "x"), "dtype <U1"),
        (np.ones((0, 32), np.float32), "shape (0, 32)"),
        (np.ones((7, 32), np.float32), "60 captions for 7 images"),
    ],
)
def test_every_wrong_array_is_named(
    files: Path, array: np.ndarray, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    np.save(files / "i.npy", array)
    assert message in refused(files, capsys)


@pytest.mark.parametrize("array", [np.array([{}], dtype=object), np.zeros(3, dtype=[("a", "f4")])])
def test_objects_are_never_unpickled(
    files: Path, array: np.ndarray, capsys: pytest.CaptureFixture[str]
) -> None:
    np.save(files / "i.npy", array, allow_pickle=True)
    printed = refused(files, capsys)
    assert "allow_pickle" not in printed
    assert "i.npy" in printed


def test_a_cut_file_says_how_many_bytes(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    content = (files / "t.npy").read_bytes()
    (files / "t.npy").write_bytes(content[:-100])
    assert f"holds {len(content) - 100:,} bytes" in refused(files, capsys)


def test_captions_and_rows_must_agree(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (files / "c.txt").write_text("a\n" * 59)
    assert "60 rows for the 59 lines" in refused(files, capsys)
    (files / "c.txt").write_text("a\n" * 30 + "\n" + "a\n" * 29)
    assert "c.txt line 31: the line is empty" in refused(files, capsys)


def test_an_id_twice_is_refused(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (files / "ids.txt").write_text("x\n" * IMAGES)
    assert "'x' is also the id of" in refused(files, capsys, f"--ids={files / 'ids.txt'}")


def test_pictures_that_cannot_be_shown_are_a_warning_and_unsafe_names_an_error(
    files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "there is no such folder" in refused(files, capsys, f"--pictures={files / 'nowhere'}")
    (files / "ids.txt").write_text("".join(f"../{i}.png\n" for i in range(IMAGES)))
    assert "the name holds .." in refused(files, capsys, f"--ids={files / 'ids.txt'}")
    shutil.rmtree(files / "pictures")
    (files / "pictures").mkdir()
    (files / "ids.txt").write_text("".join(f"{i}.png\n" for i in range(IMAGES)))
    assert run_import(files, f"--ids={files / 'ids.txt'}", f"--pictures={files / 'pictures'}") == 0
    assert "12 of 12 pictures are missing" in capsys.readouterr().out


def test_collapsed_embeddings_are_a_warning(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = np.ones((60, 32), np.float32)
    rows[:, 0] += np.linspace(0, 0.01, 60, dtype=np.float32)
    np.save(files / "t.npy", rows)
    assert run_import(files) == 0
    assert "collapsed: the mean cosine between two captions is 1.0000" in capsys.readouterr().out
    about = json.loads((files.parent / "runs/clip/analysis/dev/imported.json").read_text())
    assert any("collapsed" in note for note in about["notes"])


def test_a_folder_that_cannot_be_written_leaves_nothing(
    files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (files.parent / "runs").write_text("a file stands here")
    assert run_import(files) == 1
    assert "runs is a file; expected a folder" in capsys.readouterr().err


def save_queries(folder: Path, texts: list[str], width: int = 32, rows: int | None = None) -> list[str]:
    """Write queries of random embeddings; returns the flags that import them."""
    count = len(texts) if rows is None else rows
    np.save(folder / "q.npy", 2.0 * np.random.default_rng(3).normal(size=(count, width)))
    (folder / "q.txt").write_text("".join(f"{text}\n" for text in texts))
    return [f"--queries={folder / 'q.npy'}", f"--query-texts={folder / 'q.txt'}"]


def test_saved_queries_are_sealed_with_the_run_and_search_its_images(
    files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_import(files, *save_queries(files, ["a unicorn", "ein Hund 🐶"])) == 0
    assert "32 numbers each, 2 saved queries" in capsys.readouterr().out
    run = open_run(files.parent / "runs" / "clip")
    assert run.saved_queries("dev") == ["a unicorn", "ein Hund 🐶"]
    query = np.load(files / "q.npy")[1]
    scores = run.embeddings("dev")[0] @ (query / np.linalg.norm(query))
    found = run.search("ein Hund 🐶", split="dev", top=IMAGES)
    np.testing.assert_array_equal(found["candidate"], np.argsort(-scores, kind="stable"))
    np.testing.assert_allclose(found["score"], np.sort(scores)[::-1], atol=1e-6)
    assert not found["match"].any()
    with pytest.raises(
        InputError, match=r"cannot embed new words\. Ask with a sample of the split or a saved query"
    ):
        run.search("a unicorn!", split="dev")
    plain, fingerprint = run.analysis("dev"), run.analysis("dev").fingerprint
    (plain.path / "queries.json").write_text('["a unicorn"]')
    with pytest.raises(InputError, match=r"queries\.json"):
        open_analysis(files.parent / "runs" / "clip", "dev", verify=True)
    assert run_import(files, "--overwrite") == 0
    again = open_run(files.parent / "runs" / "clip")
    assert again.saved_queries("dev") == []
    assert again.analysis("dev").fingerprint != fingerprint


@pytest.mark.parametrize(
    ("texts", "width", "rows", "said"),
    [
        (["a", "b"], 31, 2, "i.npy and q.npy: 32 numbers an image, 31 a query"),
        (["a", "b"], 32, 3, "q.npy: 3 rows for the 2 lines of"),
        (["a", "b", "a"], 32, 3, "q.txt line 3: 'a' is also the query of"),
        (["a", "", "b"], 32, 3, "q.txt line 2"),
    ],
)
def test_queries_that_do_not_fit_are_refused_with_their_place(
    files: Path, capsys: pytest.CaptureFixture[str], texts: list[str], width: int, rows: int, said: str
) -> None:
    assert said in refused(files, capsys, *save_queries(files, texts, width, rows))


def test_queries_without_texts_or_with_a_row_of_zeros_are_refused(
    files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = save_queries(files, ["a", "b"])
    assert "--query-texts: is missing beside --queries" in refused(files, capsys, flags[0])
    assert "--queries: is missing beside --query-texts" in refused(files, capsys, flags[1])
    rows = np.ones((2, 32))
    rows[1] = 0
    np.save(files / "q.npy", rows)
    assert "1 rows are zero in every number" in refused(files, capsys, *flags)
