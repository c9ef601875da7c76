"""Pages about small runs stay the same: words, rows, values of controls and numbers of figures, line by line.

A change that is not meant to alter pages leaves them equal. After one that is, look at what differs, then write them
anew: python -m tests.app.test_stored_pages
"""

import tempfile
import warnings
from pathlib import Path

import numpy as np
import pytest

from coder_core.api import causes, open_run
from coder_core.api.data_quality import splits_of_run
from coder_core.data.content.report import check_content
from coder_core.data.reviews import Review, append_review
from coder_core.embedding.log import log_split
from coder_core.geometry.settings import ClusterSettings
from coder_core.runs.derived.compute import make_clusters
from tests.app.conftest import write_pair
from tests.support.pages import open_page
from tests.support.run_folders import CONCEPTS, import_run_folder, unit, write_run
from tests.support.seen import differences, seen

STORED = Path(__file__).with_name("stored_pages")
ALONE = {"run": "demo", "versus": "—"}
CLUSTERS = ALONE | {"cluster-count": "4"}
SEVERAL = {"run": ["demo-baseline", "demo", "late"]}
CONCEPTS_RUN = {"run": "concepts"}
EVERYTHING = {"map": "PCA", "area": "a:-9,-9,9,-9,9,9,-9,9", "focus": "caption-7", "colour": "words"}
SLICE = 'brand in ("Acme", "Bolt") and "unit price" >= 2 and "new" in tags'
LOG = {"run": "one", "versus": "two", "split": "log"}
# name → folder, page, parameters of its address, and values of its controls
PAGES = {
    "overview": ("runs", "overview", {}, {}),
    "overview of three runs": ("runs", "overview", SEVERAL, {}),
    "overview of a slice": ("runs", "overview", {"slice": "image < 9"}, {}),
    "overview of one run": ("runs", "overview", ALONE, {}),
    "causes of images": ("runs", "overview", {}, {"misses_of": "image", "misses_at": "5"}),
    "several right answers": ("twins", "overview", {}, {}),
    "retrieval": ("runs", "retrieval", {}, {"outcome": "all", "direction": "image"}),
    "retrieval of one run": ("runs", "retrieval", ALONE, {"at": "5", "answer": "found"}),
    "retrieval of three runs": ("runs", "retrieval", SEVERAL, {"answered_by": "by none"}),
    "near misses": ("runs", "retrieval", {}, {"look": "near"}),
    "narrow hits of images": (
        "runs",
        "retrieval",
        {"direction": "Image → captions", "look": "Near misses"},
        {"calls": "held"},
    ),
    "hubs": ("runs", "retrieval", {}, {"look": "hubs"}),
    "hubs among the first ten": ("runs", "retrieval", ALONE | {"look": "Hubs"}, {"k": "10"}),
    "queries of a rank and a word": ("runs", "retrieval", ALONE, {"to_rank": "2–5", "words": "way"}),
    "queries of twins": ("twins", "retrieval", {"sample": "caption-4", "likely": "true"}, {}),
    "opened sample": ("runs", "retrieval", {"sample": "caption-4", "likely": "true"}, {}),
    "misses of a cause": ("runs", "retrieval", {"cause": causes.CAUSES[-1], "cause-of": "demo-baseline"}, {}),
    "diversity": ("runs", "diversity", {}, {"anchors": "image"}),
    "diversity of one run": ("runs", "diversity", ALONE, {"measure": "entropy", "over": "bank"}),
    "anchors by change": ("runs", "diversity", {}, {"ranked": "fell", "fits": True}),
    "anchors of a batch": (
        "runs",
        "diversity",
        {"caption": "7"},
        {"over": "batch", "ranked": "rose", "anchor_figure": "weights"},
    ),
    "similarity": ("runs", "similarity", {}, {}),
    "differences of a batch": (
        "runs",
        "similarity",
        ALONE,
        {"matrices": "change", "scaling_anchors": "text", "order": "cluster"},
    ),
    "negatives of the hardest batch": (
        "runs",
        "similarity",
        {},
        {"matrices": "share", "batch_of": "hardest", "spread": "entropy"},
    ),
    "matrices between the runs": ("runs", "similarity", {}, {"matrices": "between", "order": "drawn"}),
    "joint space": ("runs", "joint", {"map": "PCA"}, {}),
    "map by cluster": ("clustered", "joint", {"map": "PCA", "colour": "cluster"}, {}),
    "images by gain": ("runs", "joint", {"map": "PCA", "modalities": "Images"}, {"colour": "gain"}),
    "found on a map": ("runs", "joint", ALONE | {"map": "PCA", "find": "way 3"}, {"colour": "hubness"}),
    "selection on a map": ("runs", "joint", EVERYTHING, {}),
    "clusters": ("runs", "clusters", CLUSTERS, {}),
    "pairs of a cluster that disagree": ("runs", "clusters", CLUSTERS, {"members": "apart"}),
    "furthest members of a cluster": ("runs", "clusters", CLUSTERS, {"members": "edge"}),
    "clusters of two runs": ("clustered", "clusters", {}, {}),
    "pairs between clusters": ("runs", "clusters", CLUSTERS, {"members": "between"}),
    "clusters of a slice": ("runs", "clusters", CLUSTERS | {"slice": "image < 9"}, {}),
    "slices": ("runs", "slices", {}, {}),
    "slices by loss": ("runs", "slices", {}, {"slice_order": "lost", "slice_at": "5"}),
    "slices of images": ("runs", "slices", SEVERAL, {"queries": "image", "slice_order": "gained"}),
    "slices of columns": ("catalog", "slices", {}, {}),
    "data": ("runs", "data", ALONE, {}),
    "pairs scored by the baseline": ("runs", "data", {}, {"scorer": "demo-baseline"}),
    "likely matches": ("runs", "data", ALONE, {"list": "matches"}),
    "little content": ("runs", "data", ALONE, {"list": "little"}),
    "captions without diversity": (
        "runs",
        "data",
        ALONE | {"list": "Says little"},
        {"empty_order": "diversity"},
    ),
    "equal captions": ("twins", "data", {}, {"list": "captions"}),
    "matches of twins": ("twins", "data", {}, {"list": "matches"}),
    "reviews": ("runs", "reviews", ALONE, {}),
    "pairs drawn for an estimate": ("runs", "reviews", ALONE, {"queue": "estimate"}),
    "pairs in the order of a queue": ("runs", "reviews", ALONE, {"queue": "near"}),
    "probably wrong pairs": ("runs", "reviews", ALONE, {"queue": "wrong"}),
    "verdicts of one kind": ("judged", "reviews", {}, {"verdict": "wrong-caption", "verdict_by": "bob"}),
    "concepts": ("runs", "concepts", CONCEPTS_RUN, {}),
    "edges between objects": ("runs", "concepts", CONCEPTS_RUN, {"by": "edges", "kind": "object"}),
    "concepts around one": ("runs", "concepts", CONCEPTS_RUN, {"part": "around"}),
    "concepts of a pair": ("runs", "concepts", CONCEPTS_RUN | {"concept-caption": "7"}, {}),
    "start": ("runs", "start", {}, {}),
    "start without runs": ("none", "start", {}, {}),
    "train": ("runs", "train", {"watch": "demo"}, {}),
    "train a preset": ("runs", "train", {"data": "demo", "preset": "coder-demo", "name": "mine"}, {}),
    "verdicts": ("judged", "reviews", {}, {}),
    "columns": ("catalog", "retrieval", {"slice": SLICE, "sample": "caption-4"}, {}),
    "map by a column": ("catalog", "joint", {"map": "PCA", "colour": "unit price"}, {}),
    "map by brand": ("catalog", "joint", {"map": "PCA", "colour": "brand"}, {}),
    "map by date": ("catalog", "joint", {"map": "PCA", "colour": "listed"}, {}),
    "causes of columns": ("catalog", "overview", {"slice": 'brand == "Acme"'}, {}),
    "saved queries": ("imported", "retrieval", {"ask": "Free text", "text": "query 1"}, {}),
    "search log": ("log", "overview", LOG, {}),
    "a query of a search log": ("log", "retrieval", LOG | {"query-text": "3"}, {}),
}
WITH_SIDEBAR = ("overview", "columns")
# what pages show of the machine: the person's name, and the folders of data sets and reviews
ENVIRONMENT = {"LOGNAME": "anna", "CODER_DATA": "nowhere", "CODER_REVIEWS": ""}


