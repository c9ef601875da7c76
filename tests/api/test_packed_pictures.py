"""Pictures inside tar and parquet files are shown where they lie; what a run notes of them is checked before."""

from __future__ import annotations

import io
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from coder_core.api import InputError, Run, decode, open_run
from coder_core.api.heat_maps import heat_map
from coder_core.api.retrieval import look_alike
from coder_core.data.captioned import positions as packed
from coder_core.embed import main as embed
from coder_core.evaluate import main as evaluate
from coder_core.features import main as features
from coder_core.runs.analysis.tables import PICTURE_POSITIONS
from coder_core.training.launch import start_run
from tests.support.picture_folders import CAPTIONS, LAYOUTS, NAMES, SPLITS, draw
from tests.support.run_folders import reseal
from tests.support.tiny_runs import quiet, tiny_config
from tests.support.tiny_towers import write_tiny_clip
from tests.support.tower_runs import tower_config

LAYOUT = {"tar": "webdataset", "parquet": "parquet"}
DEV = [NAMES.index(name) for name in NAMES if SPLITS[name] == "dev"]
BOMB = Image.new("1", (10_000, 10_000))


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory, own_threads: None) -> Path:
    """Folders tar/ and parquet/ of pictures, and runs/ with a run of each that a tiny CLIP embedded."""
    folder = tmp_path_factory.mktemp("packed")
    write_tiny_clip(folder / "clip")
    for name, layout in LAYOUT.items():
        LAYOUTS[layout](folder / name)
        given = [f"--model={folder / 'clip'}", f"--root={folder / 'runs'}", f"--name={name}", "--workers=0"]
        assert embed(["pictures", str(folder / name), *given]) == 0
    return folder


@pytest.fixture
def own(base: Path, tmp_path: Path) -> Path:
    """A copy of the runs and their data, which may be damaged."""
    for name in ("runs", *LAYOUT):
        shutil.copytree(base / name, tmp_path / name)
    for name in LAYOUT:
        moved = {"folder": str(tmp_path / name / ("data" if name == "parquet" else ""))}
        rewrite(tmp_path / "runs" / name, lambda note, moved=moved: note | moved)
    return tmp_path


