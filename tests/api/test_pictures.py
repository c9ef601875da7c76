"""A new picture as a query, the picture most like another one, and pictures inside tar and parquet files."""

import io
import json
import os
import shutil

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from coder_core.api import decode, open_run
from coder_core.api.heat_maps import heat_map
from coder_core.api.retrieval import look_alike
from coder_core.data.captioned import positions as packed
from coder_core.data.content.report import tiny_image
from coder_core.demo import make_demo
from coder_core.demo.making import STANDARD, features_of, makes_features
from coder_core.embed import main as embed
from coder_core.evaluate import main as evaluate
from coder_core.features import main as features
from coder_core.runs.analysis.tables import PICTURE_POSITIONS
from coder_core.training.launch import start_run
from tests.support import precomp_folders
from tests.support.picture_folders import CAPTIONS, LAYOUTS, NAMES, SPLITS, draw
from tests.support.precomp_folders import assert_refused
from tests.support.run_folders import reseal, write_run
from tests.support.tiny_runs import quiet, tiny_config
from tests.support.tiny_towers import tower_config, write_tiny_clip

LAYOUT = {"tar": "webdataset", "parquet": "parquet"}
DEV = [NAMES.index(name) for name in NAMES if SPLITS[name] == "dev"]
DRAWN = [decode(draw(number), "drawn") for number in range(len(NAMES))]


def png(picture):
    buffer = io.BytesIO()
    picture.save(buffer, "PNG")
    return buffer.getvalue()


BOMB = png(Image.new("1", (10_000, 10_000)))


def test_demo_features_are_computed_from_pictures_and_a_damaged_standard_is_named(tmp_path):
    demo = make_demo(tmp_path / "demo", images=14)
    stored = np.load(demo / "dev_ims.npy")
    names = (demo / "dev_ids.txt").read_text().split()
    folder = str(demo / "images")
    assert makes_features(folder)
    for row, name in enumerate(names):
        picture = decode((demo / "images" / name).read_bytes(), name)
        np.testing.assert_allclose(features_of(folder, picture), stored[row], atol=1e-5)
    assert features_of(folder, Image.new("RGB", (640, 480), "red")).shape == stored.shape[1:]
    copy = shutil.copytree(demo, tmp_path / "copy")
    for content in ("{", '{"mean": [1], "deviation": [1]}', "[]", '{"mean": "x", "deviation": 1}'):
        (copy / STANDARD).write_text(content)
        assert_refused(r"standard\.json", features_of, str(copy / "images"), Image.new("RGB", (64, 64)))


def test_a_picture_of_the_split_is_its_own_look_alike(run, tmp_path):
    pictured = open_run(write_run(tmp_path / "runs", "x", images=12))
    red = Image.new("RGB", (9, 9), "red")
    for image in (0, 7):
        content = (tmp_path / "runs-pictures" / f"{image}.png").read_bytes()
        nearest = look_alike(pictured, decode(content, "mine"), split="dev")
        assert (nearest.image, nearest.of) == (image, 12)
        assert nearest.likeness > 0.999
    assert look_alike(pictured, red, split="dev", at_most=3).of == 3
    tiny = tiny_image(Image.effect_noise((40, 30), 80).convert("RGB"))
    assert (tiny.mean(), np.linalg.norm(tiny)) == pytest.approx((0, 1), abs=1e-5)
    assert np.isfinite(tiny_image(Image.new("RGB", (8, 8), "grey"))).all()
    assert not run.reads_pictures("dev")
    assert_refused("no readable picture", look_alike, run, red, split="dev")
    assert_refused("region features come from files", run.encode_picture, red, split="dev")


