"""Pictures with captions in every layout: the same pictures, captions and splits; what is wrong is named."""

from __future__ import annotations

import io
import json
import pickle
import tarfile
from pathlib import Path
from typing import get_args

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from coder_core.check_data import main as check_data
from coder_core.config.data import Format, ReadingArguments
from coder_core.data.captioned.checking import decode_all
from coder_core.data.captioned.layouts import FORMATS
from coder_core.data.captioned.reading import CaptionedSplit, dealt_split, read_captioned
from coder_core.data.dataset import read_split
from coder_core.data.embeddings import Embeddings
from coder_core.runs.analysis.evaluate import describe_samples
from tests.support.picture_folders import CAPTIONS, LAYOUTS, NAMES, PICTURES, SPLITS, add_to_tar, draw
from tests.support.precomp_folders import refusal

WITHOUT_SPLITS = ("kaggle", "flickr30k-results", "img2dataset")
WITHOUT_TEST = ("coco", "parquet")
SKIP = ReadingArguments(skip_broken=True)


def number_of(split: CaptionedSplit, image: int) -> int:
    """Number of the drawn picture, by its bytes."""
    return [draw(number) for number in range(PICTURES)].index(split.read(image))


def messages(path: Path, reading: ReadingArguments | None = None, severity: str = "") -> str:
    """All faults of a data set that can be read."""
    faults = read_captioned(path, reading).faults
    return "\n".join(str(fault) for fault in faults if severity in ("", fault.severity))


