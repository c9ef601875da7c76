"""coder-lab export --to triplets: which negatives, in which columns, and which pairs never are negatives."""

import json

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

from coder_core.api import open_run
from coder_core.api.retrieval.results import LIKELY
from coder_core.api.reviews import Review, ReviewedSplit, append_review
from coder_core.embedding.exports import triplets
from coder_core.embedding.log import log_split
from coder_core.evaluation import nearest
from coder_core.export import main as export
from coder_core.geometry.captions import caption_vectors
from tests.support.run_folders import unit, write_embeddings, write_run

IMAGES = 25
EACH = 2
VERBS = ("runs", "waits", "shines", "rolls", "falls")
WORDS = [f"{noun} {verb}" for noun in ("dog", "cat", "car", "boat", "tree") for verb in VERBS]
CAPTIONS = [f"a {WORDS[image]} number{number}" for image in range(IMAGES) for number in range(EACH)]
CAPTIONS[7 * EACH] = CAPTIONS[3 * EACH].upper()  # images 3 and 7 share a caption
CAPTIONS[11 * EACH] = "something else entirely"


@pytest.fixture(scope="module")
def mined(tmp_path_factory):
    """Folder of a run, its reviews, the run, and a mask (images, captions) of possible negatives, by loops."""
    root = tmp_path_factory.mktemp("triplets")
    folder = write_run(root / "runs", "run", images=IMAGES, per_image=EACH, captions=CAPTIONS, noise=2.0)
    run = open_run(folder)
    reviews = root / "reviews.jsonl"
    pictures = run.analysis("dev").picture_folder
    names = run.image_names("dev")
    with open(f"{pictures}/{names[5]}", "rb") as copied, open(f"{pictures}/{names[9]}", "wb") as replaced:
        replaced.write(copied.read())

    split = ReviewedSplit.of(run, "dev")
    append_review(reviews, Review(*split.pair(2, 0), "also-matches", "anna"))
    append_review(reviews, Review(*split.pair(4, 4 * EACH), "wrong-caption", "anna"))
    reviews.write_text(f'{reviews.read_text()}{{"version')
    owner = run.image_of_text("dev")
    vectors = caption_vectors(CAPTIONS)
    usable = np.ones((IMAGES, len(owner)), bool)
    for image in range(IMAGES):
        for text in range(len(owner)):
            of_image = [other for other in range(len(owner)) if owner[other] == image]
            same = any(CAPTIONS[text].lower() == CAPTIONS[other].lower() for other in of_image)
            likely = max(float(vectors[text] @ vectors[other]) for other in of_image) >= LIKELY
            copy = {image, int(owner[text])} == {5, 9}
            judged = owner[text] == image or (image, text) == (2, 0)
            usable[image, text] = not (same or likely or copy or judged)

    assert not usable[9, 5 * EACH + 1]
    return folder, reviews, run, usable


def numbered(mined, table, way):
    """Return the (rows, 2 + k) numbers of the samples whose names and captions a table holds."""
    run = mined[2]
    folder = run.analysis("dev").picture_folder
    images = {f"{folder}/{name}": row for row, name in enumerate(run.image_names("dev"))}
    texts = {caption: row for row, caption in enumerate(run.captions("dev"))}
    sides = (texts, images) if way == "t2i" else (images, texts)
    return np.array([[sides[position > 0][value] for position, value in enumerate(row)] for row in table])


