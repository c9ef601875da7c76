"""Groups in every layout: --group-column and --groups in check_data and in reading; splits dealt by group; warnings without
any flag."""

import csv
import json

import numpy as np
import pytest
from PIL import Image

from coder_core.check_data import main
from coder_core.config.data import ReadingArguments
from coder_core.console.faults import InputError
from coder_core.data.captioned.reading import read_captioned
from coder_core.data.content.report import check_content
from tests.support.precomp_folders import features, write_split

PRODUCTS = 30


def picture(file, seed):
    """Write a smooth picture that no other seed resembles."""
    random = np.random.default_rng(seed)
    small = Image.fromarray(random.integers(0, 255, (6, 6, 3), dtype="uint8"))
    file.parent.mkdir(parents=True, exist_ok=True)
    small.resize((72, 72), Image.Resampling.BICUBIC).save(file)


@pytest.fixture(scope="module")
def catalogue(tmp_path_factory):
    """A table of products with two pictures each, one title, an id and a price."""
    folder = tmp_path_factory.mktemp("catalogue")
    with (folder / "products.csv").open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["filename", "title", "product_id", "price"])
        for row in range(2 * PRODUCTS):
            picture(folder / f"{row}.jpg", row)
            table.writerow(
                [f"{row}.jpg", f"a fine thing of kind {row // 2}", f"P{row // 2:03}", row // 2 % 7]
            )
    return folder


def checked(capsys, path, *flags, status=0):
    assert main([str(path), *map(str, flags)]) == status
    return " ".join(capsys.readouterr().out.split())


def splits_of_products(data):
    """Return every product's splits."""
    found = {}
    for split in data.splits:
        for name in split.image_names:
            found.setdefault(int(name.removesuffix(".jpg")) // 2, set()).add(split.name)
    return found


def test_without_a_flag_leaks_and_repeated_texts_are_warnings_with_the_flag_to_give(catalogue, capsys):
    leaked = sum(len(splits) > 1 for splits in splits_of_products(read_captioned(catalogue)).values())
    assert leaked > 0
    text = checked(capsys, catalogue)
    assert "column 'product_id':" in text
    assert "of its values are in both" in text
    assert "add --group-column product_id" in text
    assert "have a text that another image has too" in text
    assert "column 'price'" not in text.replace("columns kept", "")
    assert "0 warnings" not in text


def test_a_group_column_deals_whole_groups_and_answers_the_warnings(catalogue, capsys):
    data = read_captioned(catalogue, ReadingArguments(group_column="product_id"))
    assert all(len(splits) == 1 for splits in splits_of_products(data).values())
    assert {split.name for split in data.splits} == {"train", "dev", "test"}
    for split in data.splits:
        product = np.array([int(name.removesuffix(".jpg")) // 2 for name in split.image_names])
        same = product[:, None] == product
        assert np.array_equal(split.image_groups[:, None] == split.image_groups, same)
    text = checked(capsys, catalogue, "--group-column=product_id")
    assert "60 of 60 images are in 30 groups" in text
    assert "a hash of each picture's group assigns" in text
    assert "0 errors, 0 warnings" in text


def test_a_file_of_groups_does_the_same_as_the_column(catalogue, tmp_path, capsys):
    file = tmp_path / "groups.tsv"
    file.write_text("".join(f"{row}.jpg\tP{row // 2:03}\n" for row in range(2 * PRODUCTS)))
    by_file = read_captioned(catalogue, ReadingArguments(groups=str(file)))
    by_column = read_captioned(catalogue, ReadingArguments(group_column="product_id"))
    for one, other in zip(by_file.splits, by_column.splits, strict=True):
        assert one.image_names == other.image_names
        assert np.array_equal(one.image_groups, other.image_groups)
    file.write_text("0.jpg\tA\n1.jpg\tA\n")
    some = read_captioned(catalogue, ReadingArguments(groups=str(file), dev_share=0, test_share=0)).split(
        "train"
    )
    assert some.image_groups[0] == some.image_groups[1] >= 0
    assert (some.image_groups[2:] < 0).all()
    assert len(np.unique(some.image_groups)) == 2 * PRODUCTS - 1


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (
            {"group_column": "brand"},
            "--group-column brand: is not a further column of the data; expected one of 'product_id'",
        ),
        ({"group_column": "product_id", "groups": "x.tsv"}, "--group-column and --groups: are both given"),
        ({"groups": "none.tsv"}, "none.tsv: is not a file"),
    ],
)
def test_groups_that_cannot_be_read_are_refused(catalogue, flags, message):
    with pytest.raises(InputError) as refused:
        read_captioned(catalogue, ReadingArguments(**flags))
    assert message in str(refused.value)


def test_a_column_of_captions_or_of_lists_is_no_group(tmp_path):
    picture(tmp_path / "a.jpg", 0)
    rows = [
        {"image": "a.jpg", "caption": text, "by": by, "tags": ["soft", "red"]}
        for text, by in (("a dog", 1), ("a cat", 2))
    ]
    (tmp_path / "captions.json").write_text(json.dumps(rows))
    for column, message in (("by", "has different values at the captions of one"), ("tags", "has lists of")):
        with pytest.raises(InputError, match=message):
            read_captioned(tmp_path, ReadingArguments(group_column=column))


def cuhk(folder):
    """Write CUHK-PEDES's reid_raw.json: pedestrians with two pictures and two captions each."""
    rows = []
    for row in range(8):
        picture(folder / "imgs" / f"{row}.jpg", row)
        captions = [f"A man in shirt {row}.", f"The man of picture {row} walks."]
        rows.append({"split": "train", "captions": captions, "file_path": f"{row}.jpg", "id": row // 2 + 1})
    (folder / "reid_raw.json").write_text(json.dumps(rows))


def karpathy(folder):
    images = []
    for row in range(8):
        picture(folder / "images" / f"{row}.jpg", row)
        sentences = [{"raw": f"a dog number {row}"}]
        images.append(
            {"imgid": row, "filename": f"{row}.jpg", "split": "train", "sentences": sentences, "id": row // 2}
        )
    (folder / "dataset_mine.json").write_text(json.dumps({"images": images, "dataset": "mine"}))


def coco(folder):
    (folder / "annotations").mkdir()
    for row in range(8):
        picture(folder / "train2017" / f"{row}.jpg", row)
    images = [{"id": row, "file_name": f"{row}.jpg", "id_of_thing": f"T{row // 2}"} for row in range(8)]
    captions = [{"id": 100 + row, "image_id": row, "caption": f"a dog {row}"} for row in range(8)]
    document = {"images": images, "annotations": captions}
    (folder / "annotations" / "captions_train2017.json").write_text(json.dumps(document))


def imagefolder(folder):
    lines = []
    for row in range(8):
        picture(folder / "train" / f"{row}.jpg", row)
        lines.append(json.dumps({"file_name": f"{row}.jpg", "text": f"a dog {row}", "sku": row // 2}))
    (folder / "train" / "metadata.jsonl").write_text("\n".join(lines))


def text_files(folder):
    for row in range(8):
        picture(folder / "train" / f"{row}.jpg", row)
        (folder / "train" / f"{row}.json").write_text(
            json.dumps({"caption": f"a dog {row}", "sku": f"S{row // 2}"})
        )


@pytest.mark.parametrize(
    ("write", "column"),
    [(cuhk, "id"), (karpathy, "id"), (coco, "id_of_thing"), (imagefolder, "sku"), (text_files, "sku")],
)
def test_every_layout_with_records_has_group_columns(tmp_path, write, column):
    write(tmp_path)
    data = read_captioned(tmp_path, ReadingArguments(group_column=column))
    [split] = data.splits
    thing = np.array([int(name.rpartition("/")[2].removesuffix(".jpg")) // 2 for name in split.image_names])
    assert len(thing) == 8
    assert np.array_equal(split.image_groups[:, None] == split.image_groups, thing[:, None] == thing)


def test_near_duplicates_of_one_group_are_no_finding_and_others_across_splits_are_a_warning(tmp_path, capsys):
    with (tmp_path / "table.csv").open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["filename", "text", "split", "sku"])
        for row in range(12):
            picture(tmp_path / f"{row}.png", row // 2 if row < 4 else row)
            Image.open(tmp_path / f"{row}.png").resize((80 + row, 80 + row)).save(tmp_path / f"{row}.png")
            split = "train" if row < 8 and row != 3 else "dev"
            table.writerow([f"{row}.png", f"some words about number {row * 37}", split, f"S{row // 2}"])
    text = checked(capsys, tmp_path)
    assert "1 groups of near-duplicates have pictures in more than one split" in text
    assert "add --group-column sku" in text
    grouped = read_captioned(tmp_path, ReadingArguments(group_column="sku"))
    assert check_content(grouped.splits).duplicate_pictures == ()
    assert len(check_content(read_captioned(tmp_path).splits).duplicate_pictures) == 2
    text = checked(capsys, tmp_path, "--group-column=sku")
    assert "dev and train: 1 groups are in both; the first of the two has 1 images of them" in text
    assert "near-duplicates" not in text


def test_region_features_take_groups_from_a_file_and_from_karpathys_keys(tmp_path, capsys):
    names = ["a.jpg", "b.jpg", "c.jpg", "d.jpg"]
    write_split(tmp_path / "precomp", "train", ids=names)
    groups = tmp_path / "groups.tsv"
    groups.write_text("a.jpg\tone\nb.jpg\tone\n")
    text = checked(capsys, tmp_path / "precomp", f"--groups={groups}")
    assert "2 of 4 images are in 1 groups" in text
    text = checked(capsys, tmp_path / "precomp", "--group-column=id", status=1)
    assert (
        "--group-column id: is not a further column of the data; expected data with further columns, or --groups"
        in text
    )

    folder = tmp_path / "karpathy"
    folder.mkdir()
    images = []
    for row, name in enumerate(names):
        sentences = [{"raw": f"a dog number {row}"}]
        split = "train" if row < 3 else "val"
        images.append(
            {"imgid": row, "filename": name, "split": split, "sentences": sentences, "id": row // 2}
        )
    (folder / "dataset.json").write_text(json.dumps({"images": images, "dataset": "mine"}))
    np.save(folder / "ims.npy", features())
    text = checked(capsys, folder, "--word-threshold=1")
    assert "column 'id': 1 of its values are in both, at 1 of 1 images of dev" in text
    text = checked(capsys, folder, "--group-column=id", "--word-threshold=1")
    assert "dev and train: 1 groups are in both" in text
