"""The Diversity page: every setting, the ranking of anchors, and ambiguity estimated from captions alone."""

import itertools
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from app.choice import Choice
from app.views.diversity import answer
from coder_core.api import RunSummary, diversity_changes, open_run, rank_correlation
from coder_core.api.retrieval import count_fitting_images

SLIDERS = {"epsilon": 0.3, "mu": 0.2, "gamma": 0.1, "tau": 0.05}
SIDES = ("split", "batch", "bank")


def test_every_setting_of_the_diversity_page(roots, opened):
    app = opened(roots["two"], "diversity")
    assert [app.value(key) for key in SLIDERS] == [0.1, 0.1, 0.3, 1.0]  # as in training
    assert app.saying("demo-baseline", "eq. 4")
    assert "heat" not in app.keys("toggle")  # runs without a model have no heat maps
    run = open_run(roots["two"] / "demo")
    rho = rank_correlation(run.diversity("dev")["diversity"], pd.Series(count_fitting_images(run, "dev")))
    assert app.change(fits=True).saying(f"demo {rho:+.2f}")
    assert app.saying("those of demo", "μ = 0.1, γ = 0.3, ε = 0.1")
    for mu in (0.1, 0.25):
        [rows] = app.change(mu=mu).rows("μ·div")
        for row in rows:
            assert float(row["μ·div"]) == pytest.approx(mu * float(row["diversity"]), abs=1e-4)
    app.change(**SLIDERS)
    for anchors, measure, over in itertools.product(("text", "image"), ("std", "entropy"), SIDES):
        if app.value("anchors") != anchors:
            app.change(anchors=anchors)
        number = "caption" if anchors == "text" else "image"
        app.change(**{number: 7}, measure=measure, over=over)
        assert app.saying(f"{number.capitalize()} 7")
    assert "fits" not in app.keys("toggle")  # they are found from captions


def test_anchors_can_be_ranked_stepped_through_and_searched(roots, opened):
    app = opened(roots["two"], "diversity").change(anchor_words="zebra")
    assert app.refusals()
    assert "caption" not in app.keys("number_input")  # nothing is open
    assert app.change(anchor_words="scene 7 told").value("caption") in range(35, 40)
    app.change(anchor_words="")
    first, second = (open_run(roots["two"] / name).diversity("dev") for name in ("demo-baseline", "demo"))
    moves = diversity_changes(first, second)["change"]
    orders = {"second": second["spread"], "first": first["spread"], "fell": moves, "rose": -moves}
    for ranked, values in orders.items():
        best, next_best = values.argsort(kind="stable")[:2].tolist()
        app.change(ranked=ranked)
        assert app.change(caption=best).click("caption-next").value("caption") == next_best
    assert app.click("caption-previous").value("caption") == best


def test_by_entropy_the_most_ambiguous_anchors_have_the_largest_entropy(roots, opened):
    run = open_run(roots["two"] / "demo")
    app = opened(roots["two"], "diversity", run="demo", versus="—")
    by_deviation = [row["SD"] for row in app.rows("SD")[0]]
    assert by_deviation == sorted(by_deviation)
    app.change(measure="entropy")
    entropies = run.spread("dev", modality="text", function="entropy", temperature=1.0)
    assert app.value("caption") == int(np.argmax(entropies))
    assert app.saying("Further right is more ambiguous")
    assert not app.saying("Further left is more ambiguous")
    assert app.rows("percentile")[0][0]["percentile"] == "0.0"


def test_a_saturated_measure_says_so_and_offers_a_temperature_that_separates(roots, opened):
    app = opened(roots["two"], "diversity", run="demo", versus="—", measure="Entropy", tau="1")
    assert app.saying("the entropy of all anchors is nearly the same")
    diversity = [float(row["diversity"]) for row in app.rows("diversity")[0]]
    assert max(diversity) - min(diversity) < 0.001
    app.click("useful-tau")
    diversity = [float(row["diversity"]) for row in app.rows("diversity")[0]]
    assert max(diversity) - min(diversity) > 0.001
    assert not app.saying("the entropy of all anchors is nearly the same")


@pytest.mark.parametrize(
    ("lowest", "highest", "title"),
    [
        (
            0.2,
            0.8,
            "Ambiguous captions are missed more often: 20% of the most ambiguous tenth are hit within 10, 80%",
        ),
        (
            0.5,
            0.3,
            "Here low diversity does not mean missed: 50% of the most ambiguous tenth are hit within 10, 30%",
        ),
        (0.5, 0.5, "No clear link between diversity and misses: 50%"),
    ],
)
def test_the_title_says_what_the_data_say_even_against_the_theory(lowest, highest, title):
    order = np.arange(1000.0)
    hit = np.zeros(1000, dtype=bool)
    hit[: int(100 * lowest)] = True
    hit[900 : 900 + int(100 * highest)] = True
    table = pd.DataFrame({"order": order, "rank": np.where(hit, 1, 50)})
    choice = Choice(RunSummary("demo", Path("demo"), "finished"), None, "dev")
    assert answer(choice, table, "captions").startswith(title)


def test_the_list_of_two_runs_shows_what_it_has_room_for_and_the_measure_of_its_order(roots, opened):
    runs = {"run": "demo-baseline", "versus": "demo"}
    usual = ["percentile in demo", "rank in demo", "rank in demo-baseline"]
    for query, measure in (
        ({}, "diversity in demo"),
        ({"measure": "Entropy"}, "entropy in demo"),
        ({"ranked": "More ambiguous than before"}, "change of percentile"),
    ):
        app = opened(roots["two"], "diversity", **runs, **query)
        [table] = [table for table in app.tables() if table["label"] == "captions"]
        assert [column["label"] for column in table["columns"]] == [*usual, measure]
