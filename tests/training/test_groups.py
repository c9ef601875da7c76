"""--groups and --equal-texts in training: pairs of a group or with equal texts are not negatives; a run with a bank of two
ids per pair resumes bit for bit; groups of both train and dev are named."""

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch

from coder_core.config.checks import problems
from coder_core.console.faults import InputError
from coder_core.evaluate import main as evaluate
from coder_core.evaluation.relevance import text_numbers, widened
from coder_core.model.run_towers import open_towers
from coder_core.objectives.pairs import same_image_negatives
from coder_core.runs.analysis.read import open_analysis
from coder_core.training.launch import start_run
from coder_core.training.prepare import Inputs, make_objective, prepare
from tests.commands.test_groups_of_data import picture as save_picture
from tests.support.tiny_runs import (
    assert_same_run,
    changed,
    newest_state,
    printed,
    quiet,
    tiny_config,
    write_tiny_data,
)
from tests.support.tiny_towers import tower_config, write_tiny_clip
from tests.support.trained_runs import prepared_again, stop_during, train_on

IMAGES = 20


@pytest.fixture(scope="module")
def catalogue(tmp_path_factory):
    """Twenty pictures with two captions each: pictures 2k and 2k + 1 show product k and share their first caption; three
    products share a text. Dev has four pictures, the first of them of product 0."""
    folder = write_tiny_data(tmp_path_factory.mktemp("catalogue"))
    for split in ("train", "dev"):
        lines = (folder / f"{split}_caps.txt").read_text().splitlines()
        lines = [f"star {number} {line}" for number, line in enumerate(lines)]
        if split == "train":
            lines[2::4] = [f"{title} " for title in lines[0::4]]  # trailing spaces do not count
            lines[1] = lines[5] = lines[9] = "the same words"
        (folder / f"{split}_caps.txt").write_text("".join(f"{line}\n" for line in lines))
        count = len(lines) // 2
        (folder / f"{split}_ids.txt").write_text("".join(f"{split}{row}.jpg\n" for row in range(count)))
    rows = [f"train{row}.jpg\tproduct {row // 2}\n" for row in range(IMAGES)]
    rows += ["dev0.jpg\tproduct 0\n", "dev1.jpg\tproduct 90\n", "dev2.jpg\tproduct 90\n"]
    (folder / "groups.tsv").write_text("".join(rows))
    return folder


def notes(prepared):
    return " ".join(map(str, prepared.faults))


def test_equal_texts_are_not_negatives_once_they_exceed_one_percent(catalogue):
    prepared = prepare(tiny_config(catalogue))
    assert "--equal-texts match: 23 of 40 captions have a text that another image has too" in notes(prepared)
    ids = prepared.data.pair_ids
    train = prepared.data.train
    assert ids.shape[:2] == (40, 2), "of the image and of the caption of every pair"
    assert np.array_equal(ids[:, 0, 0], train.image_of_text)
    assert ids[0, 1, 1] == ids[2, 1, 1]
    assert len(np.unique(ids[:, 1, 1])) == 28
    relevant = widened(train.image_of_text, train.n_images, captions=train.captions).i2t
    right = relevant.contains(train.image_of_text[:, None], np.arange(40))
    pairs = torch.from_numpy(ids)
    assert np.array_equal(~same_image_negatives(pairs, pairs).numpy(), right | right.T)
    assert (right & (text_numbers(train.captions)[:, None] != text_numbers(train.captions))).any()
    batch = prepared.batches(0)
    assert np.array_equal(batch.pair_ids, ids[batch.text_ids])
    labels = prepare(tiny_config(catalogue, equal_texts="label"))
    assert labels.data.pair_ids is None
    assert "--equal-texts label: 23 of 40" in notes(labels)
    literal = prepare(tiny_config(catalogue, same_image_negatives=True))
    assert literal.data.pair_ids is None
    assert "--equal-texts label: 23 of 40" in notes(literal)