def write_folders(base):
    """Write the folders of runs that the pages are about."""
    write_runs(base / "runs")
    write_twins(base / "twins")
    for name, loss, noise in (("demo-baseline", "btr-hardest", 3.0), ("demo", "dcl", 1.5)):
        run = write_run(base / "clustered", name, loss=loss, noise=noise, images=20)
        make_clusters(run, "dev", ClusterSettings())
    write_judged(base / "judged")
    write_catalog(base / "catalog")
    write_log(base / "log")
    (base / "none").mkdir()
    queries = [f"query {number}" for number in range(3)]
    import_run_folder(base / "imported", "clip", images=20, queries=queries)
    return base


def write_runs(root):
    """Write a pair of runs, one of them with clusters and checked pictures, a third one, and a run with concepts."""
    write_pair(root)
    write_run(root, "late", noise=2.0, images=20)
    write_run(root, "concepts", concepts=CONCEPTS, images=20, pictures=False)
    make_clusters(root / "demo", "dev", ClusterSettings(4))
    check_content(splits_of_run(open_run(root / "demo")))


def write_twins(root):
    """Write a run of images in twins that have the same captions, and the duplicates that were found."""
    captions = [f"scene {image}, told in way {way}" for image in range(10, 18) for way in range(10, 15)]
    run = write_run(root, "demo", images=16, noise=2.0, captions=captions * 2)
    check_content(splits_of_run(open_run(run)))


