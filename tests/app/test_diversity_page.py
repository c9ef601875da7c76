"""The Diversity page: every setting, the ranking of anchors, and ambiguity estimated from captions alone."""

import itertools

import pandas as pd
import pytest

from coder_core.api import diversity_changes, open_run, rank_correlation
from coder_core.api.retrieval import fitting_images

SLIDERS = {"epsilon": 0.3, "mu": 0.2, "gamma": 0.1, "tau": 0.05}
SIDES = ("split", "batch", "bank")


def test_every_setting_of_the_diversity_page(roots, opened):
    app = opened(roots["two"], "diversity")
    assert [app.value(key) for key in SLIDERS] == [0.1, 0.1, 0.3, 1.0]  # as in training
    assert app.saying("demo-baseline", "eq. 4")
    assert "heat" not in app.keys("toggle")  # runs without a model have no heat maps
    run = open_run(roots["two"] / "demo")
    rho = rank_correlation(run.diversity("dev")["diversity"], pd.Series(fitting_images(run, "dev")))
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
