"""The Diversity page: every setting, the ranking of anchors, and ambiguity estimated from captions alone."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from coder_core.api import diversity_changes, open_run, rank_correlation
from coder_core.api.retrieval import fitting_images
from tests.support.pages import Opened, refusals, saying, texts


@pytest.mark.parametrize("anchors", ["text", "image"])
@pytest.mark.parametrize("measure", ["std", "entropy"])
@pytest.mark.parametrize("over", ["split", "batch", "bank"])
def test_every_setting(roots: dict[str, Path], anchors: str, measure: str, over: str, opened: Opened) -> None:
    app = opened(roots["two"], "diversity")
    for key, value in (("anchors", anchors), ("measure", measure), ("over", over)):
        app.segmented_control(key=key).set_value(value)
    for key, value in (("epsilon", 0.3), ("mu", 0.2), ("gamma", 0.1), ("tau", 0.05)):
        app.slider(key=key).set_value(value)
    app.run()
    assert not app.exception
    number = "caption" if anchors == "text" else "image"
    app.number_input(key=number).set_value(7).run()
    assert not app.exception
    assert saying(app, number.capitalize(), 7)


def test_ambiguity_by_the_captions_alone_is_shown_beside_diversity(
    roots: dict[str, Path], opened: Opened
) -> None:
    app = opened(roots["two"], "diversity")
    app.toggle(key="fits").set_value(True).run()
    assert not app.exception
    run = open_run(roots["two"] / "demo")
    fits = fitting_images(run, "dev")
    assert fits is not None
    assert len(fits) == run.count("dev", "text")
    rho = rank_correlation(run.diversity("dev")["diversity"], pd.Series(fits))
    assert saying(app, f"demo {rho:+.2f}")
    app.segmented_control(key="anchors").set_value("image").run()
    assert not app.exception
    assert "fits" not in [toggle.key for toggle in app.toggle]


def test_next_and_previous_walk_the_ranking(roots: dict[str, Path], opened: Opened) -> None:
    app = opened(roots["two"], "diversity")
    first = app.number_input(key="caption").value
    app.button(key="caption-next").click().run()
    assert app.number_input(key="caption").value != first
    app.button(key="caption-previous").click().run()
    assert app.number_input(key="caption").value == first


def test_sliders_begin_at_the_values_of_training(roots: dict[str, Path], opened: Opened) -> None:
    app = opened(roots["two"], "diversity")
    assert [app.slider(key=key).value for key in ("epsilon", "mu", "gamma", "tau")] == [0.1, 0.1, 0.3, 1.0]
    assert saying(app, "demo-baseline", "eq. 4")
    assert saying(app, "demo", "ε 0.1", "μ 0.1", "γ 0.3")
    assert texts(app).count("μ = 0.1\n") == 2
    app.slider(key="mu").set_value(0.25).run()
    assert texts(app).count("μ = 0.25\n") == 2


@pytest.mark.parametrize("ranked", ["second", "first", "fell", "rose"])
def test_anchors_can_be_ranked_by_what_changed(roots: dict[str, Path], ranked: str, opened: Opened) -> None:
    app = opened(roots["two"], "diversity")
    app.segmented_control(key="ranked").set_value(ranked).run()
    assert not app.exception
    first, second = (open_run(roots["two"] / name).diversity("dev") for name in ("demo-baseline", "demo"))
    moves = diversity_changes(first, second)["change"]
    values = {"second": second["spread"], "first": first["spread"], "fell": moves, "rose": -moves}[ranked]
    order = values.argsort(kind="stable")
    app.number_input(key="caption").set_value(int(order.iloc[0])).run()
    app.button(key="caption-next").click().run()
    assert app.number_input(key="caption").value == int(order.iloc[1])


def test_words_that_no_caption_holds(roots: dict[str, Path], opened: Opened) -> None:
    app = opened(roots["two"], "diversity")
    app.text_input(key="words").set_value("zebra").run()
    assert refusals(app)
    assert "caption" not in [number.key for number in app.number_input]  # nothing is open
    app.text_input(key="words").set_value("scene 7 told").run()
    assert int(app.number_input(key="caption").value or 0) in range(35, 40)
    assert not app.exception
