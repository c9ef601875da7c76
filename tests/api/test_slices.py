"""Slices: expressions, what they refuse, and recall by slice against loops."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from coder_core.api import InputError, open_run
from coder_core.api.slices import (
    Columns,
    Slice,
    images_counted,
    search,
    select,
    slice_columns,
    slice_table,
    usual_slices,
)
from coder_core.api.slices import table as table_module
from coder_core.data.words import tokenise
from coder_core.evaluation.recall import HALVES_SEED
from tests.support.concept_runs import write_concept_run
from tests.support.run_folders import write_run

CAPTIONS = ["A dog.", "two Dogs on a red mat", "no cat", "a hotdog with 3 red and blue stripes"]
COLUMNS = Columns(
    4,
    {"length": np.array([2, 6, 2, 8]), "colours": np.array([0, 1, 0, 2])},
    {
        "words": {
            word: np.array([row for row in range(4) if word in tokenise(CAPTIONS[row])])
            for text in CAPTIONS
            for word in tokenise(text)
        }
    },
    {"caption": CAPTIONS},
    {"concept": {"dog": np.array([0, 3]), 'a "cat"': np.array([2])}},
)


@pytest.mark.parametrize(
    ("expression", "rows"),
    [
        ("length > 2", [1, 3]),
        ("2 < length <= 6", [1]),
        ("length != 2 and colours == 1", [1]),
        ("colours", [1, 3]),
        ("not colours", [0, 2]),
        ('"dog" in words', [0]),
        ('"DOG" in caption', [0, 1, 3]),
        ('"dog" not in caption', [2]),
        ('"wolf" in words or length == 8', [3]),
        ('("cat" in words or colours) and length < 7', [1, 2]),
        ('concept == "Dog"', [0, 3]),
        ('concept != "dog" and colours', [1]),
        ('concept == "wolf"', []),
        ("length > -1", [0, 1, 2, 3]),
        ("'3' in words", [3]),
        ("length > colours * 1 or colours", None),
    ],
)
def test_an_expression_selects_captions(expression: str, rows: list[int] | None) -> None:
    if rows is None:
        with pytest.raises(InputError, match="compares 'colours \\* 1'"):
            select(expression, COLUMNS)
    else:
        assert np.flatnonzero(select(expression, COLUMNS)).tolist() == rows


@pytest.mark.parametrize(
    ("expression", "said"),
    [
        ("", "is empty"),
        ("length >", "cannot be read"),
        ("width > 3", "one of caption, colours, concept, length, words"),
        ("concept > 3", 'does not say which concept; expected concept == "dog"'),
        ('"dog" in concept', 'concept == "dog"'),
        ("concept", "not a condition"),
        ("concept == dog", 'expected concept == "dog"'),
        ('length == "dog"', "compares"),
        ("dog in words", "a text in quotes"),
        ('"dog" in images', "asks for 'images'"),
        ("length", None),
        ("words > 3", 'compares words with a number; expected "word" in words'),
        ("caption", "not a condition"),
        ("__import__('os').system('true')", "not a condition"),
        ("length.__class__ > 3", "compares"),
        ("[x for x in words]", "not a condition"),
        ("(lambda: 1)()", "not a condition"),
        ("True", "not a condition"),
        ("length > True", "compares 'True'"),
        ("length > 3 if length else colours", "not a c"),
        ("not " * 120 + "length", None),
        ("(" * 300 + "length" + ")" * 190, "cannot be read"),
        ("length > 1 " + "or 1" * 200, "500"),
        ("length > 9" + "0" * 400, None),
        ("a := 3", "cannot be read"),
        ("\0", "cannot be read"),
        ("{**words}", "not a condition"),
    ],
)
def test_everything_else_of_python_is_refused(expression: str, said: str | None) -> None:
    if said is None:
        assert select(expression, COLUMNS).shape == (4,)
    else:
        with pytest.raises(InputError) as raised:
            select(expression, COLUMNS)
        assert said in str(raised.value)


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("dog", [0]),
        ("DOG, a!", [0]),
        ("red blue", [3]),
        ("on a red", [1]),
        ("“on a red” mat", [1]),
        ('"hotdog"', [3]),
        ('"dog" red', [1, 3]),
        ("3", [3]),
        ("wolf", []),
        ("red Colours", []),
        ("colors", []),
        ("dogs on a red mat", [1]),
        ("colours", [1, 3]),
        ("not colours", [0, 2]),
        ('"dog" in words', [0]),
        ("length >  2", [1, 3]),
        ("is True", []),
    ],
)
def test_plain_words_search_and_everything_else_is_an_expression(text: str, rows: list[int]) -> None:
    assert np.flatnonzero(search(text, COLUMNS)).tolist() == rows


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("lenght > 3", "asks for 'lenght'; expected one of"),
        ("length 3", "cannot be read"),
        ("length >", "cannot be read"),
        ("dog in word", 'in quotes, as "dog"'),
        ('"dog" in word', "asks for 'word'"),
        ('"dog', "cannot be read"),
        ("“dog” in words", "invalid character"),
        ("length 3 and colours", "cannot be read"),
        ("not colors", "not a condition"),
        ('length 3 and "dog" in caption', "cannot be read"),
        ("12 in neighbors", "asks for 'neighbors'"),
        ("man in red", 'For captions with these words put them in quotes: "man in red"'),
        ("", "is empty"),
        ("...", "not a condition"),
        ("dog & cat", "not a condition"),
        ("<img src=x onerror=alert(1)>", "cannot be read"),
        ("dog\0", "cannot be read"),
        ("__import__", "not a condition"),
        ("dog " * 200, "at most 500"),
        ("length", None),
        ("a " * 249, None),
        ("'a' in " * 60 + "words", "not a condition"),
        ("not " * 120 + "x", "not a condition"),
        ("caption", "not a condition"),
    ],
)
def test_an_expression_with_a_typing_error_is_no_search(text: str, said: str | None) -> None:
    if said is None:
        assert search(text, COLUMNS).shape == (4,)
    else:
        with pytest.raises(InputError) as raised:
            search(text, COLUMNS)
        assert said in str(raised.value)


@pytest.mark.parametrize("direction", ["t2i", "i2t"])
def test_recall_by_slice_agrees_with_loops(tmp_path: Path, direction: str) -> None:
    words = ["cat", "dog", "man"]
    captions = [
        f"{words[image % 3]} {'red ' * (way % 2)}scene {image}" for image in range(150) for way in range(5)
    ]
    runs = [
        open_run(write_run(tmp_path, name, noise=noise, images=150, captions=captions, pictures=False))
        for name, noise in (("first", 3.0), ("second", 2.0))
    ]
    columns = slice_columns(runs[-1], "dev", tags={0: ["Odd"]})
    asked = [
        Slice("word", '"cat" in words'),
        Slice("kind", "colours"),
        Slice("few", "image == 3"),
        Slice("both", '"dog" in words and colours'),
        Slice("diversity", "tenth <= 3"),
    ]
    table = slice_table(runs, "dev", direction, 5, asked, columns).set_index("expression")
    assert set(table.index) == {one.expression for one in asked} - {"image == 3"}
    owner = runs[0].image_of_text("dev")
    chosen = set(np.random.default_rng(HALVES_SEED).permutation(150)[:75].tolist())
    for expression, row in table.iterrows():
        mask = select(str(expression), columns)
        ranks = [run.ranks("dev")[direction] for run in runs]
        if direction == "t2i":
            queries, images = np.flatnonzero(mask), owner[mask]
        else:
            queries = images = np.array(sorted(set(owner[mask].tolist())))
        assert row["queries"] == len(queries)
        assert row["share"] == pytest.approx(100 * len(queries) / len(ranks[0]))
        reported = [query for query, image in zip(queries, images, strict=True) if image not in chosen]
        for number, answers in enumerate(ranks):
            recall = 100 * np.mean([answers[query] < 5 for query in reported])
            assert row[f"recall_{number}"] == pytest.approx(recall)
            assert row[f"low_{number}"] - 1e-9 <= recall <= row[f"high_{number}"] + 1e-9
        half = [q for q in range(len(ranks[1])) if (owner[q] if direction == "t2i" else q) not in chosen]
        overall = np.mean([ranks[1][query] < 5 for query in half])
        misses = sum(ranks[1][query] >= 5 for query in reported)
        assert row["excess"] == pytest.approx(misses - len(reported) * (1 - overall))
        assert row["gain"] == pytest.approx(row["recall_1"] - row["recall_0"])
        assert row["gain_low"] <= row["gain"] <= row["gain_high"]


def test_a_large_split_is_counted_by_a_sample_of_its_images(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = open_run(write_run(tmp_path, "run", noise=2.0, images=150, pictures=False))
    monkeypatch.setattr(table_module, "MOST_IMAGES", 100)
    shown = images_counted(run, "dev")
    assert len(set(shown.tolist())) == 100
    columns = slice_columns(run, "dev")
    [row] = slice_table([run], "dev", "t2i", 1, [Slice("all", "length > 0")], columns).itertuples()
    right = (run.ranks("dev")["t2i"] < 1).reshape(150, 5)[shown]
    reported = np.setdiff1d(np.arange(100), np.random.default_rng(HALVES_SEED).permutation(100)[:50])
    assert row.queries == 500
    assert row.recall_0 == pytest.approx(100 * right[reported].mean())


def test_the_neighbours_of_a_caption_are_those_nearest_to_it(tmp_path: Path) -> None:
    run = open_run(write_run(tmp_path, "run", noise=2.0, images=30, pictures=False))
    columns = slice_columns(run, "dev")
    texts = run.scoring("dev")[1]
    cosines = texts @ texts[12]
    nearest = sorted(range(len(texts)), key=lambda row: -cosines[row])[:51]
    assert np.flatnonzero(select("12 in neighbours", columns)).tolist() == sorted(nearest)
    assert not select('150 in neighbours or "dog" in neighbours', columns).any()
    images = run.scoring("dev")[0]
    near = np.argsort(-(images @ images[12]))[:11]
    inside = select("12 in image_neighbours", columns)
    assert np.flatnonzero(inside).tolist() == np.flatnonzero(np.isin(run.image_of_text("dev"), near)).tolist()
    assert inside.sum() == 55


def test_a_concept_is_the_one_that_a_caption_reads_most(tmp_path: Path) -> None:
    names = [
        ("dog", "object"),
        ("run", "motion"),
        ("run", "object"),
        ('<b>"', "object"),
        ("x" * 600, "object"),
    ]
    run = open_run(write_concept_run(tmp_path, "run", images=80, concepts=names))
    view, columns = run.concepts("dev"), slice_columns(run, "dev")
    assert view is not None
    most = view.rows("text", slice(None)).argmax(1)
    slices = [one for one in usual_slices(columns) if one.kind == "concept"]
    assert {one.expression for one in slices} == {
        'concept == "dog"',
        'concept == "run (motion)"',
        'concept == "run (object)"',
        'concept == "<b>\\""',
    }
    for number, expression in enumerate(['concept == "dog"', 'concept == "run (motion)"']):
        assert np.flatnonzero(select(expression, columns)).tolist() == np.flatnonzero(most == number).tolist()
    table = slice_table([run], "dev", "t2i", 1, slices, columns)
    assert set(table["kind"]) == {"concept"}
    assert table.set_index("expression")["queries"].to_dict() == {
        one.expression: int(select(one.expression, columns).sum()) for one in slices
    }


def test_the_usual_slices_can_all_be_selected(tmp_path: Path) -> None:
    run = open_run(write_run(tmp_path, "run", noise=2.0, images=30, pictures=False))
    columns = slice_columns(run, "dev", tags={3: ["it's", 'a "quote"'], 4: ["\\"]})
    slices = usual_slices(columns)
    assert {one.kind for one in slices} >= {"length", "kind of word", "diversity", "word", "tag"}
    selected = {one.expression: select(one.expression, columns) for one in slices}
    assert [np.flatnonzero(selected[one.expression]).tolist() for one in slices if one.kind == "tag"] == [
        [4],
        [3],
        [3],
    ]
    assert all(mask.dtype == bool for mask in selected.values())
