"""Input that was once misread without a word: an error or a warning names its place, or it is read as meant."""

import csv
import tarfile

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from coder_core.console.faults import collect
from coder_core.data.captioned.checking import decode_all
from coder_core.data.captioned.reading import read_captioned
from coder_core.data.captioned.splits import split_in
from tests.support.picture_folders import (
    CAPTIONS,
    LAYOUTS,
    NAMES,
    OF_SPLIT,
    SPLITS,
    add_to_tar,
    draw,
    write_lines,
    write_pictures,
)


def problems(path):
    """Return the errors and warnings of a data set of pictures, as texts."""
    faults = []
    data = collect(lambda: read_captioned(path), faults)
    return [str(fault) for fault in [*faults, *(data.faults if data else [])] if fault.severity != "note"]


def splits_of(path):
    """Return file name → split of all images."""
    data = read_captioned(path)
    return {name.rpartition("/")[2]: split.name for split in data.splits for name in split.image_names}


def test_a_member_that_occurs_twice_in_a_sample_is_an_error(tmp_path):
    with tarfile.open(tmp_path / "0.tar", "w") as content:
        for name, data in (("a.jpg", draw(0)), ("a.txt", b"one"), ("a.txt", b"two")):
            add_to_tar(content, name, data)
    assert "0.tar, 'a.txt': 'a.txt' is also the text of" in problems(tmp_path)[0]


def test_two_pictures_with_one_text_are_an_error(tmp_path):
    (tmp_path / "a.jpg").write_bytes(draw(0))
    (tmp_path / "a.png").write_bytes(draw(1))
    (tmp_path / "a.txt").write_text("a ring")
    assert "'a' is also the name of" in problems(tmp_path)[0]


def test_parquet_rows_of_one_name_are_one_picture_only_if_their_bytes_are_equal(tmp_path):
    numbers = [0, 1, 0, 2, 1]
    pictures = [{"bytes": draw(number), "path": "image.jpg"} for number in numbers]
    captions = [f"ring {row}" for row in range(5)]
    pq.write_table(pa.table({"image": pictures, "caption": captions}), tmp_path / "train-0-of-1.parquet")
    data = read_captioned(tmp_path)
    [split] = data.splits
    owners = split.image_of_text.tolist()
    assert [split.read(image) for image in owners] == [draw(number) for number in numbers]
    assert (len(split.rows), len(set(split.image_names))) == (3, 3)
    assert [str(fault) for fault in data.faults if "2 pictures share the name of another one" in fault.found]


@pytest.mark.parametrize(
    "values", [[0, 1], [True, False], [b"train", b"test"], [["train"], ["test"]], [1.0, 2.0]]
)
@pytest.mark.parametrize("packed", [True, False])
def test_a_split_column_that_is_not_text_is_an_error(tmp_path, values, packed):
    write_pictures(tmp_path, NAMES[:2])
    images = [{"bytes": draw(i)} for i in range(2)] if packed else NAMES[:2]
    table = pa.table({"image": images, "caption": ["a ring"] * 2, "split": values})
    pq.write_table(table, tmp_path / "own.parquet")
    assert f"column split: the split is {str(values[0])!r}" in problems(tmp_path)[0]


def test_repeated_columns_of_parquet_are_an_error(tmp_path):
    write_pictures(tmp_path, NAMES[:2])
    table = pa.Table.from_arrays(
        [pa.array(NAMES[:2]), pa.array(["a", "b"]), pa.array(["c", "d"])], ["image", "text", "text"]
    )
    pq.write_table(table, tmp_path / "own.parquet")
    assert "own.parquet: has two columns 'text'" in " ".join(problems(tmp_path))


NAMED = {  # name → split
    "cc3m-train-0001": "train",
    "cc3m-validation-0000": "dev",
    "valdata": "dev",
    "traindata": "train",
    "captions_val2014": "dev",
    "trainImages": "train",
    "devset": "dev",
    "tests": "test",
    "retrieval_latest": "",
    "train_val": "",
}


def test_words_of_names_stand_for_splits():
    assert {name: split_in(name) for name in NAMED} == NAMED


