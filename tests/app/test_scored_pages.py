"""Pages beside a run that scores pairs: those that need scores alone work, the others name the run and show the rest."""

import shutil
from pathlib import Path

import pytest

from coder_core.runs.analysis.read import open_analysis
from coder_core.runs.analysis.write import write_analysis
from tests.support.pages import Opened
from tests.support.run_folders import write_run

SAME = ("image_of_text", "captions", "image_names", "picture_folder", "metrics")
RANKING = ("image_ranks", "text_ranks", "image_best", "text_best")


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cosine run, and the same with the matrix of its scores in the place of its embeddings."""
    base = tmp_path_factory.mktemp("scored") / "runs"
    plain = write_run(base, "demo-baseline", noise=2.0, images=12)
    shutil.copytree(plain, base / "demo")
    known = open_analysis(plain, "dev")
    scores = known.image_embeddings @ known.text_embeddings.T
    values = {name: getattr(known, name) for name in (*SAME, *RANKING)}
    write_analysis(base / "demo", "dev", scores=scores, fingerprint="scored", **values)
    return base


@pytest.mark.parametrize("page", ["overview", "diversity", "similarity", "retrieval"])
def test_pages_that_need_scores_alone_work(root: Path, page: str, opened: Opened) -> None:
    for pair in ({"run": "demo-baseline", "versus": "demo"}, {"run": "demo", "versus": "—"}):
        app = opened(root, page, **pair)
        assert app.get("plotly_chart")
        assert not app.saying("demo", "scores every image with every caption")


@pytest.mark.parametrize("page", ["joint", "clusters"])
def test_pages_about_a_space_show_the_other_run(root: Path, page: str, opened: Opened) -> None:
    app = opened(root, page, run="demo-baseline", versus="demo")
    assert app.saying("demo", "Only demo-baseline")
    alone = opened(root, page, run="demo", versus="—")
    assert len(alone.refusals()) == 1
    assert not alone.get("plotly_chart")
