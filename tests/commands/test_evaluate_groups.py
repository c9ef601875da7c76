"""evaluate by group and by equal texts: a catalogue whose pictures share titles; verdicts on equal titles."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from coder_core.api import open_run, retrieval
from coder_core.api.report.sections import _several
from coder_core.api.sides import DIRECTIONS
from coder_core.data.reviews import Review, append_review
from coder_core.embed import main as embed
from coder_core.embedding.log import log_split
from coder_core.evaluate import main
from coder_core.report import main as report
from coder_core.runs.analysis.read import open_analysis
from tests.support.run_folders import unit

PRODUCTS = 100
NAMES = [f"{row}.jpg" for row in range(2 * PRODUCTS)]
TITLES = [f"title {row // 2}" for row in range(2 * PRODUCTS)]


def log_catalogue(folder, **options):
    """Log a nearly perfect model of products with two pictures and one title."""
    random = np.random.default_rng(0)
    products = np.repeat(unit(random.normal(size=(PRODUCTS, 32))), 2, axis=0)
    images = products + 0.01 * random.normal(size=products.shape)
    return log_split(folder, "dev", images, products, captions=TITLES, pictures=NAMES, **options)


def recalls_of(folder, tmp_path, *flags):
    """Evaluate, and return the name of every row without the run → R@1 in both directions."""
    file = tmp_path / "out.json"
    assert main([str(folder), *map(str, flags), f"--json={file}", "--overwrite"]) == 0
    rows = json.loads(file.read_text())["runs"]
    return {name.removeprefix(str(folder)).strip(): (of["i2t_r1"], of["t2i_r1"]) for name, of in rows.items()}


def test_equal_titles_are_reported_both_ways_until_someone_chooses(tmp_path, capsys):
    with pytest.warns(
        UserWarning, match=r"200 of 200 have a text .* 0\.0 and 50\.0 by the labels, 100\.0 and 100\.0 if"
    ):
        metrics = log_catalogue(tmp_path / "run")
    assert (metrics["i2t_r1"], metrics["t2i_r1"]) == (0.0, 50.0)
    both = {"": (0.0, 50.0), "by equal texts": (100.0, 100.0)}
    assert recalls_of(tmp_path / "run", tmp_path) == both
    text = " ".join(capsys.readouterr().out.split())
    assert "0.0 and 50.0 by the labels, 100.0 and 100.0 if equal texts match" in text
    assert recalls_of(tmp_path / "run", tmp_path, "--equal-texts=match") == both
    assert recalls_of(tmp_path / "run", tmp_path, "--equal-texts=label") == {"": (0.0, 50.0)}
    assert "if equal texts match" not in capsys.readouterr().out


@pytest.mark.filterwarnings("ignore:captions")
def test_groups_are_stored_with_a_run_or_read_from_a_file(tmp_path, capsys, complaint):
    log_catalogue(tmp_path / "stored", groups=[f"product {row // 2}" for row in range(2 * PRODUCTS)])
    groups = open_analysis(tmp_path / "stored", "dev").image_groups
    assert (groups[::2] == groups[1::2]).all()
    assert len(np.unique(groups)) == PRODUCTS
    by_group = {"": (0.0, 50.0), "by group": (100.0, 100.0)}
    assert recalls_of(tmp_path / "stored", tmp_path, "--equal-texts=label") == by_group
    log_catalogue(tmp_path / "plain")
    file = tmp_path / "groups.tsv"
    file.write_text(
        "".join(f"{name}\tproduct {row // 2}\n" for row, name in enumerate(NAMES)) + "other.jpg\tx\n"
    )
    flags = ["--equal-texts=label", f"--groups={file}"]
    assert recalls_of(tmp_path / "plain", tmp_path, *flags) == by_group
    assert "200 of 200 images are in 100 groups; 1 lines are about other images" in capsys.readouterr().out
    for content, fact in (
        ("0.jpg\n", "line 1: is '0.jpg'"),
        ("0.jpg\ta\n0.jpg\tb\n", "line 2: puts '0.jpg' into group 'b', an earlier line into 'a'"),
        ("none.jpg\ta\n", "names no image of this split"),
    ):
        file.write_text(content)
        assert fact in complaint(main, [str(tmp_path / "plain"), *flags])


@pytest.mark.filterwarnings("ignore:captions")
def test_also_matches_counts_for_equal_titles_and_a_verdict_without_effect_is_named(tmp_path, capsys):
    """Both pictures of products 0 and 1 are judged to match the title, which each has as its own caption too."""
    log_catalogue(tmp_path / "run")
    file = tmp_path / "reviews.jsonl"
    for row in range(4):
        append_review(file, Review(NAMES[row], TITLES[row], "also-matches", "anna"))
    recalls_of(tmp_path / "run", tmp_path, f"--reviews={file}", "--equal-texts=label")
    assert "other matches: 4" in capsys.readouterr().out
    metrics = json.loads((tmp_path / "out.json").read_text())["runs"][str(tmp_path / "run")]
    assert metrics["i2t_reviewed_r1"] == 2.0  # four of 200 images
    assert metrics["t2i_reviewed_r1"] == 51.0  # two more captions than by the labels
    titles = [f"title {row}" for row in range(2 * PRODUCTS)]
    random = np.random.default_rng(0)
    rows = random.normal(size=(2 * PRODUCTS, 8))
    log_split(tmp_path / "other", "dev", rows, rows + 1, captions=titles, pictures=NAMES)
    file.unlink()
    append_review(file, Review(NAMES[3], titles[3], "also-matches", "anna"))
    recalls_of(tmp_path / "other", tmp_path, f"--reviews={file}")
    text = " ".join(capsys.readouterr().out.split())
    assert "also-matches without effect, because the pair is a label: 1" in text


def test_imported_embeddings_take_groups_and_print_both_figures(tmp_path, capsys, complaint):
    random = np.random.default_rng(0)
    products = np.repeat(unit(random.normal(size=(PRODUCTS, 32))), 2, axis=0).astype(np.float32)
    np.save(
        tmp_path / "images.npy", (products + 0.01 * random.normal(size=products.shape)).astype(np.float32)
    )
    np.save(tmp_path / "texts.npy", products)
    (tmp_path / "captions.txt").write_text("".join(f"{title}\n" for title in TITLES))
    (tmp_path / "ids.txt").write_text("".join(f"{name}\n" for name in NAMES))
    groups = tmp_path / "groups.tsv"
    groups.write_text("".join(f"{name}\tproduct {row // 2}\n" for row, name in enumerate(NAMES)))
    flags = [f"--{name}={tmp_path / name}{end}" for name, end in (("images", ".npy"), ("texts", ".npy"))]
    flags += [
        f"--captions={tmp_path / 'captions.txt'}",
        f"--ids={tmp_path / 'ids.txt'}",
        f"--root={tmp_path}",
    ]
    assert embed(["import", *flags, "--name=plain"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "0.0 and 50.0 by the labels, 100.0 and 100.0 if equal texts match" in text
    assert "plain by equal texts" in text
    assert embed(["import", *flags, "--name=grouped", f"--groups={groups}"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "200 of 200 images are in 100 groups" in text
    assert "grouped by group" in text
    assert "if equal texts match" not in text, "equal titles are of one group"
    assert recalls_of(tmp_path / "grouped", tmp_path) == {"": (0.0, 50.0), "by group": (100.0, 100.0)}

    table = {"image_path": NAMES, "caption": TITLES, "product": [row // 2 for row in range(2 * PRODUCTS)]}
    for name in ("images", "texts"):
        table[f"{name}_embedding"] = np.load(tmp_path / f"{name}.npy").tolist()
    file = tmp_path / "table.parquet"
    pq.write_table(pa.table(table), file)
    named = [str(file), "--image-embeddings=images_embedding", "--text-embeddings=texts_embedding"]
    named += [f"--root={tmp_path}", "--name=table"]
    assert embed(["import", *named, "--group-column=product"]) == 0
    assert recalls_of(tmp_path / "table", tmp_path) == {"": (0.0, 50.0), "by group": (100.0, 100.0)}
    refused = complaint(embed, ["import", *named, "--overwrite", "--group-column=brand"])
    assert "--group-column brand: is not a further column of the data; expected one of 'product'" in refused
    refused = complaint(
        embed, ["import", *named, "--overwrite", "--group-column=product", f"--groups={groups}"]
    )
    assert "--group-column and --groups: are both given" in refused


@pytest.mark.filterwarnings("ignore:captions")
def test_the_app_reads_both_figures_and_why_a_result_is_right(tmp_path):
    log_catalogue(tmp_path / "run", groups=[row // 2 for row in range(2 * PRODUCTS)])
    run = open_run(tmp_path / "run")
    assert retrieval.shared_answers(run, "dev") == (PRODUCTS, 0), "equal titles are of one group"
    stored = retrieval.several_metrics(run, "dev")
    assert {by: (of["i2t_r1"], of["t2i_r1"]) for by, of in stored.items()} == {"group": (100.0, 100.0)}
    assert retrieval.also_right(run, "dev", "t2i", 4) == {5: "same group"}
    assert retrieval.also_right(run, "dev", "i2t", 5) == {4: "same group"}
    log_catalogue(tmp_path / "plain")
    plain = open_run(tmp_path / "plain")
    assert retrieval.shared_answers(plain, "dev") == (0, 2 * PRODUCTS)
    assert list(retrieval.several_metrics(plain, "dev")) == ["equal texts"]
    assert retrieval.also_right(plain, "dev", "t2i", 4) == {5: "same text"}
    log_catalogue(tmp_path / "plain")  # another analysis of the same embeddings keeps what was stored
    assert list(retrieval.several_metrics(open_run(tmp_path / "plain"), "dev")) == ["equal texts"]


def test_sisters_of_a_query_are_images_for_a_caption_and_captions_for_an_image(tmp_path):
    """Images 0 and 1 are one product; every image has two captions of its own, so the numbers of the two differ."""
    vectors = unit(np.random.default_rng(0).normal(size=(4, 8)))
    captions = [f"title {row}" for row in range(8)]
    owner = np.repeat(np.arange(4), 2)
    options = {"captions": captions, "image_of_text": owner, "groups": [0, 0, 1, 2]}
    log_split(tmp_path / "run", "dev", vectors, vectors[owner], **options)
    run = open_run(tmp_path / "run")
    assert retrieval.also_right(run, "dev", "t2i", 1) == {1: "same group"}
    assert retrieval.also_right(run, "dev", "i2t", 0) == {2: "same group", 3: "same group"}
    assert retrieval.also_right(run, "dev", "i2t", 3) == {}


@pytest.mark.filterwarnings("ignore:captions")
def test_the_report_has_a_row_by_group(tmp_path):
    log_catalogue(tmp_path / "shop", groups=[f"product {row // 2}" for row in range(2 * PRODUCTS)])
    [section] = _several([open_run(tmp_path / "shop")], "dev")
    [(_, table)] = section.blocks
    rows = table.set_index("by")[f"{DIRECTIONS['t2i']} R@1"].to_dict()
    assert rows == {"labels": 50.0, "group": 100.0}
    out = tmp_path / "report.html"
    assert report([str(tmp_path / "shop"), "--split=dev", f"--out={out}"]) == 0
    assert "Several right answers" in out.read_text()