def test_pairs_of_a_group_are_not_negatives_and_a_group_in_two_splits_is_named(catalogue):
    config = tiny_config(catalogue, groups=str(catalogue / "groups.tsv"), equal_texts="label")
    prepared = prepare(config)
    ids = prepared.data.pair_ids
    owner = prepared.data.train.image_of_text
    assert np.array_equal(ids[:, None] == ids, owner[:, None] // 2 == owner // 2)
    assert "20 of 20 images are in 10 groups; 3 lines are about other images" in notes(prepared)
    assert "dev and train: 1 groups are in both; the first of the two has 1 images of them" in notes(prepared)
    share = prepare(changed(config, train_part=0.5))
    product = share.data.train.image_of_text // 2
    kept = share.data.pair_ids
    assert np.array_equal(kept[:, None] == kept, product[:, None] == product)
    by_both = prepare(changed(config, equal_texts="match"))
    assert "--equal-texts match: 3 of 40 captions have a text that another group has too" in notes(by_both)
    assert np.array_equal(by_both.data.pair_ids[:, 0, 0], ids)
    [conflict] = problems(changed(config, same_image_negatives=True))
    assert "cannot be used with --same-image-negatives" in str(conflict)
    with pytest.raises(InputError, match=r"names no image of the data; expected names such as train0\.jpg"):
        prepare(changed(config, groups=str(write_groups(catalogue / "none.tsv"))))


def write_groups(file):
    file.write_text("other.jpg\tproduct 1\n")
    return file


@pytest.mark.parametrize("flags", [{}, {"equal_texts": "label"}])
def test_a_run_with_groups_bank_and_prototypes_resumes_bit_for_bit(catalogue, tmp_path, flags):
    values = {"groups": str(catalogue / "groups.tsv"), "prototypes": 6, **flags}
    config = tiny_config(catalogue, **values)
    console = quiet()
    whole = start_run(config, tmp_path / "whole", console)
    columns = newest_state(whole).tensors("memory")["bank.image_ids"].shape
    assert columns == ((13,) if flags else (13, 2, 4))
    stopped = stop_during(whole, tmp_path / "stopped", 7)
    train_on(stopped, *prepared_again(stopped))
    assert_same_run(stopped, whole)
    assert f"--equal-texts {flags.get('equal_texts', 'match')}" in printed(console)
    groups = open_analysis(whole, "dev").image_groups
    assert groups[1] == groups[2]
    assert len(np.unique(groups)) == 3


def test_partners_are_left_out_of_the_prototypes_softmax(catalogue):
    config = tiny_config(catalogue, groups=str(catalogue / "groups.tsv"), prototypes=6)
    prepared = prepare(config)
    [part] = [
        part for part in make_objective(config, prepared, "cpu").parts if part.state_file == "prototypes"
    ]
    rows, others = part.partners.of(prepared.batches(0).text_ids)
    ids = prepared.data.pair_ids[prepared.batches(0).text_ids]
    every = torch.from_numpy(prepared.data.pair_ids)
    expected = ~same_image_negatives(torch.from_numpy(ids), every).numpy()
    found = np.zeros_like(expected)
    found[rows, others] = True
    assert np.array_equal(found, expected)
    alone = make_objective(
        replace(config), prepare(tiny_config(catalogue, prototypes=6, equal_texts="label")), "cpu"
    )
    assert [part.partners for part in alone.parts if part.state_file == "prototypes"] == [None]


def test_evaluate_uses_the_groups_of_the_run_without_a_flag(catalogue, tmp_path, capsys):
    groups = tmp_path / "groups.tsv"
    shutil.copy(catalogue / "groups.tsv", groups)
    config = tiny_config(catalogue, groups=str(groups), epochs=1)
    run = start_run(config, tmp_path / "run", quiet())

    def evaluated(*flags):
        out = tmp_path / "out.json"
        assert evaluate([str(run), *flags, f"--json={out}", "--overwrite"]) == 0
        rows = json.loads(out.read_text())["runs"]
        return [name.removeprefix(str(run)).strip() for name in rows]

    assert evaluated("--split=dev") == ["", "by group"]
    assert evaluated("--split=train", "--equal-texts=label") == ["", "by group"]
    capsys.readouterr()
    groups.write_text("train0.jpg\tA\ntrain1.jpg\tA\n")
    assert evaluated("--split=dev") == [""], "the file is about train alone"
    groups.unlink()
    assert evaluated("--split=dev") == [""]
    text = " ".join(capsys.readouterr().out.split())
    assert "the groups that the run trained with are not those of this data" in text
    other = write_tiny_data(tmp_path / "other")
    assert evaluated("--split=dev", f"--data={other}") == [""]


def test_a_tower_run_on_a_catalogue_trains_by_its_group_column(tmp_path):
    write_tiny_clip(tmp_path / "clip")
    data = tmp_path / "data"
    data.mkdir()
    rows = ["filename,title,sku,split"]
    for row in range(16):
        save_picture(data / f"{row}.png", row)
        rows.append(
            f"{row}.png,thing {row // 2} seen from side {row % 2},S{row // 2},{'train' if row < 12 else 'dev'}"
        )

    (data / "table.csv").write_text("".join(f"{line}\n" for line in rows))
    console = quiet()
    config = tower_config(tmp_path, group_column="sku", epochs=1)
    run = start_run(config, tmp_path / "run", console)
    assert "--group-column sku: 16 of 16 images are in 8 groups" in printed(console)
    groups = open_analysis(run, "dev").image_groups
    assert np.array_equal(groups[:, None] == groups, np.arange(4)[:, None] // 2 == np.arange(4) // 2)
    prepared = prepare(config, Inputs(towers=open_towers(config)))
    ids = prepared.data.pair_ids
    thing = prepared.data.train.image_of_text // 2
    assert np.array_equal(ids[:, None] == ids, thing[:, None] == thing)


def test_columns_of_a_table_are_kept_with_a_trained_run_and_name_its_groups(catalogue, tmp_path, capsys):
    table = tmp_path / "products.csv"
    lines = [f"train{row}.jpg,product {row // 2},{row}" for row in range(IMAGES)]
    lines += ["dev0.jpg,product 91,7", "dev1.jpg,product 90,8", "dev2.jpg,product 90,"]
    table.write_text("\n".join(["picture,product_id,price", *lines, ""]))
    console = quiet()
    config = tiny_config(catalogue, columns=str(table), group_column="product_id", epochs=1)
    run = start_run(config, tmp_path / "run", console)
    assert "products.csv: joined by the column 'picture' to 20 of 20 pictures" in printed(console)
    assert "--group-column product_id: 20 of 20 images are in 10 groups" in printed(console)
    analysis = open_analysis(run, "dev")
    price = analysis.columns.images["price"]
    assert [price.cell(row) for row in range(4)] == [7, 8, None, None]
    assert analysis.image_groups[1] == analysis.image_groups[2]
    table.unlink()
    assert evaluate([str(run), "--split=dev"]) == 0
    assert "products.csv, is not of this data or is gone" in " ".join(capsys.readouterr().out.split())
    assert "price" not in open_analysis(run, "dev").columns.images
