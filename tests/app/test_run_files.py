"""Pages on the lists of another system, alone and beside a run with embeddings: answers where lists suffice, and words, never
a traceback, where embeddings are needed."""

import numpy as np
import pytest

from coder_core.runs.analysis.import_lists import import_lists
from coder_core.runs.analysis.read import open_analysis
from tests.support.pages import PAGES
from tests.support.run_folders import write_run

NEED_EMBEDDINGS = ("joint", "clusters")


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """Run "ours", and "theirs" with lists of ten images for every caption."""
    base = tmp_path_factory.mktemp("lists") / "runs"
    ours = write_run(base, "ours", images=12, noise=2.0)
    analysis = open_analysis(ours, "dev")
    owner = analysis.image_of_text
    names = [name.replace(" ", "%20") for name in analysis.image_names]
    random = np.random.default_rng(0)
    lines = []
    for caption, image in enumerate(owner.tolist()):
        number = int((owner[:caption] == image).sum())
        chosen = random.permutation(12)[:10].tolist()
        lines += [f"{names[image]}#{number} Q0 {names[c]} {k} {1 / k} x\n" for k, c in enumerate(chosen, 1)]
    (base.parent / "run.txt").write_text("".join(lines))
    import_lists(base.parent / "run.txt", ours, base, "theirs", "dev")
    return base


@pytest.mark.parametrize("page", PAGES)
def test_every_page_of_lists_answers_in_words(root, page, opened):
    for versus in ("theirs", "—"):
        app = opened(root, page, run="ours" if versus == "theirs" else "theirs", versus=versus)
        assert not app.exception
        text = app.texts()
        assert "Traceback" not in text
        assert "2147483" not in text.replace(",", "")
        if page == "overview":
            assert app.saying("Why theirs misses cannot be told")
            assert bool(app.rows("misses fixed")) == (versus == "theirs")  # of the run with embeddings
        if page in NEED_EMBEDDINGS:
            assert app.saying("theirs", "only the lists of another system")


def test_lists_show_results_and_changes(root, opened):
    for direction in ("text", "image"):
        app = opened(root, "retrieval", run="ours", versus="theirs", direction=direction)
        assert not app.exception
    app = opened(root, "retrieval", run="ours", versus="theirs", outcome="Broken")
    [table] = [
        table for table in app.tables() if "captions" in table["label"] or "queries" in table["label"]
    ][:1]
    assert table["rows"]
    assert "not listed" in str(app.tables())
