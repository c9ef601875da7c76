"""Pages beside a run that scores pairs: those that need scores alone work, the others say why they cannot."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from coder_core.runs.analysis.read import open_analysis
from coder_core.runs.analysis.write import write_analysis
from tests.support.pages import Opened, texts
from tests.support.run_folders import write_run


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cosine run, and the same with the matrix of its scores in the place of its embeddings."""
    base = tmp_path_factory.mktemp("scored") / "runs"
    plain = write_run(base, "demo-baseline", noise=2.0, images=12)
    shutil.copytree(plain, base / "demo")
    known = open_analysis(plain, "dev")
    write_analysis(
        base / "demo",
        "dev",
        scores=known.image_embeddings @ known.text_embeddings.T,
        image_of_text=known.image_of_text,
        captions=known.captions,
        image_names=known.image_names,
        picture_folder=known.picture_folder,
        metrics=known.metrics,
        fingerprint="scored",
        image_ranks=known.image_ranks,
        text_ranks=known.text_ranks,
        image_best=known.image_best,
        text_best=known.text_best,
    )
    return base


@pytest.mark.parametrize("page", ["overview", "diversity", "similarity", "retrieval"])
@pytest.mark.parametrize("versus", ["demo", "—"])
def test_pages_that_need_scores_alone_work(root: Path, page: str, versus: str, opened: Opened) -> None:
    app = opened(root, page, run="demo" if versus == "—" else "demo-baseline", versus=versus)
    assert not app.exception
    assert "scores every image with every caption" not in texts(app)


@pytest.mark.parametrize("page", ["joint", "clusters"])
def test_pages_about_a_space_show_the_other_run_and_say_why(root: Path, page: str, opened: Opened) -> None:
    said = "demo scores every image with every caption as a pair, so a sample has no single embedding."
    app = opened(root, page, run="demo-baseline", versus="demo")
    assert not app.exception
    assert f"{said} Only demo-baseline is shown." in texts(app)
    alone = opened(root, page, run="demo", versus="—")
    assert not alone.exception
    assert said in texts(alone)
    assert "Overview, Diversity, Similarity and Retrieval work with such a run" in texts(alone)
