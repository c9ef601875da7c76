"""Every page opens with a split that is a search log, and says what its queries lack."""

import numpy as np
import pytest

from coder_core.api import causes, open_run, retrieval
from coder_core.embedding.log import log_split
from tests.support.pages import PAGES
from tests.support.run_folders import unit

IMAGES = 40
QUERIES = 30


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    """A run whose only split is a search log: every query has three judged pictures, some of them wrong."""
    root = tmp_path_factory.mktemp("shop") / "runs"
    random = np.random.default_rng(0)
    images = unit(random.normal(size=(IMAGES, 16)))
    right = random.integers(0, IMAGES, QUERIES)
    noise = unit(random.normal(size=(QUERIES, 16)))
    judgements = [(query, int(image), 2) for query, image in enumerate(right)]
    judgements += [
        (query, int(right[query] + step) % IMAGES, step - 1) for query in range(QUERIES) for step in (1, 2)
    ]
    others = unit(random.normal(size=(2, 16)))  # two queries without a right picture
    captions = [
        f"where is the {word} thing {query}" for query, word in enumerate(["red", "blue", "green"] * 10)
    ]
    captions += ["how do I return a thing", "opening <b>hours</b>"]
    names = [f"{row}.jpg" for row in range(IMAGES)]
    for name, share in (("one", 1.6), ("two", 0.4)):
        texts = np.concatenate([unit(images[right] + share * noise), others])
        arguments = {"captions": captions, "pictures": names, "judgements": np.array(judgements)}
        with pytest.warns(UserWarning, match="2 have no right image"):
            log_split(root / name, "log", images, texts, **arguments)
    return root


def title(app):
    """Return the title of a page without the marks that keep it from being Markdown."""
    return app.title[0].value.replace("\\", "")


@pytest.mark.parametrize("page", PAGES)
def test_every_page_opens_with_a_search_log(shop, page, opened):
    app = opened(shop, page, run="one", versus="two", split="log")
    assert not app.exception
    assert len(app.title) == 1
    if page not in ("start", "train", "reviews"):
        assert app.saying("search log", "judged best")
        assert any("how do I return a thing" in str(table) for table in app.tables())


def test_overview_leads_with_ndcg_and_its_interval(shop, opened):
    app = opened(shop, "overview", run="one", versus="two", split="log")
    assert app.saying("Metrics of graded judgments", "30 of the search log")
    [table] = [table for table in app.tables() if "MRR@10" in str(table)]
    assert "one" in str(table)


def test_unjudged_results_are_marked_as_such(shop, opened):
    app = opened(shop, "retrieval", run="one", split="log", query_text="3")
    cards = app.texts()  # of the query in detail
    assert "not judged" in cards
    assert "grade 2" in cards


def test_overview_has_both_figures_of_a_catalogue_and_retrieval_says_why_a_result_is_right(tmp_path, opened):
    random = np.random.default_rng(1)
    products = np.repeat(unit(random.normal(size=(20, 16))), 2, axis=0)
    images = products + 0.05 * random.normal(size=products.shape)
    captions = [f"a thing of kind {row // 2}" for row in range(40)]
    names = [f"{row}.jpg" for row in range(40)]
    log_split(
        tmp_path / "runs" / "shop",
        "dev",
        images,
        products,
        captions=captions,
        pictures=names,
        groups=[row // 2 for row in range(40)],
    )
    app = opened(tmp_path / "runs", "overview", run="shop")
    assert app.saying("20 groups have several images")
    [table] = [table for table in app.tables() if "right by" in str(table)]
    assert "labels" in str(table)
    assert "group" in str(table)
    app = opened(tmp_path / "runs", "retrieval", run="shop", query_text="4")
    assert "same group" in app.texts()


def test_a_search_log_has_an_error_budget_and_lists_the_queries_of_a_cause(shop, opened):
    run = open_run(shop / "one")
    misses = causes.causes_of_run(run, "log", causes.Question("i2t"))
    budget = causes.error_budget(misses).set_index("cause")["count"]
    cause = str(budget.idxmax())
    app = opened(shop, "overview", run=["one"], split="log", misses_of="Image → captions")
    assert f"{cause} {budget.max()}" in app.texts()
    app = opened(shop, "retrieval", run=["one"], split="log", direction="Image → captions", cause=cause)
    assert app.saying(f"Only queries that one misses with the cause “{cause}”")
    assert app.saying("Missed by")


def test_the_title_of_a_search_log_is_its_ndcg_with_its_interval(shop, opened):
    one, two = (open_run(shop / name) for name in ("one", "two"))
    mean, low, high = retrieval.log_ndcg(one, "log")
    [stored] = retrieval.graded_evaluations(one, "log")
    assert stored.rows["t2i"]["nDCG@10"] == pytest.approx((mean, low, high))
    app = opened(shop, "overview", run=["one"], split="log")
    assert title(app) == f"one reaches nDCG@10 {mean:.1f} [{low:.1f}, {high:.1f}] of 100"
    gain = retrieval.log_gain(one, two, "log")
    assert 0 < gain.low < gain.mean == pytest.approx(retrieval.log_ndcg(two, "log")[0] - mean)
    app = opened(shop, "overview", run=["one", "two"], split="log")
    better = f"two is better: nDCG@10 {mean + gain.mean:.1f} against {mean:.1f}, +{gain.mean:.1f} [{gain.low:+.1f}, "
    assert title(app).startswith(better)
    assert not app.saying("R@sum: ")
    red = retrieval.log_ndcg(one, "log", np.arange(0, QUERIES, 3))[0]
    assert red != pytest.approx(mean)
    app = opened(shop, "overview", run=["one"], split="log", slice="'red' in caption")
    assert title(app).startswith(f"one reaches nDCG@10 {red:.1f} ")


def test_all_runs_of_a_search_log_are_in_the_order_of_the_title_and_not_of_recall(tmp_path, opened):
    """One run finds the best pictures of most queries and nothing of the others, the other the second best of all."""
    random = np.random.default_rng(3)
    images = unit(random.normal(size=(IMAGES, 32)))
    best = np.arange(QUERIES)
    texts = {"careful": images[best], "hasty": images[best + 1]}
    texts["careful"][::5] = unit(random.normal(size=(QUERIES // 5, 32)))
    judgements = np.array([(query, query + step, 2 - step) for query in range(QUERIES) for step in (0, 1)])
    names = [f"{row}.jpg" for row in range(IMAGES)]
    captions = [f"thing {query}" for query in range(QUERIES)]
    metrics = {}
    for name, of_run in texts.items():
        log_split(
            tmp_path / name, "log", images, of_run, captions=captions, pictures=names, judgements=judgements
        )
        metrics[name] = open_run(tmp_path / name).summary.metrics["log"]
    assert metrics["careful"]["rsum"] < metrics["hasty"]["rsum"]
    assert metrics["careful"]["t2i_ndcg10"] > metrics["hasty"]["t2i_ndcg10"]
    app = opened(tmp_path, "overview", run=["hasty", "careful"], split="log")
    assert title(app).startswith("careful is better")
    [rows] = app.rows("R@sum")
    assert [row["run"] for row in rows] == ["careful", "hasty"]