def write_judged(root):
    """Write a run, and verdicts of two people on its pairs."""
    captions = [f"scene {image}, told in way {way}" for image in range(12) for way in range(5)]
    write_run(root, "demo", images=12, noise=2.0, captions=captions)
    given = [(0, 0, "label-right", "anna"), (0, 0, "wrong-caption", "bob"), (1, 5, "wrong-caption", "anna")]
    given += [(2, 0, "also-matches", "anna"), (2, 0, "also-matches", "bob"), (3, 15, "too-vague", "bob")]
    for number, (image, caption, verdict, person) in enumerate(given):
        time = f"2026-05-01T12:00:0{number}Z"
        names = {"id": f"{number:016x}", "time": time, "reviewer": person, "image": f"{image}.png"}
        review = Review(caption=captions[caption], verdict=verdict, tags=("tag",), note="a note", **names)
        append_review(root / "reviews.jsonl", review)


def write_catalog(root):
    """Write a run with the user's columns: brands, prices, dates and tags."""
    random = np.random.default_rng(0)
    count = 60
    images = random.normal(size=(count, 16))
    columns = {
        "brand": [("Acme", "Bolt", "Kite")[number % 3] for number in range(count)],
        "unit price": np.arange(count) / 4,
        "listed": [f"2026-{1 + number % 12:02}-15" for number in range(count)],
        "tags": [["sale"] if number % 2 else ["sale", "new"] for number in range(count)],
    }
    captions = [f"a shirt of model {number}" for number in range(count)]
    texts = images + random.normal(size=(count, 16))
    log_split(root / "shop", "dev", images, texts, captions=captions, columns=columns)


def write_log(root):
    """Write two runs of a search log whose queries have graded results; two of them have none that is right."""
    random = np.random.default_rng(0)
    images = unit(random.normal(size=(40, 16)))
    right = random.integers(0, 40, 30)
    noise = unit(random.normal(size=(30, 16)))
    others = unit(random.normal(size=(2, 16)))
    judged = [
        (query, int(image + step) % 40, 2 - step) for query, image in enumerate(right) for step in range(3)
    ]
    captions = [f"where is thing {query}" for query in range(32)]
    names = [f"{row}.jpg" for row in range(40)]
    for name, share in (("one", 1.6), ("two", 0.4)):
        texts = np.concatenate([unit(images[right] + share * noise), others])
        with warnings.catch_warnings(action="ignore"):  # of the two queries
            log_split(
                root / name,
                "log",
                images,
                texts,
                captions=captions,
                pictures=names,
                judgements=np.array(judged),
            )


def lines(monkeypatch, base, name):
    folder, page, query, changes = PAGES[name]
    for variable, value in ENVIRONMENT.items():
        monkeypatch.setenv(variable, value)
    app = open_page(monkeypatch, base / folder, page, **query)
    if changes:
        app.change(**changes)
    return seen(app, base, sidebar=name in WITH_SIDEBAR)


def file_of(name):
    return STORED / f"{name.replace(' ', '_')}.txt"


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    return write_folders(tmp_path_factory.mktemp("pages"))


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_as_it_was_stored(base, monkeypatch, name):
    expected = file_of(name).read_text("utf-8").splitlines()
    assert list(differences(lines(monkeypatch, base, name), expected)) == []


if __name__ == "__main__":
    STORED.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as monkeypatch:
        written = write_folders(Path(folder))
        for name in PAGES:
            text = "\n".join(lines(monkeypatch, written, name))
            file_of(name).write_text(f"{text}\n", "utf-8")
