"""Pictures with captions in every layout: the same pictures, captions and splits; every fault is named."""

import json
import pickle
import re
import tarfile
from typing import get_args

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from coder_core.check_data import main as check_data
from coder_core.config.data import Format, ReadingArguments
from coder_core.console.faults import InputError, collect
from coder_core.data.captioned.checking import decode_all
from coder_core.data.captioned.layouts import FORMATS
from coder_core.data.captioned.reading import read_captioned
from coder_core.data.captioned.splits import dealt_split
from coder_core.data.embeddings import Embeddings
from coder_core.runs.analysis.evaluate import describe_samples
from tests.support.picture_folders import CAPTIONS, LAYOUTS, NAMES, PICTURES, SPLITS, add_to_tar, draw
from tests.support.precomp_folders import reason, refusal

WITHOUT_SPLITS = ("kaggle", "flickr30k-results", "img2dataset", "visual-genome")
WITHOUT_TEST = ("coco", "parquet")


def number_of(split, image):
    """Return the number of the drawn picture that has this image's bytes."""
    return [draw(number) for number in range(PICTURES)].index(split.read(image))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_is_recognised_and_gives_the_same_pictures(layout, tmp_path, capsys):
    assert set(FORMATS) == set(LAYOUTS) == set(get_args(Format)) - {"auto"}
    LAYOUTS[layout](tmp_path)
    for file in [*tmp_path.rglob("*.*")]:
        file.with_name(f"._{file.name}").write_bytes(b"\0\5\26\7, written by macOS")
    data = read_captioned(tmp_path)
    assert data.layout == layout
    assert not [fault for fault in data.faults if "._" in fault.found]
    named = read_captioned(tmp_path, ReadingArguments(format=layout))
    assert [split.captions for split in named.splits] == [split.captions for split in data.splits]
    assert all(draw(number)[300:] not in pickle.dumps(data.splits) for number in range(PICTURES))
    seen = {}
    for split in data.splits:
        assert not decode_all([split])
        for image in range(len(split.rows)):
            number = number_of(split, image)
            seen[number] = split.name
            texts = [split.captions[text] for text in np.flatnonzero(split.image_of_text == image)]
            assert texts == CAPTIONS[NAMES[number]][: 1 if layout == "img2dataset" else 2]
    left_out = "test" if layout in WITHOUT_TEST else ""
    expected = {i: SPLITS[name] for i, name in enumerate(NAMES) if SPLITS[name] != left_out}
    dealt = any(fault.severity == "note" and "(seed 0)" in fault.found for fault in data.faults)
    assert dealt == (layout in WITHOUT_SPLITS)
    assert seen.keys() == expected.keys() if dealt else seen == expected
    assert check_data([str(tmp_path), "--word-threshold=1", "--split-seed=3", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert sum(split["images"] for split in document["splits"]) == len(seen)
    assert document["splits"][0]["layout"] == layout
    if layout not in ("precomp", "karpathy"):
        assert f"({layout}: " in reason(tmp_path)  # training names the layout and refuses


def test_check_data_reports_broken_missing_and_stray_pictures(tmp_path, capsys):
    LAYOUTS["flickr8k"](tmp_path)
    pictures = tmp_path / "Flicker8k_Dataset"
    command = [str(tmp_path), "--word-threshold=1"]
    (pictures / NAMES[0]).write_bytes(draw(0)[:-200])
    (pictures / NAMES[7]).unlink()
    (pictures / "stray.jpg").write_bytes(draw(0))
    assert check_data(command) == 1
    out = capsys.readouterr().out
    missing = f"1 of 3 pictures are missing; the first: '{NAMES[7]}'"
    assert [text for text in ("1 of 6 pictures", NAMES[0], missing, "'stray.jpg'") if text not in out] == []
    assert (out.count(NAMES[0]), out.count(NAMES[7])) == (1, 1)
    assert check_data([*command, "--skip-broken"]) == 0
    split = read_captioned(tmp_path, ReadingArguments(skip_broken=True)).split("val")
    assert split.image_names == NAMES[6:7] + NAMES[8:9]
    np.testing.assert_array_equal(split.image_of_text, [0, 0, 1, 1])


def test_assigned_splits_depend_only_on_names_and_keep_the_shares(tmp_path):
    names = [f"{number}.jpg" for number in range(4000)]
    shares = [ReadingArguments(dev_share=dev, test_share=0.3, split_seed=7) for dev in (0.2, 0.1)]
    splits, others = ([dealt_split(name, reading) for name in names] for reading in shares)
    assert splits.count("test") / 4000 == pytest.approx(0.3, abs=0.03)
    assert splits.count("dev") / 4000 == pytest.approx(0.2, abs=0.03)
    assert [split == "test" for split in splits] == [split == "test" for split in others]
    assert dealt_split("ä/1.jpg", ReadingArguments()) == "train"  # the same on every machine
    LAYOUTS["kaggle"](tmp_path / "folder")
    for name in NAMES:
        add_members(tmp_path / "0.tar", {f"a/{name}": draw(0), f"a/{name[:-3]}txt": b"a ring"})
    splits = []
    for path in (tmp_path / "folder", tmp_path / "0.tar"):
        data = read_captioned(path, ReadingArguments(test_share=0.4))
        splits.append({name[-13:]: split.name for split in data.splits for name in split.image_names})
    assert splits[0] == splits[1]
    assert len(splits[0]) == PICTURES


def test_invalid_shares_formats_and_folders_are_refused(tmp_path):
    LAYOUTS["kaggle"](tmp_path)
    (tmp_path / "empty").mkdir()
    for path, reading, place in (
        (tmp_path, ReadingArguments(dev_share=0.7, test_share=0.6), "--dev-share"),
        (tmp_path, ReadingArguments(format="coco"), str(tmp_path)),
        (tmp_path / "nowhere", None, str(tmp_path / "nowhere")),
        (tmp_path / "empty", None, str(tmp_path / "empty")),
    ):
        assert refusal(read_captioned, path, reading).faults[0].place.startswith(place)
    assert refusal(read_captioned(tmp_path).split, "x").faults[0].place == str(tmp_path)
    (tmp_path / "Images").rename(tmp_path / "own folder")  # the only one with pictures
    assert len(read_captioned(tmp_path).splits) >= 1
    elsewhere = tmp_path.with_name(f"{tmp_path.name} elsewhere")
    (tmp_path / "own folder").rename(elsewhere)
    assert "--pictures FOLDER" in str(refusal(read_captioned, tmp_path))
    refusal(read_captioned, tmp_path, pictures=tmp_path / "nowhere")
    assert len(read_captioned(tmp_path, pictures=elsewhere).splits) >= 1


def add_members(file, members):
    with tarfile.open(file, "a") as content:
        for name, data in members.items():
            if name == "link.jpg":
                link = tarfile.TarInfo(name)
                link.type = tarfile.SYMTYPE
                link.linkname = data.decode()
                content.addfile(link)
            else:
                add_to_tar(content, name, data)


def without_pages(content):
    """Return a Parquet file with zeros in place of its pages and an intact footer."""
    footer = len(content) - int.from_bytes(content[-8:-4], "little") - 8
    return content[:4] + bytes(footer - 4) + content[footer:]


def one_zero_block(content):
    return content[: -(-len(content.rstrip(b"\0")) // 512) * 512 + 512]


def with_title(*titles):
    """Return an edit that replaces the header of a CSV file."""
    return lambda content: ",".join(titles).encode() + content[content.index(b"\n") :]


def with_key(key, value):
    """Return an edit that repeats a key in the first object that has it."""
    written = f'"{key}": '.encode()
    return lambda content: content.replace(written, written + value + b", " + written, 1)


NAME = NAMES[0]
OTHER = NAMES[3]
DEV = NAMES[6]
HEAD = b"file_name,text\n"
LATIN = "csv line 2, byte 18: the byte 0xe9 is not UTF-8; expected UTF-8 text. Save the file as UTF-8 (iconv"
FIRST, SECOND = (f'{{"image_id": 6, "id": {12 + k}, "caption": "{CAPTIONS[DEV][k]}"}}' for k in range(2))
# file → edits: new content, text to append, replacements of text, or members of a tar file
CASES = {
    "flickr8k/Flickr8k.token.txt": [
        (("", f"{NAME}#0\tagain\n"), "error", f"line 25: '{NAME}#0'"),
        (("", "no tab here\n"), "error", "token.txt line 25: "),
        (("", "other.jpg.1#0\tin no list\n"), "note", "'other.jpg.1'"),
        (("\n", "\r"), "error", "token.txt line 1: the lines end in CR"),
    ],
    "flickr8k/Flickr_8k.devImages.txt": [
        (("", f"{NAME}\n"), "warning", f"'{NAME}'"),
        (("", "never.jpg\n"), "warning", "'never.jpg'"),
        (("", f"{DEV}\n"), "error", f"devImages.txt line 4: '{DEV}' is also"),
    ],
    "kaggle/captions.txt": [
        (("image,caption\n", ""), "note", "captions.txt line 1: "),
        (("", "nothing\n"), "error", "captions.txt line 26: "),
        ((CAPTIONS[OTHER][1], ""), "warning", "captions.txt line 9"),
        (lambda content: content + content[14:], "warning", "24 captions repeat another one"),
        (("", "bare.jpg,\n"), "warning", "'bare.jpg'"),
    ],
    "flickr30k-results/results.csv": [
        ((f"{OTHER}| 1| ", f"{OTHER}| 1   "), "warning", "results.csv: 1 lines"),
        (("", f"{OTHER}| 0| again\n"), "error", f"'{OTHER}| 0'"),
        (("", "a dog| 0| again\n"), "error", "results.csv line 26: is"),
        (("", f"{OTHER}| 9\n"), "warning", "results.csv line 26"),
    ],
    "flickr30k-annotations/flickr_annotations_30k.csv": [
        (('"[2, 3]"', '"[0, 3]"'), "error", "0 is also the sentid of"),
        (b"raw,filename\n[,x.jpg\n", "error", "line 2, column raw: is not JSON"),
        (with_title("raw", "raw", "split", "filename", "x"), "error", "'raw'"),
    ],
    "coco/annotations/captions_val2017.json": [
        ((SECOND, FIRST), "error", "annotations[1]: 12 is also the id of"),
        ((SECOND, '{"id": 98}'), "error", "annotations[1].image_id: the key is missing"),
        ((SECOND, '{"id": 9, "image_id": 99, "caption": "a"}'), "warning", "with image_id 99"),
        ((f"{FIRST}, {SECOND}", FIRST.replace("a ring, number 6", " ")), "warning", f"val2017/{DEV}'"),
        (b"[]", "error", "the file: is of type list"),
        (b"{", "error", "is not JSON"),
        (
            lambda content: content.replace(b"a ring", b"\xe4 ring"),
            "error",
            "captions_val2017.json line 1, byte ",
        ),
    ],
    "imagefolder/train/metadata.csv": [
        (b"000_drawn.jpg,a\n", "error", "metadata.csv line 1: the header is '000_drawn.jpg'"),
        (HEAD + b"000_drawn.jpg,a,b\n", "error", "line 2: has 3 fields, but the header has 2"),
        (b"file_name,width\n000_drawn.jpg,3\n", "error", "its columns are 'width'"),
        (HEAD + b"../../x.jpg,a\n", "error", "line 2: the name 'train/../../x.jpg'"),
        (HEAD + b"000_drawn.jpg,caf\xe9\n", "error", LATIN),
        (HEAD + b"000_drawn.jpg,\"['a', 'b']\"\n", "error", "(in CSV: one row or one column per caption)"),
        (HEAD + b"http://x/1.jpg,a\n" * 30, "error", ": 30 rows"),
        (with_title("file_name", "text", "text"), "error", "line 1: the title 'text' occ"),
        (with_title("file_name", "file_name", "text"), "error", "the title 'file_name' occ"),
        (("\r\n", "\r"), "error", "metadata.csv line 1: the lines"),
        (("ring", "r\0ng"), "error", "line 2: contains a NUL"),
    ],
    "imagefolder/test/metadata.parquet": [(without_pages, "error", "metadata.parquet: ")],
    "parquet/data/train-00000-of-00002.parquet": [(without_pages, "error", "00002.parquet: ")],
    "precomp/precomp/dev_ids.txt": [(("", "3\n"), "error", "7 ids for the 6 captions of dev_caps.txt")],
    "imagefolder/validation/metadata.jsonl": [
        (("a ring", "a\\u0000"), "error", "a NUL character"),
        (("a ring", "\\ud800"), "error", "half a character"),
        (with_key("file_name", b'"a.jpg"'), "error", "jsonl line 1: the key 'file_name'"),
    ],
    "precomp/id_mapping.json": [
        (lambda old: old.replace(b"000_", b"\xe900_", 1), "error", "id_mapping.json line 1, byte 8: the"),
        (with_key("0", b'"001_drawn.jpg"'), "error", "id_mapping.json line 1, column 24: the key '0'"),
    ],
    "table/own.tsv": [(("split", "title"), "error", "line 1: the title 'title' occurs twice")],
    "coco/annotations/captions_train2017.json": [
        (with_key("image_id", b"1"), "error", "the key 'image_id' occurs twice")
    ],
    "karpathy/dataset_own.json": [
        (with_key("filename", b'"001_drawn.jpg"'), "error", "the key 'filename' occurs twice")
    ],
    "text-files/train/000_drawn.txt": [
        (b"one dog\rtwo cats\r", "error", "000_drawn.txt line 1: the lines end in"),
        (b"one\ntw\0o\n", "error", "000_drawn.txt line 2: contains a NUL"),
        (b"one\ncaf\xe9", "error", "000_drawn.txt line 2, byte 4: the byte 0xe9"),
    ],
    "img2dataset/00000/000000000.txt": [(b"caf\xe9", "error", "000000000.txt line 1, byte 4: the byte 0xe9")],
    "webdataset/dev/0.tar": [
        (lambda content: content[:700], "error", "0.tar: cannot be read as a tar file"),
        (b"\x1f\x8b" + bytes(600), "error", "0.tar: cannot be read as a tar file"),
        (lambda content: content.partition(b"./._s0000007.jpg")[0], "error", "0.tar: was cut short: at byte"),
        (one_zero_block, "error", "0.tar: was cut"),
        (("s0000007.jpg", "s000000x.jpg"), "error", "0.tar: has neither a file nor an end at byte"),
        ({"../x.jpg": draw(0)}, "error", "'../x.jpg': the name contains .."),
        ({"/x.jpg": draw(0)}, "error", "'/x.jpg': the name is an absolute path"),
        ({"link.jpg": b"/etc/passwd"}, "error", "'link.jpg': "),
        ({"alone.txt": b"-", "s0000006.jpg": draw(0)}, "error", "'s0000006' is also the key of"),
        ({"latin.jpg": draw(0), "latin.txt": b"\xe4"}, "error", "latin'.txt line 1, byte 1: the byte 0xe4"),
        ({"alone.txt": b"no picture"}, "warning", "'alone'"),
        ({"bare.jpg": draw(0)}, "warning", "'dev/0/bare.jpg'"),
        ({"a.jpg": draw(0), "a.png": draw(1), "a.txt": b"one"}, "error", "'a' is also the picture of"),
        (
            {"a.jpg": draw(0), "a.json": b'{"text": "x", "text": "y"}'},
            "error",
            "line 1, column 15: the key 'text'",
        ),
        (
            {"a.jpg": draw(0), "a.json": b'{"text": "caf\xe9"}'},
            "error",
            "'a'.json line 1, byte 14: the byte 0xe9",
        ),
        ({"a.jpg": draw(0), "a.txt": b"one\rtwo\r"}, "error", "'a'.txt line 1: the lines end in CR alone"),
    ],
}


@pytest.mark.parametrize(
    ("path", "edit", "severity", "text"), [(path, *case) for path, cases in CASES.items() for case in cases]
)
def test_faults_name_the_file_and_its_line_or_object(tmp_path, path, edit, severity, text):
    layout, _, name = path.partition("/")
    LAYOUTS[layout](tmp_path)
    file = tmp_path / name
    whole = file.read_bytes()
    if isinstance(edit, dict):
        add_members(file, edit)
    elif isinstance(edit, tuple):
        old, new = (part.encode() for part in edit)
        file.write_bytes(whole.replace(old, new) if old else whole + new)
    else:
        file.write_bytes(edit if isinstance(edit, bytes) else edit(whole))
    assert file.read_bytes() != whole
    faults = []
    data = collect(lambda: read_captioned(tmp_path), faults)
    faults += data.faults if data else []
    assert [fault for fault in faults if fault.severity == severity and text in str(fault)]


def test_csv_quotes_are_not_part_of_captions(tmp_path):
    captions = {
        '"a dog, a cat"': "a dog, a cat",
        '"a ""big"" dog"': 'a "big" dog',
        '""" a dog"': '" a dog',
        ' "a dog, running"': "a dog, running",
        "a dog, a cat, a bird": "a dog, a cat, a bird",
        'a "big" dog, running': 'a "big" dog, running',
        '"Sit", says a man, "and wait"': '"Sit", says a man, "and wait"',
    }
    LAYOUTS["kaggle"](tmp_path)
    file = tmp_path / "captions.txt"
    line = f'"{NAME}","all in quotes"\n'
    file.write_text('"image","caption"\n' + line + "".join(f"{NAME},{written}\n" for written in captions))
    [split] = read_captioned(tmp_path).splits
    assert (split.captions, split.image_names) == (["all in quotes", *captions.values()], [NAME])
    file.write_text(f'{file.read_text()}{NAME},"two\nlines"\n')
    assert refusal(read_captioned, tmp_path).faults[0].place == f"{file} line 10"
    file.write_text(f'image_name,comment_number,comment\n{NAME},0, Two dogs, running\n{NAME},1,"7, 8"\n')
    assert read_captioned(tmp_path).splits[0].captions == ["Two dogs, running", "7, 8"]


def test_captions_keep_the_ids_of_their_layout(tmp_path):
    LAYOUTS["coco"](tmp_path / "coco")
    for split in read_captioned(tmp_path / "coco").splits:
        owners, numbers = np.divmod(split.caption_ids, 2)
        assert split.captions == [CAPTIONS[NAMES[i]][k] for i, k in zip(owners, numbers, strict=True)]
        names = [NAMES.index(name.rpartition("/")[2]) for name in split.image_names]
        assert owners.tolist() == [names[image] for image in split.image_of_text]
        rows = (np.ones((count, 2), np.float32) for count in (len(names), len(owners)))
        embedded = Embeddings(*rows, split.captions, split.image_of_text, split.image_names, pictures=split)
        assert describe_samples(embedded, len(names))["caption_ids"] is split.caption_ids
    LAYOUTS["flickr8k"](tmp_path / "flickr8k")
    assert all(split.caption_ids is None for split in read_captioned(tmp_path / "flickr8k").splits)


@pytest.mark.parametrize("layout", ["img2dataset", "webdataset"])
def test_json_captions_are_read_if_there_is_no_text_file(tmp_path, layout):
    members = {"a.jpg": draw(0), "a.json": b'{"caption": "from JSON", "status": "success"}'}
    members |= {"b.jpg": draw(0), "b.json": b'{"caption": null}'}
    add_members(tmp_path / "00000.tar", members)
    if layout == "img2dataset":
        with tarfile.open(tmp_path / "00000.tar") as content:
            content.extractall(tmp_path / "00000", filter="data")
        (tmp_path / "00000.tar").unlink()
    data = read_captioned(tmp_path)
    assert [split.captions for split in data.splits] == [["from JSON"]]
    assert "warning" in [fault.severity for fault in data.faults if "b.jpg" in fault.found]


def test_a_damaged_description_of_parquet_columns_is_named(tmp_path):
    """Damage each occurrence of a field's name in the file: it is read, or refused with an input error."""
    LAYOUTS["parquet"](tmp_path / "data")
    file = min((tmp_path / "data").rglob("*.parquet"))
    content = file.read_bytes()
    named = 0
    for found in re.finditer(b"bytes", content):
        file.write_bytes(content[: found.start()] + b"\xb1" + content[found.start() + 1 :])
        try:
            for split in read_captioned(tmp_path / "data").splits:
                for row in split.rows:
                    split.positions.read(int(row))
        except InputError:
            named += 1
    assert named


def test_a_broken_picture_in_a_parquet_file_is_named(tmp_path):
    LAYOUTS["parquet"](tmp_path)
    images = [{"bytes": content, "path": f"{i}.jpg"} for i, content in enumerate([draw(0), b"<html>", b""])]
    table = pa.table({"image": images, "caption": ["one"] * 3})
    pq.write_table(table, tmp_path / "data" / "test-00000-of-00001.parquet")
    data = read_captioned(tmp_path)
    for severity in ("error", "warning"):
        [fault] = decode_all([data.split("test")], skip_broken=severity == "warning")
        assert fault.severity == severity
        for text in ("2 of 3 pictures", "row group 0 row 1: cannot be decoded", "row 2: has 0 bytes"):
            assert text in fault.found
    train = data.split("train")  # rows can be read in any order
    assert [number_of(train, image) for image in (5, 0, 1, 4, 3, 2)] == [5, 0, 1, 4, 3, 2]