@pytest.mark.parametrize(("ranks", "margin"), [((1, 24), None), ((3, 12), None), ((1, 40), 0.1)])
def test_negatives_come_from_ranks_and_exclude_matches(mined, tmp_path, monkeypatch, capsys, ranks, margin):
    """No negative is a likely match, a reviewed match or a duplicate."""
    monkeypatch.setattr(triplets, "QUERIES", 7)  # several blocks
    folder, reviews, run, usable = mined
    k = 15 if ranks == (1, 24) else 3
    flags = ["--negatives", str(k), "--ranks", *map(str, ranks), "--reviews", str(reviews)]
    flags += [] if margin is None else ["--margin", str(margin)]
    assert export([str(folder), "--to", "triplets", str(tmp_path / "out"), *flags]) == 0
    printed = capsys.readouterr().out
    assert f"{reviews} line 3: " in printed
    assert "--pictures" not in printed
    report = json.loads((tmp_path / "out" / "triplets.json").read_text())
    owner = run.image_of_text("dev")
    (v, w) = run.scoring("dev")
    scores = v @ w.T
    for way, name in (("t2i", "text_to_image"), ("i2t", "image_to_text")):
        table = pq.read_table(tmp_path / "out" / f"{name}.parquet")
        assert table.column_names == ["anchor", "positive", *(f"negative_{j}" for j in range(1, k + 1))]
        rows = numbered(mined, zip(*(column.to_pylist() for column in table.columns), strict=True), way)
        written = set()
        expected = set()
        for text in np.flatnonzero(np.arange(len(owner)) != 4 * EACH).tolist():  # its label is judged wrong
            image = int(owner[text])
            anchor, positive = (text, image) if way == "t2i" else (image, text)
            query = (slice(None), text) if way == "t2i" else image
            of_query = scores[query]
            fits = usable[query]
            foreign = np.arange(IMAGES) != image if way == "t2i" else owner != image
            order = [c for c in np.argsort(-of_query).tolist() if foreign[c]][ranks[0] - 1 : ranks[1]]
            most = np.inf if margin is None else scores[image, text] - margin
            window = [c for c in order if fits[c] and of_query[c] <= most]
            if len(window) >= k:
                expected.add(text)
            for row in rows[(rows[:, 0] == anchor) & (rows[:, 1] == positive)].tolist():
                written.add(text)
                places = [window.index(negative) for negative in row[2:]]
                assert places == sorted(set(places))
        assert written == expected
        counts = {"written": len(expected), "too few negatives": len(owner) - 1 - len(expected)}
        assert report["rows"][name] == counts

    assert ranks == (3, 12) or all(report["left out as negatives"].values())


def test_triplets_depend_on_the_seed_and_are_equal_in_every_form(mined, tmp_path):
    folder = str(mined[0])
    for name, flag in zip("abcde", ("", "", "--seed=1", "--form=jsonl", "--form=open_clip"), strict=True):
        command = [folder, "--to", "triplets", str(tmp_path / name), "--negatives", "2", *flag.split()]
        assert export(command) == 0
    for name in ("text_to_image", "image_to_text"):
        tables = [pq.read_table(tmp_path / seed / f"{name}.parquet").to_pylist() for seed in "abc"]
        assert tables[0] == tables[1] != tables[2]
        lines = (tmp_path / "d" / f"{name}.jsonl").read_text("utf-8").splitlines()
        assert [json.loads(line) for line in lines] == tables[0]
        sheet = pd.read_csv(tmp_path / "e" / f"{name}.tsv", sep="\t")  # as open_clip reads it
        assert {"filepath", "title"} == set(sheet.columns[:2])
        assert sheet["title"].isin(CAPTIONS).all()
        assert sheet.set_axis(tables[0][0].keys(), axis=1).to_dict("records") == tables[0]


def test_negatives_by_an_index_of_few_candidates_are_those_of_all_pairs(mined, tmp_path, monkeypatch, capsys):
    """An index of few candidates is exact, so both ways write the same rows."""
    tables = []
    for name, most in (("all", nearest.COMPARED_PAIRS), ("index", 0)):
        monkeypatch.setattr(nearest, "COMPARED_PAIRS", most)
        assert export([str(mined[0]), "--to", "triplets", str(tmp_path / name)]) == 0
        tables.append(pq.read_table(tmp_path / name / "text_to_image.parquet"))
        tables.append(pq.read_table(tmp_path / name / "image_to_text.parquet"))
        assert (nearest.BY_INDEX in capsys.readouterr().out.replace("\n", " ")) == (name == "index")
    assert tables[0].num_rows > 0
    assert tables[0].equals(tables[2])
    assert tables[1].equals(tables[3])


