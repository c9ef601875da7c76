"""Parts of splits, and what differs between splits (`coder_core.data.split`), by hand."""

from dataclasses import replace

import numpy as np

from coder_core.console.faults import Fault
from coder_core.data.dataset import read_split
from coder_core.data.split import compare_splits, part_images, with_queries_of_log
from tests.support.precomp_folders import assert_refused, features, write_split

WHY = Fault("--most", "leaves images out")


def split_of(folder, name="train", images=4, **values):
    write_split(folder, name, array=features(images, **values))
    return read_split(folder, name)


def test_the_first_images_keep_their_captions_rows_and_groups(tmp_path):
    split = replace(split_of(tmp_path), image_groups=np.array([7, 7, 8, 9]), image_names=list("abcd"))
    assert split.first_images(4, WHY) is split
    part = split.first_images(3, WHY)
    assert (part.n_images, part.n_texts, part.rows) == (3, 6, (0, 3, 1))
    assert part.captions == split.captions[:6]
    assert part.image_of_text.tolist() == [0, 0, 1, 1, 2, 2]
    assert (part.image_names, part.image_groups.tolist()) == (["a", "b", "c"], [7, 7, 8])
    assert part.faults[-1] == WHY
    assert np.array_equal(part.features, split.features[:3])
    every_second = replace(split, rows=(2, 10, 2))
    assert every_second.first_images(3, WHY).rows == (2, 8, 2)


def test_some_captions_keep_their_images_or_get_others(tmp_path):
    split = replace(split_of(tmp_path), caption_ids=np.arange(8) * 10)
    part = split.of_texts(np.array([1, 6]))
    assert (part.n_images, part.image_of_text.tolist(), part.caption_ids.tolist()) == (4, [0, 3], [10, 60])
    assert part.captions == [split.captions[1], split.captions[6]]
    assert split.of_texts(np.array([1, 6]), np.array([2, 2])).image_of_text.tolist() == [2, 2]


def test_a_part_of_the_images_is_drawn_and_a_larger_one_includes_it():
    half = part_images(11, 0.5, seed=1)
    assert len(half) == 6
    assert half.tolist() == sorted(half.tolist())
    assert set(part_images(11, 0.25, seed=1)) < set(half)
    assert sorted([*half, *part_images(11, 0.5, seed=1, other=True)]) == list(range(11))
    assert len(part_images(11, 0.001, seed=1)) == 1
    assert part_images(11, 0.5, seed=2).tolist() != half.tolist()
    assert half.tolist() == [1, 2, 4, 5, 6, 10]  # as in every version: runs on a part are repeated


def test_differences_between_splits_are_notes_and_warnings(tmp_path):
    train = replace(
        split_of(tmp_path), image_names=["a", "b", "c", "d"], image_groups=np.array([1, 2, -1, -2])
    )
    assert compare_splits([train]) == []
    dev = replace(train, name="dev", image_names=["e", "f", "g", "h"], image_groups=np.array([3, 4, -1, -2]))
    assert compare_splits([train, dev]) == []
    fewer = replace(dev, captions=dev.captions[:6], image_of_text=dev.image_of_text[:6])
    [note] = compare_splits([train, fewer])
    assert (note.severity, note.place) == ("note", "dev and train")
    assert note.found == "1.5 and 2.0 captions per image; recall depends on their number"
    shared = replace(dev, image_names=["e", "a", "b", "h"], image_groups=np.array([2, 4, -1, -2]))
    names, groups = compare_splits([train, shared])
    assert "2 images" in names.found
    assert groups.found.startswith("1 groups are in both")
    assert {names.severity, groups.severity} == {"warning"}
    assert compare_splits([replace(train, name="other"), shared]) == []
    numbered = replace(train, image_names=["0", "1", "2", "3"], image_groups=None)
    assert compare_splits([numbered, replace(numbered, name="dev")]) == []
    wide = replace(dev, features=features(4, regions=2, size=6))
    size, regions = compare_splits([train, wide])
    assert (size.severity, size.found) == ("error", "6 and 5 numbers per region")
    assert regions.found == "2 and 3 regions per image; the model can read both"


def test_a_search_log_replaces_the_captions(tmp_path):
    split = replace(split_of(tmp_path), image_names=["a.jpg", "b.jpg", "c.jpg", "d.jpg"])
    (tmp_path / "queries.tsv").write_text("q0\ta dog\nq1\ta cat\n")
    (tmp_path / "qrels.txt").write_text("q1 0 c.jpg 2\nq1 0 a.jpg 1\n")
    files = (tmp_path / "queries.tsv", tmp_path / "qrels.txt")
    log, notes = with_queries_of_log(split, "log", *files)
    assert (log.name, log.captions, log.image_of_text.tolist(), log.n_images) == ("log", ["a cat"], [2], 4)
    assert log.search_log.query_ids == ["q1"]
    assert log.source["queries"] == str(files[0])
    assert "1 queries have a right picture; 1 are listed, not counted (no judgment)" in notes[0].found
    nameless = replace(split, image_names=None)
    assert_refused("split train: has no names of images", with_queries_of_log, nameless, "log", *files)
