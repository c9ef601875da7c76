"""Cards and exports: text from outside is escaped."""

import re
from dataclasses import replace

import pandas as pd
import pytest

from app.choice import Choice
from app.components import cards, downloads
from app.components.enlarged import captions_html
from app.components.heat_maps import numbered
from coder_core.api import list_runs
from tests.support.run_folders import write_run

EVIL = "<img src=http://127.0.0.1:9/x onerror=alert(1)>![a](http://127.0.0.1:9/y)\"'"
MARKDOWN = ("![a](http://127.0.0.1:9/y)", "[a](b)", ":red[x]", "*a* _b_ ~c~ `d`", "$x$", "<b>", "- a", "+ a")
MARKDOWN += ("1. a", "12) a", ":smile:", "www.evil.example")


def test_cards_escape_external_text(tmp_path):
    results = [cards.Result(1, 0.5, True, EVIL, b"", (EVIL,), ("image", 3), "rank", EVIL, 3, EVIL)]
    for markup in (
        cards.results_html(results),
        cards.results_html([cards.Result(2, 0.4, False, EVIL)]),
        cards.sample_html(cards.Sample(EVIL, None, [EVIL, EVIL], highlighted=0)),
        cards.sample_html(cards.Sample(EVIL, b"", [EVIL, EVIL], highlighted=0, image=3)),
    ):
        clues = ("<img src=http", "&lt;img src=http", "\"'")
        assert [clue in markup for clue in clues] == [False, True, False]
    texts = {"captions": [EVIL] * 20, "picture_names": [EVIL[5:9]] * 4}
    write_run(tmp_path / "runs", "a", images=4, pictures=False, **texts)
    [run] = list_runs(tmp_path / "runs")
    markup = captions_html(Choice(replace(run, name=EVIL), None, "dev"), 1)
    assert "<img" not in markup
    assert "\"'" not in markup
    assert markup.count("&lt;img src=http") == 2 * 5 + 2  # five captions with their titles, two columns


def test_repeated_words_are_numbered():
    assert numbered(["a", "dog", "a", "a"]) == ["a", "dog", "a (2)", "a (3)"]


def test_results_keep_their_order_and_show_text_and_ids_without_a_picture():
    first = cards.Result(1, 0.912, False, "no", ids="image 3 · 3.jpg")
    markup = cards.results_html([first, cards.Result(2, 0.5, True, "yes")])
    assert markup.count("✓ match") == 1
    assert markup.index("no") < markup.index("✓ match") < markup.index("yes")
    assert "0.912" in markup
    assert first.ids in markup
    assert "<img" not in markup + cards.sample_html(cards.Sample("Image 3", None, ["a dog"]))


def test_latex_is_escaped_and_rounded_by_quantity():
    nan = float("nan")
    columns = {"run_name": ["a_b & 50%", "\\input{x}"], "R@1": [12.345, nan], "MD": [0.0123, -0.2]}
    columns |= {"seed": [0.0, 3.0], "σ": [nan, nan], "μ": [262.84, -1.0]}
    text = downloads.latex(pd.DataFrame(columns))
    assert r"a\_b \& 50\% & 12.3 & 0.0123 & 0 & -- & 262.8 \\" in text
    assert r"\textbackslash input\{x\} & -- & -0.2000 & 3 & -- & -1.0 \\" in text
    assert text.startswith("\\begin{tabular}{lrrrrr}\n\\toprule\nrun\\_name & R@1 & MD & seed")


def test_csv_cells_cannot_start_formulas():
    text = downloads.csv(pd.DataFrame({"caption": ["=1+1", "plain", "@x"], "n": [-1.5, 2.0, 3.0]})).decode()
    assert text == "caption,n\n'=1+1,-1.5\nplain,2.0\n'@x,3.0\n"


@pytest.mark.parametrize("text", MARKDOWN)
def test_names_in_headings_are_escaped_for_markdown(text):
    escaped = cards.literal(text)
    assert not re.search(r"(?<!\\)[`*_\[\]()<>:$~!]|^\d*[-+.)]\s|:(?=[a-z/])|www\.", escaped)
    assert escaped.replace("\\", "").replace("\u2060", "") == text
    assert "\n" not in cards.literal("a\n\n# b")
    for name in ("demo-baseline 0.2", "coder_f30k-bigru_2", "R@sum", "γ = 0.3", "1.5 mm"):
        assert cards.literal(name) == name