def test_undecodable_or_oversized_pictures_are_refused():
    facts = dict.fromkeys((b"<html></html>", b"", b"GIF89a" + bytes(40)), "cannot be decoded")
    facts |= {png(Image.new("RGB", (40, 40)))[:60]: "cannot be decoded", b"x" * 10_000_001: "10,000,000"}
    for content, fact in (facts | {BOMB: "50,000,000"}).items():
        assert_refused(fact, decode, content, "../../evil\n.jpg")


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    """Folders tar/ and parquet/ of pictures, and runs/ with a run of each, embedded by a tiny CLIP."""
    folder = tmp_path_factory.mktemp("packed")
    write_tiny_clip(folder / "clip")
    for name, layout in LAYOUT.items():
        LAYOUTS[layout](folder / name)
        options = [f"--model={folder / 'clip'}", f"--root={folder / 'runs'}", f"--name={name}"]
        assert embed(["pictures", str(folder / name), *options, "--workers=0"]) == 0
    return folder


@pytest.fixture
def copied(base, tmp_path):
    """Copy of the runs and their data that a test may damage."""
    for name in ("runs", *LAYOUT):
        shutil.copytree(base / name, tmp_path / name)
    for name in LAYOUT:
        rewrite(tmp_path / "runs" / name, folder=str(tmp_path / name / ("data" if name == "parquet" else "")))
    return tmp_path


def rewrite(run, **changes):
    """Change a run's notes on its packed pictures and reseal its analysis."""
    file = run / "analysis" / "dev" / "images.json"
    document = json.loads(file.read_text())
    file.write_text(json.dumps(document | {"packed": document["packed"] | changes}))
    reseal(file.parent)


def shows(content, number):
    """Return True if a thumbnail, which is compressed, shows the picture with this number."""
    picture, expected = (np.asarray(picture, float) for picture in (decode(content, "shown"), DRAWN[number]))
    return bool(np.abs(picture - expected).mean() < 4)


@pytest.mark.parametrize("name", LAYOUT)
def test_pictures_are_read_directly_from_tar_and_parquet_files(name, base):
    run = open_run(base / "runs" / name)
    for image in (2, 0, 1, 0):
        content = run.picture("dev", image)
        assert (shows(content, DEV[image]), shows(content, 0)) == (True, False)
    np.testing.assert_array_equal(run.open_picture("dev", 1), DRAWN[DEV[1]])
    assert look_alike(run, DRAWN[DEV[2]], split="dev").image == 2
    plain, stored = (heat_map(run, "dev", "a ring", image, "cosine") for image in (DRAWN[DEV[1]], 1))
    np.testing.assert_array_equal(stored.values, plain.values)
    notes = json.loads((run.path / "analysis" / "dev" / "images.json").read_text())["packed"]
    file = "dev/0.tar" if name == "tar" else "validation-00000-of-00001.parquet"
    assert [entry["name"] for entry in notes["files"]] == [file]


def test_runs_trained_on_packed_pictures_or_their_features_show_them(base, tmp_path):
    options = {"image_tuning": "frozen", "text_tuning": "frozen", "projection": "linear", "dimension": 8}
    options |= {"image_pooling": "mean", "text_pooling": "mean", "epochs": 1, "data": str(base / "parquet")}
    start_run(tower_config(base, "frozen", **options), root=tmp_path, console=quiet())
    assert evaluate([str(tmp_path / "frozen"), "--split=train"]) == 0
    run = open_run(tmp_path / "frozen")
    assert all(shows(run.picture("train", image), image) for image in (5, 0))  # of two files
    assert shows(run.picture("dev", 1), DEV[1])
    assert heat_map(run, "dev", CAPTIONS[NAMES[DEV[0]]][0], 0, "cosine").boxes is not None
    out = tmp_path / "features"
    options = [f"--out={out}", f"--model={base / 'clip'}", "--workers=0", "--grid=2", "--splits"]
    assert features([str(base / "tar"), *options, "train", "dev"]) == 0
    run = open_run(start_run(tiny_config(out, epochs=1), tmp_path, quiet()))
    assert all(shows(run.picture("dev", image), DEV[image]) for image in (2, 0))
    assert heat_map(run, "dev", CAPTIONS[NAMES[DEV[0]]][0], 0, "cosine").boxes is not None
    ids = out / "dev_ids.txt"
    ids.write_text(ids.read_text().replace("0", "9"))  # the ids no longer match any pictures
    assert evaluate([str(run.path), "--split=dev", "--overwrite"]) == 0
    assert open_run(run.path).picture("dev", 0) is None