def deep_tables(root):
    """Write ROCO as Kaggle ships it."""
    for split, file in (("train", "traindata"), ("validation", "valdata"), ("test", "testdata")):
        names = OF_SPLIT[split.replace("validation", "dev")]
        write_pictures(root / "all_data" / split / "radiology/images", names)
        with (root / "all_data" / split / f"radiology/{file}.csv").open("w", newline="") as content:
            writer = csv.writer(content)
            writer.writerow(["id", "name", "caption"])
            writer.writerows([name[:-4], name, CAPTIONS[name][0]] for name in names)


def deep_texts(root):
    for name in NAMES:
        folder = write_pictures(root / "own/pictures" / f"{SPLITS[name]}set" / "part", [name])
        write_lines((folder / name).with_suffix(".txt"), CAPTIONS[name])


def shards(root):
    for split, names in OF_SPLIT.items():
        root.mkdir(exist_ok=True)
        with tarfile.open(root / f"cc3m-{split.replace('dev', 'validation')}-0000.tar", "w") as content:
            for name in names:
                add_to_tar(content, name, draw(NAMES.index(name)))
                add_to_tar(content, f"{name[:-4]}.txt", b"a ring")


def folders_of_splits(root):
    """Write one table without splits, and pictures in folders of splits."""
    for split, names in OF_SPLIT.items():
        write_pictures(root / f"{split}_images", names)
    rows = [f"{SPLITS[name]}_images/{name},{CAPTIONS[name][0]}" for name in NAMES]
    write_lines(root / "captions.txt", ["image,caption", *rows])


def bare_names(root):
    """Write one table of file names whose pictures are in folders of splits."""
    for split, names in OF_SPLIT.items():
        write_pictures(root / "pictures" / split, names)
    write_lines(
        root / "captions.csv", ["image,caption", *(f'{name},"{CAPTIONS[name][0]}"' for name in NAMES)]
    )


@pytest.mark.parametrize("write", [deep_tables, deep_texts, shards, folders_of_splits, bare_names])
def test_names_of_files_and_folders_are_the_split_at_any_depth(tmp_path, write):
    write(tmp_path / "data")
    assert splits_of(tmp_path / "data") == SPLITS
    assert not problems(tmp_path / "data")


def test_a_picture_in_two_splits_under_other_names_is_a_warning(tmp_path):
    LAYOUTS["text-files"](tmp_path)
    assert not decode_all(read_captioned(tmp_path).splits)
    (tmp_path / "test/011_drawn.jpg").write_bytes(draw(2))
    [fault] = decode_all(read_captioned(tmp_path).splits)
    assert (fault.severity, fault.place) == ("warning", "test and train")
    assert "1 pictures are the same files under other names" in fault.found
    assert "'test/011_drawn.jpg' is 'train/002_drawn.jpg'" in fault.found


def test_a_hash_that_deals_although_names_stand_for_splits_is_a_warning(tmp_path):
    LAYOUTS["kaggle"](tmp_path / "data")
    assert not problems(tmp_path / "data")
    (tmp_path / "data/lists_of_train_and_test").mkdir()
    [problem] = problems(tmp_path / "data")
    assert "although these names stand for splits: 'lists_of_train_and_test'" in problem


def test_the_guessed_caption_column_has_the_most_different_texts_and_equal_captions_are_a_warning(tmp_path):
    write_pictures(tmp_path)
    for number in range(12, 24):
        (tmp_path / f"{number:03d}_drawn.jpg").write_bytes(draw(number))
    rows = [[f"{n:03d}_drawn.jpg", "Navy Blue", f"Brand's checked shirt, number {n}"] for n in range(24)]
    with (tmp_path / "styles.csv").open("w", newline="") as content:
        csv.writer(content).writerows([["filename", "colour", "label"], *rows])
    data = read_captioned(tmp_path)
    assert {caption for split in data.splits for caption in split.captions} == {row[2] for row in rows}
    assert not problems(tmp_path)
    with (tmp_path / "styles.csv").open("w", newline="") as content:
        csv.writer(content).writerows([["filename", "colour"], *(row[:2] for row in rows)])
    assert "24 images have only 1 different captions" in problems(tmp_path)[0]
