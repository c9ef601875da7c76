"""The title of every page is an answer in every state of the runs: it has a number, or says what is missing."""

import re

import pytest

from app.frame import PAGES
from coder_core import log_split
from coder_core.api import open_run
from tests.support.run_folders import CONCEPTS, damage, flip, import_run_folder, write_run

NOTHING = re.compile(r"\b(no|not|none|nothing|cannot|has not|damaged|still training)\b", re.IGNORECASE)
DAMAGED = "text_embeddings.npy"
PAIR = {"run": ["demo-baseline", "demo"]}
# name of a state → folder of runs, and parameters of the address
STATES = {
    "no run": ("none", {}),
    "one damaged run": ("torn", {}),
    "one run": ("one", {}),
    "one run, images as queries": (
        "one",
        {"direction": "Image → captions", "anchors": "Images", "queries": "Images"},
    ),
    "two runs": ("two", PAIR),
    "three runs": ("two", {"run": ["demo-baseline", "demo-late", "demo"]}),
    "a slice": ("two", PAIR | {"slice": "length > 3"}),
    "an empty slice": ("two", PAIR | {"slice": "length > 999"}),
    "an invalid slice": ("two", PAIR | {"slice": "depth > 3"}),
    "nothing selected": ("two", PAIR | {"batch-of": "Selection", "list": "Empty captions"}),
    "unchecked pictures": ("one", {"list": "Duplicate pictures"}),
    "unlabelled matches": ("one", {"list": "Unlabelled matches", "queue": "For R@1", "look": "Hubs"}),
    "an import": ("imported", {"run": "clip"}),
    "an import and a run": ("imported", {"run": ["demo", "clip"]}),
    "an import without ranks": ("imported", {"run": "bare"}),
    "an import without ranks and a run": ("imported", {"run": ["demo", "bare"]}),
    "a concept run": ("one", {"run": "concepts"}),
    "few pairs": ("few", {}),
    "an unknown run": ("two", {"run": "gone"}),
    "an unknown split": ("two", PAIR | {"split": "test"}),
    "a damaged analysis": ("spoilt", {"run": "spoilt"}),
    "a damaged analysis and a run": ("spoilt", {"run": ["demo", "spoilt"]}),
    "a damaged run": ("spoilt", {"run": "torn"}),
}


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Folders of runs for STATES."""
    base = tmp_path_factory.mktemp("titles")
    names = ("none", "torn", "one", "two", "imported", "few", "spoilt")
    folders = {name: base / name for name in names}
    folders["none"].mkdir()
    for name in ("one", "two", "imported", "spoilt"):
        write_run(folders[name], "demo", images=20, pictures=name == "one")
    for folder in ("torn", "spoilt"):
        damage(write_run(folders[folder], "torn", images=12))
    write_run(folders["one"], "concepts", images=20, concepts=CONCEPTS)
    for name, noise in (("demo-baseline", 3.0), ("demo-late", 2.0)):
        write_run(folders["two"], name, noise=noise, images=20)
    write_run(folders["few"], "few", images=1, per_image=1)
    flip(write_run(folders["spoilt"], "spoilt", images=20) / "analysis" / "dev" / DAMAGED)
    clip = open_run(import_run_folder(folders["imported"], "clip", images=20))
    images, texts = clip.embeddings("dev")
    log_split(folders["imported"] / "bare", "dev", images, texts, captions=list(clip.captions("dev")), rank=0)
    return folders


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("page", PAGES)
def test_a_title_has_a_number_or_says_what_is_missing(folders, opened, page, state):
    folder, values = STATES[state]
    title = opened(folders[folder], page, **values).answer()
    assert not title.endswith(("?", ".", ":"))
    assert re.search(r"\d", title) or NOTHING.search(title), title


def test_a_page_that_a_run_lacks_says_how_to_get_it(folders, opened):
    for page, lacks, remedy in (
        ("weights", "weighs its samples", "--sample-weights"),
        ("concepts", "has a concept branch", "coder-demo"),
    ):
        title = opened(folders["two"], page, **PAIR).answer()
        assert title.startswith(f"None of these runs {lacks}: train one with ")
        assert remedy in title
