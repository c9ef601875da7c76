"""Every page: any kind of run, links, runs of other samples or without embeddings, invalid parameters."""

import itertools
import re

import pytest

from coder_core import log_split
from coder_core.api import open_run
from coder_core.runs.analysis.read import open_analysis
from tests.support.pages import ABOUT_SCORES, FIELDS, IN_SIDEBAR, PAGES
from tests.support.run_folders import CONCEPTS, synthetic, write_embeddings, write_run

STRANGE = ("../../etc", "a\nb", "<script>alert(1)</script>", "9" * 400, "inf", "-5")
SIMILARITY = "scaling-anchors batch-of order pairs draw scaling-mu scaling-gamma scaling-epsilon pair-image pair-caption chosen"
PARAMETERS = {
    "diversity": ("caption", "image", "epsilon", "anchors"),
    "retrieval": ("query-text", "anchors", "at"),
    "similarity": SIMILARITY.split(),
    "concepts": ("concept", "concept-caption", "count", "kind", "by", "part", "first", "pairs-of"),
}


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """Runs alpha, beta and gamma, "scored" with beta's scores in place of embeddings, and "other" of other samples."""
    base = tmp_path_factory.mktemp("pages") / "runs"
    for number, name in enumerate(("alpha", "beta", "gamma")):
        write_run(base, name, images=12, noise=1.0 + number)
    write_run(base, "other", images=14, pictures=False)
    scored = write_run(base, "scored", images=12)
    about = {name: getattr(open_analysis(scored, "dev"), name) for name in ("captions", "picture_folder")}
    v, w, owner = synthetic(12, noise=2.0)
    write_embeddings(scored, v, w, owner, scores=v @ w.T, fingerprint="scored", **about)
    return base


@pytest.mark.parametrize("kind", ["none", "imported"])
@pytest.mark.parametrize("page", [*PAGES, "start"])
def test_every_page_opens(roots, kind, page, opened):
    app = opened(roots[kind], page)
    question = re.search(r'class="cl-question"[^>]*>[^<]*\?</p>(.*?)</div>', app.texts())
    assert question is not None
    is_about_runs = page != "start" and kind != "none"
    assert ("cl-dot" in question[1]) == is_about_runs, "runs are named in their colors beside the question"
    if kind == "none":
        assert app.answer().startswith(("Nothing is trained yet: ", "There is no evaluated run yet: "))


@pytest.fixture(scope="module")
def few_ranked(tmp_path_factory):
    """Imported runs, of one of which five queries per direction are ranked, and of the other none."""
    base = tmp_path_factory.mktemp("ranked") / "runs"
    for queries in (0, 5):
        v, w, owner = synthetic(20, noise=2.0)
        captions = [f"scene {image}, way {way}" for way, image in enumerate(owner)]
        log_split(
            base / f"ranked-{queries}", "dev", v, w, captions=captions, image_of_text=owner, rank=queries
        )
    return base


@pytest.mark.parametrize("page", PAGES)
def test_every_page_opens_a_split_of_which_few_queries_are_ranked(few_ranked, page, opened):
    texts = opened(few_ranked, page, run="ranked-0").texts()
    assert "nan" not in texts.split()
    opened(few_ranked, page, run="ranked-5")
    for both in (["ranked-0", "ranked-5"], ["ranked-5", "ranked-0"]):
        opened(few_ranked, page, run=both)


def test_an_opened_query_that_is_not_ranked_shows_its_rank(few_ranked, opened):
    whole = few_ranked.parent / "whole"
    v, w, owner = synthetic(20, noise=2.0)
    captions = [f"scene {image}, way {way}" for way, image in enumerate(owner)]
    log_split(whole / "run", "dev", v, w, captions=captions, image_of_text=owner)
    for name in ("ranked-0", "ranked-5"):
        run = open_run(few_ranked / name)
        for way, ranks in open_run(whole / "run").ranks("dev").items():
            assert [run.rank_of("dev", way, query) for query in range(len(ranks))] == ranks.tolist()
    worst = int(ranks.argmax())
    page = opened(few_ranked, "retrieval", run="ranked-0", **{"query-text": str(worst)})
    assert f"match at rank {ranks[worst] + 1}" in page.texts()


def test_the_first_page_offers_training_or_links_to_runs_baseline_first(roots, opened):
    assert len(opened(roots["none"], "").button) == 1
    app = opened(roots["two"], "start")
    assert not app.main.get("button")
    assert len(app.main.get("page_link")) == 6
    app = opened(roots["two"], "overview")
    assert app.value("run") == ["demo-baseline", "demo"]
    assert app.click("swap-runs").value("run") == app.query_params["run"] == ["demo", "demo-baseline"]
    assert "demo" in app.change(run=["demo"]).query_params["run"]
    assert app.change(run=[]).saying("demo-baseline", "demo")


def test_sidebar_entries_depend_on_the_runs_and_paired_pages_share_one(tmp_path, opened):
    folder = tmp_path / "runs"
    write_run(folder, "concepts", images=12, concepts=CONCEPTS)
    write_run(folder, "plain", images=12)
    expected = (("plain", "clusters"), ("plain", "weights", "weights"), ("concepts", "data", "concepts"))
    for name, page, *more in expected:
        app = opened(folder, page, run=name)
        assert [entry.proto.page for entry in app.sidebar.get("page_link")] == [*IN_SIDEBAR, *more]
        tabs = re.findall(r'<a href="(\w+)[^"]*"( aria-current="page")?', "".join(app.saying("Tabs")))
        pairs = {"clusters": ["joint", "clusters"], "data": ["data", "reviews"]}
        assert [tab for tab, _ in tabs] == pairs.get(page, [])
        assert [tab for tab, current in tabs if current] == [page] * bool(tabs)