def refusal(run, image=0):
    """Return the reason why a picture of dev is not shown."""
    return str(precomp_folders.refusal(open_run(run).open_picture, "dev", image))


def test_packed_files_that_are_missing_changed_or_outside_the_folder_are_refused(copied):
    run = copied / "runs" / "tar"
    tar = copied / "tar" / "dev" / "0.tar"
    outside = shutil.copy(tar, copied / "outside.tar")
    size = outside.stat().st_size

    def files(name):
        return {"files": [{"name": name, "bytes": size}]}

    whole = {"version": 1, "kind": "tar", "folder": str(copied / "tar"), **files("dev/0.tar")}
    for changes, fact in (
        (files("../outside.tar"), "contains .."),
        (files(str(outside)), "absolute path"),
        (files("dev/0.tar\0"), "names"),
        (files("train/missing.tar"), "no such file"),
        (files("dev/0.txt"), ".tar file and its bytes"),
        (files(3), "key name: is 3"),
        ({"files": [{"name": "dev/0.tar"}]}, ".tar file and its bytes"),
        ({"files": ["dev/0.tar"]}, "an object"),
        ({"files": []}, "names 0 files"),
        ({"version": 2}, "version 1"),
        ({"kind": "zip"}, "kind 'zip'"),
        ({"folder": "relative"}, "absolute path"),
    ):
        rewrite(run, **whole | changes)
        assert fact in refusal(run)
    rewrite(run, **whole)
    assert open_run(run).picture("dev", 0) is not None
    positions = run / "analysis" / "dev" / f"{PICTURE_POSITIONS}.npy"
    rows = np.load(positions)
    for moved, fact in ((np.array([0, 0, 10**6]), positions.name), (0, "is a link out of")):
        np.save(positions, rows - moved)
        reseal(positions.parent)
        if not np.any(moved):
            tar.unlink()
            tar.symlink_to(outside)
            assert open_run(run).picture("dev", 0) is None
        assert fact in refusal(run)
    tar.unlink()
    os.mkfifo(tar)
    assert "no such file" in refusal(run)
    shutil.rmtree(copied / "tar")  # opening the run needs no file of its pictures
    opened = open_run(run)
    assert len(opened.diversity("dev")) == 6
    assert opened.image_names("dev")[0] == f"dev/0/s{DEV[0]:07d}.jpg"
    assert opened.picture("dev", 0) is None
    assert "no such file" in refusal(run)


def test_broken_containers_and_decompression_bombs_are_named(copied, monkeypatch):
    tar = copied / "tar" / "dev" / "0.tar"
    content = (copied / "tar" / "dev" / "0.tar").read_bytes()
    half = len(content) // 2
    facts = {f"{half:,} bytes; expected {len(content):,}": content[:half]}
    for fact, broken in (facts | {"cannot be decoded": bytes(len(content))}).items():
        tar.write_bytes(broken)
        assert fact in refusal(copied / "runs" / "tar")
    run = copied / "runs" / "parquet"
    file = copied / "parquet" / "data" / "validation-00000-of-00001.parquet"

    def write(images):
        """Rewrite the file and update its size in the run."""
        pq.write_table(pa.table({"image": images, "caption": ["a"] * len(images)}), file, row_group_size=2)
        rewrite(run, files=[{"name": file.name, "bytes": file.stat().st_size}])

    write([{"bytes": value, "path": None} for value in (BOMB, None, b"<html>")])
    facts = ["10,000 × 10,000", "row group 0 row 1: has no bytes", "row group 1 row 0: cannot be decoded"]
    for image, fact in enumerate(facts):
        assert fact in refusal(run, image)
    monkeypatch.setattr(packed, "LARGEST_GROUP", 100)
    assert "the pictures of its row group" in refusal(run)
    write(["x"])
    assert "no such row group" in refusal(run)