def test_every_layout_has_its_writer_and_its_flag() -> None:
    assert set(FORMATS) == set(LAYOUTS) == set(get_args(Format)) - {"auto"}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_is_recognised_and_gives_the_same_pictures(
    layout: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    LAYOUTS[layout](tmp_path / "data")
    data = read_captioned(tmp_path / "data")
    assert data.layout == layout
    assert f"read as {layout}: " in str(data.faults[0])
    named = read_captioned(tmp_path / "data", ReadingArguments(format=layout))  # type: ignore[arg-type]
    assert [split.captions for split in named.splits] == [split.captions for split in data.splits]
    seen: dict[int, str] = {}
    for split in data.splits:
        assert not decode_all(split)
        for image in range(len(split.rows)):
            number = number_of(split, image)
            seen[number] = split.name
            texts = [split.captions[text] for text in np.flatnonzero(split.image_of_text == image)]
            assert texts == (
                CAPTIONS[NAMES[number]][:1] if layout == "img2dataset" else CAPTIONS[NAMES[number]]
            )
    wanted = {i: SPLITS[name] for i, name in enumerate(NAMES)}
    if layout in WITHOUT_SPLITS:
        assert set(seen) == set(wanted)
        assert "a hash of every picture's name deals out 10% as test" in messages(tmp_path / "data")
    else:
        assert seen == {
            i: split for i, split in wanted.items() if layout not in WITHOUT_TEST or split != "test"
        }
    # the command reads them alike, and training says what they are
    assert check_data([str(tmp_path / "data"), "--word-threshold=1", "--split-seed=3", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert sum(split["images"] for split in document["splits"]) == len(seen)
    assert document["splits"][0]["layout"] == layout
    if layout not in ("precomp", "karpathy"):
        assert f"holds pictures with captions ({layout}: " in str(
            refusal(read_split, tmp_path / "data", "train")
        )


def test_the_command_prints_a_table_and_the_verdict(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    LAYOUTS["flickr8k"](tmp_path)
    (tmp_path / "Flicker8k_Dataset" / NAMES[0]).write_bytes(draw(0)[:-200])
    (tmp_path / "Flicker8k_Dataset" / NAMES[7]).unlink()
    (tmp_path / "Flicker8k_Dataset" / "stray.jpg").write_bytes(draw(0))
    assert check_data([str(tmp_path), "--word-threshold=1"]) == 1
    out = capsys.readouterr().out
    assert "train: 1 of 6 pictures cannot be decoded; the first: " in out
    assert "dev of " in out
    assert f"1 of 3 pictures are missing; the first: '{NAMES[7]}'" in out
    assert "1 picture files have no caption and are not read; the first: 'stray.jpg'" in out
    assert "data would be refused" in out
    assert check_data([str(tmp_path), "--word-threshold=1", "--skip-broken"]) == 0
    assert "this data can be embedded" in capsys.readouterr().out
    split = read_captioned(tmp_path, SKIP).split("val")
    assert split.image_names == NAMES[6:7] + NAMES[8:9]
    np.testing.assert_array_equal(split.image_of_text, [0, 0, 1, 1])


def test_adding_pictures_moves_none_and_the_shares_hold() -> None:
    reading = ReadingArguments(dev_share=0.2, test_share=0.3, split_seed=7)
    splits = [dealt_split(f"{number}.jpg", reading) for number in range(4000)]
    assert splits.count("test") / 4000 == pytest.approx(0.3, abs=0.03)
    assert splits.count("dev") / 4000 == pytest.approx(0.2, abs=0.03)
    other = [
        dealt_split(f"{number}.jpg", ReadingArguments(dev_share=0.1, test_share=0.3, split_seed=7))
        for number in range(4000)
    ]
    assert [name for name in splits if name == "test"] == [name for name in other if name == "test"]
    assert dealt_split("ä/1.jpg", ReadingArguments()) == "train"  # the same on every machine


def test_shares_that_are_none_and_formats_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    LAYOUTS["kaggle"](tmp_path)
    assert "are 0.7 and 0.6" in str(
        refusal(read_captioned, tmp_path, ReadingArguments(dev_share=0.7, test_share=0.6))
    )
    assert "is not of the format coco" in str(
        refusal(read_captioned, tmp_path, ReadingArguments(format="coco"))
    )
    assert "there is no such file" in str(refusal(read_captioned, tmp_path / "nowhere"))
    (tmp_path / "empty").mkdir()
    assert "in no known format" in str(refusal(read_captioned, tmp_path / "empty"))
    assert 'there is no split "x"' in str(refusal(read_captioned(tmp_path).split, "x"))
    assert "there is no such folder" in str(
        refusal(read_captioned, tmp_path, None, pictures=tmp_path / "nowhere")
    )
    (tmp_path / "Images").rename(tmp_path / "elsewhere")
    assert "name it with --pictures FOLDER" in str(refusal(read_captioned, tmp_path)).replace("Name", "name")
    assert len(read_captioned(tmp_path, pictures=tmp_path / "elsewhere").splits) >= 1


def test_faults_of_flickr_files_name_the_line(tmp_path: Path) -> None:
    LAYOUTS["flickr8k"](tmp_path / "f")
    tokens = tmp_path / "f" / "Flickr8k.token.txt"
    whole = tokens.read_text()
    tokens.write_text(whole + f"{NAMES[0]}#0\tagain\nno tab here\n")
    told = str(refusal(read_captioned, tmp_path / "f"))
    assert f"token.txt line 25: '{NAMES[0]}#0' is also the number of {tokens} line 1" in told
    assert "token.txt line 26: is 'no tab here'" in told
    tokens.write_text(whole + "other.jpg.1#0\ta picture in no list\n")
    assert "1 images are in no list of a split and are left out; the first: 'other.jpg.1'" in messages(
        tmp_path / "f"
    )
    dev = tmp_path / "f" / "Flickr_8k.devImages.txt"
    dev.write_text(dev.read_text() + f"{NAMES[0]}\nnever.jpg\n")
    told = messages(tmp_path / "f", severity="warning")
    assert f"1 pictures are in both; the first: '{NAMES[0]}'" in told
    assert "1 images of the lists have no caption and are left out; the first: 'never.jpg'" in told

    LAYOUTS["kaggle"](tmp_path / "k")
    captions = tmp_path / "k" / "captions.txt"
    captions.write_text(captions.read_text().removeprefix("image,caption\n"))
    assert "captions.txt line 1: is no header but a caption" in messages(tmp_path / "k", severity="note")
    assert sum(len(split.captions) for split in read_captioned(tmp_path / "k").splits) == 24
    captions.write_text(f"image,caption\n{NAMES[0]},\nnothing\n")
    assert "line 3: is 'nothing'; expected image.jpg, a comma" in str(refusal(read_captioned, tmp_path / "k"))
    captions.write_text(f"image,caption\n{NAMES[0]},\n{NAMES[1]},\n{NAMES[1]},two\n")
    told = messages(tmp_path / "k", severity="warning")
    assert "2 captions are empty and are left out; the first: " in told
    assert f"1 images have no caption and are left out; the first: '{NAMES[0]}'" in told

    LAYOUTS["flickr30k-results"](tmp_path / "r")
    results = tmp_path / "r" / "results.csv"
    results.write_text(results.read_text().replace(f"{NAMES[3]}| 1| ", f"{NAMES[3]}| 1   "))
    assert "1 lines lack the bar before the comment" in messages(tmp_path / "r", severity="warning")
    assert any(CAPTIONS[NAMES[3]][1] in split.captions for split in read_captioned(tmp_path / "r").splits)
    results.write_text(results.read_text() + f"{NAMES[3]}| 0| again\n")
    told = str(refusal(read_captioned, tmp_path / "r"))
    assert f"'{NAMES[3]}| 0' is also the number of {results} line 8" in told

    LAYOUTS["flickr30k-annotations"](tmp_path / "a")
    file = tmp_path / "a" / "flickr_annotations_30k.csv"
    file.write_text(file.read_text().replace('"[2, 3]"', '"[0, 3]"'))
    assert "0 is also the sentid of" in str(refusal(read_captioned, tmp_path / "a"))
    file.write_text("raw,filename\n[broken,x.jpg\n")
    assert "line 2, column raw: is not JSON" in str(refusal(read_captioned, tmp_path / "a"))


def test_captions_keep_the_ids_of_their_layout(tmp_path: Path) -> None:
    for layout in ("coco", "flickr8k"):
        LAYOUTS[layout](tmp_path / layout)
    data = read_captioned(tmp_path / "coco")
    for split in data.splits:
        names = [name.rpartition("/")[2] for name in split.image_names]
        assert split.caption_ids is not None
        assert split.captions == [
            CAPTIONS[NAMES[number // 2]][number % 2] for number in split.caption_ids.tolist()
        ]
        assert [NAMES[number // 2] for number in split.caption_ids] == [
            names[image] for image in split.image_of_text
        ]
        rows = np.ones((len(names), 2), np.float32), np.ones((len(split.captions), 2), np.float32)
        embedded = Embeddings(*rows, split.captions, split.image_of_text, split.image_names, pictures=split)
        assert describe_samples(embedded, len(names))["caption_ids"] is split.caption_ids
    assert all(split.caption_ids is None for split in read_captioned(tmp_path / "flickr8k").splits)


def test_faults_of_coco_name_the_object(tmp_path: Path) -> None:
    LAYOUTS["coco"](tmp_path)
    file = tmp_path / "annotations" / "captions_val2017.json"
    content = json.loads(file.read_text())
    content["annotations"] += [
        content["annotations"][0],
        {"image_id": 99, "id": 99, "caption": "a"},
        {"id": 98},
    ]
    file.write_text(json.dumps(content))
    told = str(refusal(read_captioned, tmp_path))
    assert "annotations[6]: 12 is also the id of" in told
    assert "annotations[8].image_id: the key is missing" in told
    assert "annotations[8].caption: the key is missing" in told
    del content["annotations"][8], content["annotations"][6]
    content["annotations"][0]["caption"] = content["annotations"][1]["caption"] = " "
    file.write_text(json.dumps(content))
    told = messages(tmp_path, severity="warning")
    assert (
        "1 captions belong to no image of the file and are left out; the first: annotations with image_id 99"
        in told
    )
    assert f"1 images have no caption and are left out; the first: 'val2017/{NAMES[6]}'" in told
    file.write_text("[]")
    assert "the file: is of type list" in str(refusal(read_captioned, tmp_path))
    file.write_text("{")
    assert "is not JSON" in str(refusal(read_captioned, tmp_path))


HEAD = b"file_name,text\n"


@pytest.mark.parametrize(
    ("content", "place"),
    [
        (b"000_drawn.jpg,a\n", "metadata.csv line 1: the header is '000_drawn.jpg'"),
        (HEAD + b"000_drawn.jpg,a,b,c,d\n", "metadata.csv line 2: has 5 fields, the header 2"),
        (b"file_name,width\n000_drawn.jpg,3\n", "holds no captions: its columns are 'width'"),
        (HEAD + b"../../x.jpg,a\n", "line 2: the name 'train/../../x.jpg' holds .."),
        (HEAD + b"\xff,x\n", "is not UTF-8"),
    ],
)
def test_faults_of_image_folders_name_the_row(tmp_path: Path, content: bytes, place: str) -> None:
    LAYOUTS["imagefolder"](tmp_path)
    (tmp_path / "train" / "metadata.csv").write_bytes(content)
    assert place in str(refusal(read_captioned, tmp_path))


@pytest.mark.parametrize("name", ["imagefolder", "parquet", "coco"])
def test_a_damaged_file_of_captions_is_named(tmp_path: Path, name: str) -> None:
    """Empty pages of parquet before a whole footer; a byte of Latin-1 in COCO's JSON."""
    LAYOUTS[name](tmp_path)
    file = sorted(tmp_path.rglob("*.json" if name == "coco" else "*.parquet"))[0]
    damaged = file.read_bytes().replace(b"a ring", b"\xe4 ring")
    if name != "coco":
        footer = len(damaged) - int.from_bytes(damaged[-8:-4], "little") - 8
        damaged = damaged[:4] + bytes(footer - 4) + damaged[footer:]
    file.write_bytes(damaged)
    assert refusal(read_captioned, tmp_path).faults[0].place == str(file)


def add_members(file: Path, members: dict[str, bytes]) -> None:
    with tarfile.open(file, "a") as content:
        for name, data in members.items():
            add_to_tar(content, name, data)


@pytest.mark.parametrize(
    ("members", "place"),
    [
        ({"../x.jpg": draw(0)}, "'../x.jpg': the name holds .."),
        ({"/x.jpg": draw(0)}, "'/x.jpg': the name is an absolute path"),
        ({"alone.txt": b"no picture", "s0000006.jpg": draw(0)}, "'s0000006' is also the key of"),
        ({"latin.jpg": draw(0), "latin.txt": "ä".encode("latin-1")}, "latin'.txt, byte 1: the byte 0xe4"),
    ],
)
def test_members_of_tar_files_stay_inside(tmp_path: Path, members: dict[str, bytes], place: str) -> None:
    LAYOUTS["webdataset"](tmp_path)
    add_members(tmp_path / "dev" / "0.tar", members)
    assert place in str(refusal(read_captioned, tmp_path))


def test_odd_members_and_cut_tar_files_are_named(tmp_path: Path) -> None:
    LAYOUTS["webdataset"](tmp_path)
    file = tmp_path / "dev" / "0.tar"
    whole = file.read_bytes()
    with tarfile.open(file, "a") as content:
        link = tarfile.TarInfo("s9.jpg")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        content.addfile(link)
    assert "'s9.jpg': is not a plain file" in str(refusal(read_captioned, tmp_path))
    file.write_bytes(whole)
    add_members(file, {"alone.txt": b"no picture", "bare.jpg": draw(0)})
    told = messages(tmp_path, severity="warning")
    assert "1 captions have no picture of the same name" in told
    assert "1 images have no caption and are left out; the first: 'dev/0/bare.jpg'" in told
    for damaged in (whole[:700], b"\x1f\x8b" + bytes(600)):
        file.write_bytes(damaged)
        assert "0.tar: cannot be read as a tar file" in str(refusal(read_captioned, tmp_path))


@pytest.mark.parametrize("layout", ["img2dataset", "webdataset"])
def test_captions_in_json_are_read_where_no_text_lies_beside(tmp_path: Path, layout: str) -> None:
    members = {"a.jpg": draw(0), "a.json": b'{"caption": "from JSON", "status": "success"}'}
    members |= {"b.jpg": draw(0), "b.json": b'{"caption": null}'}
    if layout == "webdataset":
        add_members(tmp_path / "00000.tar", members)
    else:
        (tmp_path / "00000").mkdir()
        for name, data in members.items():
            (tmp_path / "00000" / name).write_bytes(data)
    assert [split.captions for split in read_captioned(tmp_path).splits] == [["from JSON"]]
    assert "1 images have no caption and are left out" in messages(tmp_path, severity="warning")


def test_a_broken_parquet_file_or_picture_in_it_is_named(tmp_path: Path) -> None:
    LAYOUTS["parquet"](tmp_path)
    rows = [
        {"image": {"bytes": content, "path": f"{i}.jpg"}, "caption": "one"}
        for i, content in enumerate([draw(0), b"<html>", b""])
    ]
    file = tmp_path / "data" / "test-00000-of-00001.parquet"
    pq.write_table(pa.Table.from_pylist(rows), file)
    [fault] = decode_all(read_captioned(tmp_path).split("test"))
    assert fault.severity == "error"
    assert "2 of 3 pictures cannot be decoded" in fault.found
    assert "row group 0 row 1: cannot be decoded" in fault.found
    assert "row 2: holds no bytes" in fault.found
    assert decode_all(read_captioned(tmp_path).split("test"), skip_broken=True)[0].severity == "warning"
    # asked for in any order, every row is its own
    train = read_captioned(tmp_path).split("train")
    assert [number_of(train, image) for image in (5, 0, 1, 4, 3, 2)] == [5, 0, 1, 4, 3, 2]


def test_ids_that_do_not_fit_the_captions_are_refused(tmp_path: Path) -> None:
    LAYOUTS["precomp"](tmp_path)
    file = tmp_path / "precomp" / "dev_ids.txt"
    file.write_text(file.read_text() + "3\n")
    assert "7 ids for the 6 captions of dev_caps.txt" in str(refusal(read_captioned, tmp_path))


def test_memory_holds_names_and_positions_not_pictures(tmp_path: Path) -> None:
    """A hundred times the pixels leave what is kept as it was."""
    sizes = []
    for pixels in (10, 1000):
        noise = np.random.default_rng(0).integers(0, 255, (pixels, pixels, 3), np.uint8)
        buffer = io.BytesIO()
        Image.fromarray(noise).save(buffer, "PNG")
        add_members(tmp_path / f"{pixels:04d}.tar", {"a.png": buffer.getvalue(), "a.txt": b"noise"})
        data = read_captioned(tmp_path / f"{pixels:04d}.tar")
        assert all(not decode_all(split) for split in data.splits)
        sizes.append(len(pickle.dumps(data.splits)))
    assert abs(sizes[1] - sizes[0]) < 50
