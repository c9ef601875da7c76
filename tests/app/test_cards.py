"""Cards and exports: what comes from outside is escaped."""

from __future__ import annotations

import re

import pandas as pd
import pytest

from app.ui import cards, export
from app.ui.glossary import TERMS, tip

EVIL = "<img src=http://127.0.0.1:9/x onerror=alert(1)>![a](http://127.0.0.1:9/y)\"'"


@pytest.mark.parametrize(
    "markup",
    [
        cards.results_html([cards.Result(1, 0.5, True, EVIL, None, True, (EVIL,)), cards.Result(2, 0.4, False, EVIL)]),
        cards.sample_html(None, [EVIL, EVIL], EVIL, highlighted=0),
    ],
)
def test_nothing_from_outside_becomes_markup(markup: str) -> None:
    assert "<img src=http" not in markup
    assert "&lt;img src=http" in markup
    assert "\"'" not in markup


def test_matches_are_marked_and_places_kept() -> None:
    markup = cards.results_html([cards.Result(1, 0.912, False, "no"), cards.Result(2, 0.5, True, "yes")])
    assert markup.count("✓ match") == 1
    assert markup.index("no") < markup.index("✓ match") < markup.index("yes")
    assert "0.912" in markup


def test_a_missing_picture_has_a_stand_in() -> None:
    assert cards.data_url(None).startswith("data:image/svg+xml;base64,")
    assert cards.data_url(b"\xff\xd8").startswith("data:image/jpeg;base64,")


def test_every_term_is_one_plain_sentence() -> None:
    for term, sentence in TERMS.items():
        assert sentence.endswith("."), term
        assert "](" not in sentence, term
    with pytest.raises(KeyError):
        tip("nothing of the kind")


def test_latex_is_escaped_and_rounded() -> None:
    table = pd.DataFrame({"run_name": ["a_b & 50%", "\\input{x}"], "R@1": [12.345, float("nan")], "epochs": [3, 4]})
    text = export.latex(table)
    assert r"a\_b \& 50\% & 12.3 & 3 \\" in text
    assert r"\textbackslash input\{x\} & -- & 4 \\" in text
    assert text.startswith("\\begin{tabular}{lrr}\n\\toprule\nrun\\_name & R@1 & epochs")


def test_csv_starts_no_formula() -> None:
    text = export.csv(pd.DataFrame({"caption": ["=1+1", "plain", "@x"], "n": [-1.5, 2.0, 3.0]})).decode()
    assert text == "caption,n\n'=1+1,-1.5\nplain,2.0\n'@x,3.0\n"


@pytest.mark.parametrize(
    "text",
    ["![a](http://127.0.0.1:9/y)", "[a](b)", ":red[x]", "*a* _b_ ~c~ `d`", "$x$", "<b>", "- a", "+ a", "1. a", "12) a",
     ":smile:", "www.evil.example"],
)  # fmt: skip
def test_a_name_in_a_heading_is_no_markdown(text: str) -> None:
    escaped = cards.literal(text)
    assert not re.search(r"(?<!\\)[`*_\[\]()<>:$~!]|^\d*[-+.)]\s|:(?=[a-z/])|www\.", escaped)
    assert escaped.replace("\\", "").replace("\u2060", "") == text
    assert "\n" not in cards.literal("a\n\n# b")


@pytest.mark.parametrize("name", ["demo-baseline 0.2", "coder_f30k-bigru_2", "R@sum", "γ = 0.3", "1.5 mm"])
def test_a_usual_name_is_its_own_label(name: str) -> None:
    assert cards.literal(name) == name