def test_invalid_windows_and_existing_folders_are_refused(mined, tmp_path, complaint):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "file").write_text("mine")
    for flags, fact in (
        (["--rows", "captions"], "--rows"),
        (["--to", "faiss", "new", "--negatives", "3"], "--negatives"),
        (["--to", "parquet", "new", "--reviews", "reviews.jsonl"], "--reviews"),
        (["--ranks", "0", "5"], "--ranks"),
        (["--ranks", "9", "5"], "--ranks"),
        (["--ranks", "1", "4"], "--negatives"),
        (["--margin", "nan"], "--margin"),
        (["--seed", "-1"], "--seed"),
        (["--to", "triplets", str(tmp_path / "mine")], "mine"),
        (["--split", "test"], "coder-lab evaluate"),
    ):
        assert fact in complaint(export, [str(mined[0]), "--to", "triplets", str(tmp_path / "new"), *flags])
    assert not (tmp_path / "new").exists()


def test_an_image_without_captions_is_a_negative_but_no_anchor(tmp_path, complaint, capsys):
    owner = np.repeat(np.arange(1, 8), 2)
    v = unit(np.random.default_rng(0).normal(size=(8, 4)))
    captions = [f"{'abcdefghijklmn'[text]} thing" for text in range(14)]
    write_embeddings(tmp_path / "run", v, v[owner], owner, captions=captions, kind="embeddings")
    flags = ["--negatives", "6", "--ranks", "1", "7"]
    command = [str(tmp_path / "run"), "--to", "triplets", str(tmp_path / "out"), *flags]
    assert "coder-lab embed import" in complaint(export, [*command, "--split", "test"])
    assert export(command) == 0
    assert "--pictures" in capsys.readouterr().out
    files = (tmp_path / "out" / f"{name}.parquet" for name in ("text_to_image", "image_to_text"))
    table, other = map(pq.read_table, files)
    assert any("0.png" in row.values() for row in table.to_pylist())
    assert "0.png" not in other["anchor"].to_pylist()


def test_pictures_of_a_group_are_never_mined(tmp_path):
    """Products with two pictures and different captions: without groups the other picture is the hardest negative."""
    random = np.random.default_rng(0)
    products = np.repeat(unit(random.normal(size=(12, 16))), 2, axis=0)
    images, texts = products + 0.01 * random.normal(size=(2, *products.shape))
    captions = [f"{noun} {verb}" for noun in ("dog", "cat", "car", "boat", "tree") for verb in VERBS][:24]
    names = [f"{row}.jpg" for row in range(24)]
    for name, groups in (("plain", None), ("grouped", [row // 2 for row in range(24)])):
        log_split(tmp_path / name, "dev", images, texts, captions=captions, pictures=names, groups=groups)
        command = [
            str(tmp_path / name),
            "--to",
            "triplets",
            str(tmp_path / f"{name}-out"),
            "--negatives",
            "1",
        ]
        assert export([*command, "--ranks", "1", "2"]) == 0
        table = pq.read_table(tmp_path / f"{name}-out" / "text_to_image.parquet").to_pydict()
        anchors = [captions.index(caption) // 2 for caption in table["anchor"]]
        negatives = [names.index(image) // 2 for image in table["negative_1"]]
        same = sum(one == other for one, other in zip(anchors, negatives, strict=True))
        report = json.loads((tmp_path / f"{name}-out" / "triplets.json").read_text())["left out as negatives"]
        assert (same == 0) == (groups is not None)
        assert report.get("same group", 0) == (0 if groups is None else 48)  # in both directions