@pytest.mark.parametrize("page", PAGES)
def test_a_link_opens_its_runs_if_they_are_comparable(root, page, opened):
    for versus, runs in (("beta", ["gamma", "beta"]), ("—", ["gamma"])):
        app = opened(root, page, run="gamma", versus=versus)
        assert app.value("run") == runs
        assert "versus" not in app.query_params
        drawn = [app.texts(), *(button.label for button in app.button), str(app.figures())]
        assert {name for name in ("alpha", "beta", "gamma") if any(name in text for text in drawn)} == {*runs}
    app = opened(root, page, run="gamma", versus="other")
    assert any("gamma" in refusal and "other" in refusal for refusal in app.refusals())


@pytest.mark.parametrize("page", [*ABOUT_SCORES, "joint", "slices"])
def test_every_figure_can_be_shown_as_a_table(roots, page, opened):
    app = opened(roots["two"], page, values="true", map="PCA", area="a:-9,-9,9,-9,9,9,-9,9")
    assert app.value("values")
    figures = {chart.proto.alt for chart in app.get("plotly_chart")}
    values = [table for table in app.tables() if table["label"] == "values"]
    assert figures
    assert {table["columns"][-1]["label"] for table in values} == figures
    assert all(table["rows"] for table in values)
    app.change(values=False)
    assert [table for table in app.tables() if table["label"] == "values"] == []


@pytest.mark.parametrize("page", [*ABOUT_SCORES, "joint", "clusters"])
def test_pages_of_a_run_that_scores_pairs(root, page, opened):
    app, alone = (opened(root, page, run=run, versus=to) for run, to in (("beta", "scored"), ("scored", "—")))
    if page in ABOUT_SCORES:
        for shown in (app, alone):
            assert shown.figures()
            assert not shown.saying("scored", "scores every image with every caption")
    else:
        assert app.saying("scored", "Only beta")
        assert len(alone.refusals()) == 1
        assert not alone.get("plotly_chart")


def test_joint_space_drops_runs_without_embeddings_before_it_takes_two(root, opened):
    app = opened(root, "joint", run=["alpha", "beta", "scored"], map="PCA")
    assert app.saying("scored", "scores every image", "Only alpha and beta")
    assert app.saying("modality gap of alpha")
    assert app.saying("modality gap of beta")


def test_a_browser_that_sends_no_format_of_figures_gets_the_usual_one(roots, opened):
    app = opened(roots["two"], "overview", figures=["SVG"])
    assert app.widget("figures").value == "SVG"
    app.app.session_state["figures"] = None
    assert app.again().widget("figures").value == "PNG"
    assert app.figures()


@pytest.mark.parametrize("page", PARAMETERS)
def test_invalid_url_parameters_change_nothing(roots, tmp_path, page, opened):
    root = (
        write_run(tmp_path / "runs", "one", concepts=CONCEPTS, images=30).parent
        if page == "concepts"
        else roots["two"]
    )
    plain = opened(root, page)
    for value in STRANGE:
        strange = opened(root, page, **dict.fromkeys(PARAMETERS[page], value))
        assert (strange.value("run"), strange.value("split")) == (plain.value("run"), plain.value("split"))
        assert len(strange.figures()) == len(plain.figures()) > 0
        nothing = opened(root, page, run=value, versus=value, split=value)
        assert nothing.refusals()
        assert not nothing.figures()
        assert "<script>" not in strange.texts() + nothing.texts()


def test_no_two_pages_have_a_control_of_the_same_name(roots, tmp_path, opened):
    """Streamlit removes the parameter of such a control from the address of the next page."""
    variants = {
        "retrieval": [{"look": look} for look in ("Rank changes", "Near misses", "Hubs")]
        + [{"ask": "Free text"}],
        "diversity": [{"over": "A batch"}],
        "joint": [{"map": "t-SNE"}],
        "concepts": [{}, {"concepts-of": "Images and captions"}],
    }
    of_page = {}
    for page in PAGES:
        root = roots["two"]
        if page == "concepts":
            root = write_run(tmp_path / "runs", "one", concepts=CONCEPTS, images=30).parent
        of_page[page] = set()
        for query in variants.get(page, [{}]):
            app = opened(root, page, **query)
            of_page[page] |= {key for kind in FIELDS for key in app.keys(kind) if key != "None"}
    of_frame = set.intersection(*of_page.values())
    assert {"run", "split", "slice"} <= of_frame
    everywhere = of_frame | {"values", "figures", "sample-tags", "sample-note"}  # of figures and of the panel
    for page, other in itertools.combinations(of_page, 2):
        assert of_page[page] & of_page[other] <= everywhere, (page, other)


def test_splits_of_any_chosen_run_are_offered_and_show_runs_that_have_them(tmp_path, opened):
    for name in ("demo-baseline", "demo"):
        folder = write_run(tmp_path, name, images=12, pictures=False)
    v, w, owner = synthetic(12, noise=1.0)
    write_embeddings(folder, v, w, owner, "train")
    app = opened(tmp_path, "diversity")
    assert (app.selectbox(key="split").options, app.value("split")) == (["dev", "train"], "dev")
    app.change(split="train")
    assert app.value("run") == ["demo-baseline", "demo"]
    assert app.saying("demo-baseline", "train", "Only demo")
    assert app.figures()
