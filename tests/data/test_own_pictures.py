"""Folders of pictures in users' own layouts: read, or refused with advice."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from coder_core.check_data import main as check_data
from coder_core.config.data import ReadingArguments
from coder_core.data.captioned.checking import decode_all
from coder_core.data.captioned.reading import read_captioned
from coder_core.data.joined_columns import read_table_columns
from tests.support.picture_folders import CAPTIONS, LAYOUTS, NAMES, draw
from tests.support.precomp_folders import reason, refusal

TRAIN_ALONE = {"dev_share": 0, "test_share": 0}
ITEMS = [{"id": n, "file_name": f"{n}.jpg", "image_id": n, "caption": f"a ring, {n}"} for n in (0, 1)]
OWN_FILES = {  # file, its content, flags
    "semicolons": ("own.csv", "foto;id;sentence\n./0.jpg;7;a ring, 0\n1.jpg;8;a ring, 1\n", {}),
    "a list": ("captions.json", json.dumps(ITEMS, indent=1), {}),
    "lines": ("own.jsonl", "\n".join(map(json.dumps, ITEMS)), {}),
    "without titles": ("own.tsv", "a ring, 0\t0.jpg\na ring, 1\t1.jpg\n", {}),
    "coco": ("own_train_captions.json", json.dumps({"images": ITEMS, "annotations": ITEMS}), {}),
}
NAMED = 'nr,a.jpg of,was,comment\n0,x,"a ring, 0",-\n1,x,"a ring, 1",-\n'
OWN_FILES["named"] = ("own.csv", NAMED, {"image_column": "nr", "caption_column": "was"})


@pytest.mark.parametrize("case", OWN_FILES)
def test_common_caption_tables_are_read(tmp_path, case):
    file, content, flags = OWN_FILES[case]
    (tmp_path / file).write_text(content)
    for row in (0, 1):
        (tmp_path / f"{row}.jpg").write_bytes(draw(row))
    train = read_captioned(tmp_path, ReadingArguments(**TRAIN_ALONE, **flags)).split("train")
    texts = [*train.captions, *(name[0] for name in train.image_names)]
    assert texts == ["a ring, 0", "a ring, 1", "0", "1"]
    assert [train.read(image) for image in (0, 1)] == [draw(0), draw(1)]


def own_names(number):
    return [f"{row}.jpg" for row in range(number)]


WRITTEN = {  # file of captions → its content for a picture name and a caption, and how the pictures lie
    "captions.csv": lambda name, text: f"D:\\own\\pictures\\{name},{text}",
    "captions.tsv": lambda name, text: f"{name[:-4]}\t {text}",  # ROCO's, without titles and endings
    "captions.txt": lambda name, text: f"/home/anna/own/pictures/{name}|{text}",
}


@pytest.mark.parametrize("file", WRITTEN)
def test_names_of_other_machines_and_without_endings_find_their_pictures(tmp_path, file):
    folder = tmp_path / "own/pictures"
    folder.mkdir(parents=True)
    for row, name in enumerate(own_names(12)):
        (folder / name).write_bytes(draw(row))
    lines = [WRITTEN[file](name, f"a ring of number {row}") for row, name in enumerate(own_names(12))]
    (tmp_path / "own" / file).write_text("".join(f"{line}\n" for line in lines))
    train = read_captioned(tmp_path / "own", ReadingArguments(**TRAIN_ALONE)).split("train")
    assert train.captions == [f"a ring of number {row}" for row in range(12)]
    assert [train.read(image) for image in range(12)] == [draw(row) for row in range(12)]


def test_file_names_find_pictures_in_deep_folders_unless_two_share_them(tmp_path):
    for row, name in enumerate(own_names(3)):
        (tmp_path / f"a/{row}").mkdir(parents=True)
        (tmp_path / f"a/{row}" / name).write_bytes(draw(row))
    (tmp_path / "layer1.json").write_text(
        json.dumps([{"image": f"{row}.jpg", "title": "a dish"} for row in range(3)])
    )
    train = read_captioned(tmp_path, ReadingArguments(**TRAIN_ALONE)).split("train")
    assert train.image_names == ["a/0/0.jpg", "a/1/1.jpg", "a/2/2.jpg"]
    (tmp_path / "a/1/0.jpg").write_bytes(draw(4))
    [error] = [
        f for f in read_captioned(tmp_path, ReadingArguments(**TRAIN_ALONE)).faults if f.severity == "error"
    ]
    assert "1 of 3 pictures are missing; the first: '0.jpg'" in error.found


LANGUAGES = {
    "own.jsonl": "\n".join(
        json.dumps({"image": f"{n}.jpg", "caption": {"en": f"one {n}", "zh": [f"yi {n}"]}}) for n in (0, 1)
    ),
    "own.csv": "image,caption_en,caption_zh\n0.jpg,one 0,yi 0\n1.jpg,one 1,yi 1\n",
    "own.json": json.dumps({f"{n}.jpg": [f"one {n}", f"yi {n}"] for n in (0, 1)}),
}


@pytest.mark.parametrize("file", LANGUAGES)
def test_captions_of_one_language_or_of_all_are_read(tmp_path, file):
    (tmp_path / file).write_text(LANGUAGES[file])
    for row in (0, 1):
        (tmp_path / f"{row}.jpg").write_bytes(draw(row))
    data = read_captioned(tmp_path, ReadingArguments(**TRAIN_ALONE))
    assert data.split("train").captions == ["one 0", "yi 0", "one 1", "yi 1"]
    named = file != "own.json"
    assert named == any("2 en, 2 zh" in fault.found for fault in data.faults)
    if named:
        reading = ReadingArguments(language="zh", **TRAIN_ALONE)
        assert read_captioned(tmp_path, reading).split("train").captions == ["yi 0", "yi 1"]
    reading = ReadingArguments(language="de", **TRAIN_ALONE)
    assert "has no captions of --language de" in str(refusal(read_captioned, tmp_path, reading))


def test_parquet_files_in_folders_of_splits_keep_them_and_every_caption(tmp_path):
    for n, split in enumerate(("train", "validation", "test")):
        columns = {"image": [{"bytes": draw(n)}], "caption2": ["b"], "caption10": ["c"], "caption": ["a"]}
        (tmp_path / "default" / split).mkdir(parents=True)
        pq.write_table(pa.table(columns), tmp_path / "default" / split / "0000.parquet")
    for name in ("dataset_infos.json", "dataset_info.json"):  # not Karpathy's
        (tmp_path / name).write_text("{}")
    assert "(parquet: " in reason(tmp_path)
    assert check_data([str(tmp_path), "--word-threshold=1"]) == 0
    data = read_captioned(tmp_path)
    found = [(split.name, split.read(0), split.captions) for split in data.splits]
    assert found == [(name, draw(n), ["a", "b", "c"]) for n, name in enumerate(("train", "dev", "test"))]
    assert [fault.severity for fault in data.faults] == ["note"]


def test_bytes_or_names_in_a_plain_parquet_column_are_pictures(tmp_path):
    for row in range(40):
        (tmp_path / f"{row}.jpg").write_bytes(draw(row))
    for value in (draw, "{}.jpg".format):
        column = [value(row) for row in range(40)]
        pq.write_table(pa.table({"jpg": column, "text": ["a ring"] * 40}), tmp_path / "own_val.parquet")
        split = read_captioned(tmp_path).split("val")
        assert [split.read(image) for image in (0, 20, 39)] == [draw(image) for image in (0, 20, 39)]


UNKNOWN = {  # files of a folder → parts of the message: what was found, the nearest layout, what to do
    "a table": (
        {"captions.csv": "nr,wort\n1,Hund\n", "p/a.jpg": ""},
        ("1 pictures ('p/a.jpg'), captions.csv with columns nr, wort", "(table)", "--image-column"),
    ),
    "a list": ({"own.json": '[{"nr": 7, "wort": "Hund"}]'}, ("own.json with columns nr, wort", "(table)")),
    "chat": ({"own.json": '[{"image": "a.jpg", "b": [{"c": 1}]}]'}, ("own.json with columns image, b",)),
    "pictures alone": ({"a.jpg": "", "b.jpg": ""}, ("2 pictures", "(imagefolder)", "metadata.csv")),
    "texts of other names": ({"a.jpg": "", "x/b.txt": ""}, ("1 .txt files", "(text-files)", "a.txt")),
    "another format": ({"a.bmp": "BM"}, ("('a.bmp')", "(imagefolder)", "mogrify")),
    "compressed": ({"0.tar.gz": ""}, ("('0.tar.gz')", "(webdataset)", "gunzip")),
    "addresses": ({"cc.tsv": "a dog\thttps://x/1.jpg\n"}, ("cc.tsv", "(webdataset)", "'https://x/1.jpg'")),
    "save_to_disk": (
        {"dataset_dict.json": "{}", "train/data-00000-of-00001.arrow": "", "train/dataset_info.json": "{}"},
        ("1 Arrow files of save_to_disk", "(parquet)", "load_from_disk"),
    ),
}


@pytest.mark.parametrize("case", UNKNOWN)
def test_an_unknown_layout_gives_the_same_message_in_all_commands(tmp_path, case, capsys):
    files, texts = UNKNOWN[case]
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(content)
    message = reason(tmp_path)
    assert message == str(refusal(read_captioned, tmp_path))
    assert check_data([str(tmp_path)]) == 1
    assert " ".join(message.split()) in " ".join(capsys.readouterr().out.split())
    assert [text for text in texts if text not in message] == []
    assert ".npy" not in message


def test_names_match_in_any_unicode_normal_form(tmp_path):
    LAYOUTS["flickr8k"](tmp_path)
    composed = f"caf\u00e9{NAMES[0]}"
    decomposed = f"cafe\u0301{NAMES[0]}"
    tokens = tmp_path / "Flickr8k.token.txt"
    for file in (tmp_path / "Flickr_8k.trainImages.txt", tokens):
        file.write_text(file.read_text().replace(NAMES[0], composed))
    tokens.write_text(f"{tokens.read_text()}{decomposed}#7\tmore\n")
    folder = tmp_path / "Flicker8k_Dataset"
    (folder / NAMES[0]).rename(folder / decomposed)
    data = read_captioned(tmp_path)
    train = data.split("train")
    assert [train.read(image) for image in range(6)] == [draw(number) for number in range(6)]
    texts = np.flatnonzero(train.image_of_text == 0)
    assert [train.captions[text] for text in texts] == [*CAPTIONS[NAMES[0]], "more"]
    assert len(data.faults) == 1  # the layout


def test_unsupported_picture_formats_are_named_with_supported_ones(tmp_path):
    LAYOUTS["imagefolder"](tmp_path)
    kinds = ("BMP", "GIF", "BMP")
    for name, kind in zip(NAMES[6:9], kinds, strict=True):
        Image.new("RGB", (9, 9)).save(tmp_path / "validation" / name, kind)
    [fault] = decode_all([read_captioned(tmp_path).split("dev")])
    texts = [
        *(f"the format is {kind}" for kind in kinds),
        "JPEG, PNG, WEBP or TIFF",
        "50 megapixels",
        "mogrify",
    ]
    assert [text for text in texts if text not in str(fault)] == []


def test_json_beside_a_picture_uses_image_folder_keys(tmp_path):
    (tmp_path / "a.jpg").write_bytes(draw(0))
    (tmp_path / "a.json").write_text('{"text": ["one", "two"]}')
    assert read_captioned(tmp_path).splits[0].captions == ["one", "two"]
    (tmp_path / "a.json").write_text('{"words": "one"}')
    assert "'words'; expected a column caption," in str(refusal(read_captioned, tmp_path))


ROWS = [{"image": f"{row}.jpg", "caption": f"a ring, {row}"} for row in range(4)]
LISTS = {
    "dataset.json": {"train": ROWS[:2], "val": ROWS[2:]},
    "own.json": {"about": "rings", "validation": ROWS[2:], "train": ROWS[:2]},
}


def write_four(folder, ending="jpg"):
    folder.mkdir(parents=True, exist_ok=True)
    for row in range(4):
        (folder / f"{row}.{ending}").write_bytes(draw(row))
    return folder


@pytest.mark.parametrize("name", LISTS)
def test_lists_of_splits_in_one_object_are_all_read(tmp_path, name):
    write_four(tmp_path)
    (tmp_path / name).write_text(json.dumps(LISTS[name]))
    captions = {split.name: split.captions for split in read_captioned(tmp_path).splits}
    assert captions == {"train": ["a ring, 0", "a ring, 1"], "dev": ["a ring, 2", "a ring, 3"]}


def test_a_second_list_that_is_not_read_is_a_warning(tmp_path):
    write_four(tmp_path)
    (tmp_path / "own.json").write_text(json.dumps({"first": ROWS[:2], "second": ROWS[2:]}))
    [warning] = [fault for fault in read_captioned(tmp_path).faults if fault.severity == "warning"]
    assert "1 lists of objects are not read; the first: 'second'" in warning.found


def test_the_delimiter_is_the_one_after_the_pictures_name(tmp_path):
    write_four(tmp_path / "Train" / "pics")
    lines = [f"{row['image']}|{row['caption']}\n" for row in ROWS]
    (tmp_path / "Train" / "list.txt").write_text("".join(lines))
    [train] = read_captioned(tmp_path).splits
    assert (train.name, train.captions) == ("train", [row["caption"] for row in ROWS])


def test_files_whose_names_differ_in_upper_case_and_spreadsheets_are_named(tmp_path):
    write_four(tmp_path / "a" / "images", "JPEG")
    (tmp_path / "a" / "own.csv").write_text("image,caption\n0.jpeg,a ring\n1.jpeg,a ring too\n")
    assert "but there is '0.JPEG'" in str(refusal(read_captioned, tmp_path / "a"))
    write_four(tmp_path / "b")
    (tmp_path / "b" / "own.xlsx").write_bytes(b"PK")
    message = str(refusal(read_captioned, tmp_path / "b"))
    assert "1 spreadsheets ('own.xlsx')" in message
    assert "Save own.xlsx as CSV" in message


def test_dialogues_of_another_form_are_named(tmp_path):
    turns = [{"from": "human", "value": "What?"}, {"from": "gpt", "value": "a ring"}]
    write = (tmp_path / "chat.json").write_text
    (tmp_path / "0.jpg").write_bytes(draw(0))
    rows = [{"image": "0.jpg", "conversations": turns}, {"image": ["0.jpg", "1.jpg"], "conversations": turns}]
    write(json.dumps([*rows, {"image": "0.jpg", "conversations": turns[:1]}]))
    data = read_captioned(tmp_path, ReadingArguments(**TRAIN_ALONE))
    assert data.split("train").captions == ["a ring"]
    facts = " ".join(fault.found for fault in data.faults)
    assert "1 dialogues are not about one picture and are left out" in facts
    assert "1 dialogues have no answer and are left out" in facts
    write(json.dumps([rows[0], {"image": "0.jpg", "conversations": "none"}]))
    assert "[1].conversations: is of type str; expected a list" in str(refusal(read_captioned, tmp_path))
    write(json.dumps([{**rows[0], "image": "0.jpg"}, 7]))
    assert "[1]: is of type int; expected an object" in str(refusal(read_captioned, tmp_path))


def test_spreadsheets_are_refused_with_the_command_that_converts_them(tmp_path):
    (tmp_path / "0.jpg").write_bytes(draw(0))
    (tmp_path / "own list.xlsx").write_bytes(b"PK\3\4")
    for refused in (
        refusal(read_captioned, tmp_path),
        refusal(read_table_columns, tmp_path / "own list.xlsx", ["0.jpg"], np.zeros(1, np.int64)),
    ):
        assert "soffice --headless --convert-to csv:" in str(refused)
        assert "own list.xlsx'" in str(refused)