def rewrite(run: Path, change: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    """Change what a run notes of its packed pictures, and seal it again."""
    file = run / "analysis" / "dev" / "images.json"
    document = json.loads(file.read_text())
    file.write_text(json.dumps(document | {"packed": change(document["packed"])}))
    reseal(file.parent)


def same_picture(content: bytes | None, number: int) -> bool:
    assert content is not None
    expected = np.asarray(decode(draw(number), "drawn"), dtype=float)
    return bool(np.abs(np.asarray(decode(content, "shown"), dtype=float) - expected).mean() < 4)


@pytest.mark.parametrize("name", LAYOUT)
def test_every_picture_is_read_where_it_lies(name: str, base: Path) -> None:
    run = open_run(base / "runs" / name)
    shown = [run.picture("dev", image) for image in (2, 0, 1, 0)]
    for content, number in zip(shown, [DEV[2], DEV[0], DEV[1], DEV[0]], strict=True):
        assert same_picture(content, number)
        assert not same_picture(content, 0)
    np.testing.assert_array_equal(run.open_picture("dev", 1), decode(draw(DEV[1]), "drawn"))
    assert look_alike(run, decode(draw(DEV[2]), "mine"), split="dev").image == 2
    plain = heat_map(run, "dev", "a ring", decode(draw(DEV[1]), "drawn"), "cosine")
    np.testing.assert_array_equal(heat_map(run, "dev", "a ring", 1, "cosine").values, plain.values)
    notes = json.loads((run.path / "analysis" / "dev" / "images.json").read_text())["packed"]
    assert [entry["name"] for entry in notes["files"]] == (
        ["dev/0.tar"] if name == "tar" else ["validation-00000-of-00001.parquet"]
    )


def test_a_run_that_is_trained_on_them_shows_them(base: Path, tmp_path: Path) -> None:
    config = tower_config(
        base,
        "frozen",
        data=str(base / "parquet"),
        image_tuning="frozen",
        text_tuning="frozen",
        projection="linear",
        image_pooling="mean",
        text_pooling="mean",
        epochs=1,
        dimension=8,
    )
    start_run(config, root=tmp_path, console=quiet())
    assert evaluate([str(tmp_path / "frozen"), "--split=train"]) == 0
    run = open_run(tmp_path / "frozen")
    assert all(same_picture(run.picture("train", image), image) for image in (5, 0))  # of two files
    assert same_picture(run.picture("dev", 1), DEV[1])
    assert heat_map(run, "dev", CAPTIONS[NAMES[DEV[0]]][0], 0, "cosine").boxes is not None


@pytest.mark.parametrize("name", LAYOUT)
def test_a_run_on_features_of_them_shows_them(name: str, base: Path, tmp_path: Path) -> None:
    out = tmp_path / "features"
    given = [
        f"--out={out}",
        f"--model={base / 'clip'}",
        "--workers=0",
        "--grid=2",
        "--splits",
        "train",
        "dev",
    ]
    assert features([str(base / name), *given]) == 0
    path = start_run(tiny_config(out), tmp_path, quiet())
    run = open_run(path)
    assert [same_picture(run.picture("dev", image), DEV[image]) for image in (2, 0)] == [True, True]
    assert heat_map(run, "dev", CAPTIONS[NAMES[DEV[0]]][0], 0, "cosine").boxes is not None
    ids = out / "dev_ids.txt"
    ids.write_text(ids.read_text().replace("0", "9"))  # other names: nobody knows whose pictures these are
    assert evaluate([str(path), "--split=dev", "--overwrite"]) == 0
    assert open_run(path).picture("dev", 0) is None


def test_opening_a_run_needs_no_file_of_its_pictures(own: Path) -> None:
    shutil.rmtree(own / "tar")
    run = open_run(own / "runs" / "tar")
    assert len(run.diversity("dev")) == 6
    assert run.image_names("dev")[0] == f"dev/0/s{DEV[0]:07d}.jpg"
    assert run.picture("dev", 0) is None
    assert "there is no such file" in refusal(run)


def refusal(run: Run) -> str:
    """Why the first picture of dev is not shown."""
    with pytest.raises(InputError) as caught:
        run.open_picture("dev", 0)
    return str(caught.value)


def test_what_leads_out_of_the_folder_or_is_another_file_is_refused(own: Path) -> None:
    runs = own / "runs"
    outside = shutil.copy(own / "tar" / "dev" / "0.tar", own / "outside.tar")
    size = outside.stat().st_size
    for name, said in (
        ("../outside.tar", "holds .."),
        (str(outside), "is an absolute path"),
        ("dev/0.tar\0", "names"),
        ("train/missing.tar", "there is no such file"),
    ):
        rewrite(runs / "tar", lambda note, name=name: note | {"files": [{"name": name, "bytes": size}]})
        run = open_run(runs / "tar")
        assert said in refusal(run)
    for entry, said in (
        ({"name": "dev/0.txt", "bytes": size}, "a .tar file and its bytes"),
        ({"name": "dev/0.tar"}, "a .tar file and its bytes"),
        ({"name": 3, "bytes": size}, "key name: is 3"),
        ("dev/0.tar", "an object"),
    ):
        rewrite(runs / "tar", lambda note, entry=entry: note | {"files": [entry]})
        assert said in refusal(open_run(runs / "tar"))
    files = [{"name": "dev/0.tar", "bytes": size}]
    whole = {"version": 1, "kind": "tar", "folder": str(own / "tar"), "files": files}
    for changes, said in (
        ({"version": 2}, "version 1"),
        ({"kind": "zip"}, "kind 'zip'"),
        ({"files": []}, "names 0 files"),
        ({"folder": "relative"}, "an absolute path"),
    ):
        rewrite(runs / "tar", lambda note, changes=changes: whole | changes)
        assert said in refusal(open_run(runs / "tar"))
    rewrite(runs / "tar", lambda note: whole)
    assert open_run(runs / "tar").picture("dev", 0) is not None
    positions = runs / "tar" / "analysis" / "dev" / f"{PICTURE_POSITIONS}.npy"
    rows = np.load(positions)
    np.save(positions, rows - np.array([0, 0, 10**6]))
    reseal(positions.parent)
    assert "picture_positions.npy" in refusal(open_run(runs / "tar"))
    np.save(positions, rows)
    reseal(positions.parent)
    (own / "tar" / "dev" / "0.tar").unlink()
    (own / "tar" / "dev" / "0.tar").symlink_to(outside)
    run = open_run(runs / "tar")
    assert "a link that leaves the picture folder" in refusal(run)
    assert run.picture("dev", 0) is None
    (own / "tar" / "dev" / "0.tar").unlink()
    os.mkfifo(own / "tar" / "dev" / "0.tar")
    assert "there is no such file" in refusal(run)


def test_changed_and_broken_containers_and_bombs_are_named(
    own: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = open_run(own / "runs" / "tar")
    tar = own / "tar" / "dev" / "0.tar"
    content = tar.read_bytes()
    tar.write_bytes(content[: len(content) // 2])
    assert f"has {len(content) // 2:,} bytes; expected {len(content):,}" in refusal(run)
    tar.write_bytes(bytes(len(content)))
    assert "cannot be decoded" in refusal(run)
    buffer = io.BytesIO()
    BOMB.save(buffer, "PNG")
    file = own / "parquet" / "data" / "validation-00000-of-00001.parquet"
    images = [{"bytes": value, "path": None} for value in (buffer.getvalue(), None, b"<html>")]
    pq.write_table(pa.table({"image": images, "caption": ["a", "b", "c"]}), file, row_group_size=2)
    rewrite(
        own / "runs" / "parquet",
        lambda note: note | {"files": [note["files"][0] | {"bytes": file.stat().st_size}]},
    )
    run = open_run(own / "runs" / "parquet")
    assert "10,000 × 10,000 pixels" in refusal(run)
    with pytest.raises(InputError, match="row group 0 row 1: holds no bytes"):
        run.open_picture("dev", 1)
    with pytest.raises(InputError, match="row group 1 row 0: cannot be decoded"):
        run.open_picture("dev", 2)
    monkeypatch.setattr(packed, "LARGEST_GROUP", 100)
    assert "the pictures of its row group are" in refusal(open_run(own / "runs" / "parquet"))
    pq.write_table(pa.table({"image": ["x"], "caption": ["a"]}), file)
    rewrite(
        own / "runs" / "parquet",
        lambda note: note | {"files": [note["files"][0] | {"bytes": file.stat().st_size}]},
    )
    assert "no such row group of pictures" in refusal(open_run(own / "runs" / "parquet"))
