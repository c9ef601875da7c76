"""Slices: expressions, what they refuse, and recall by slice against loops."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from coder_core.api import InputError, Run, open_run
from coder_core.api.slices import (
    Columns,
    Slice,
    images_counted,
    search,
    select,
    slice_columns,
    slice_table,
    table,
    usual_slices,
)
from coder_core.data.words import tokenise
from coder_core.evaluation.recall import HALVES_SEED
from tests.support.concept_runs import write_concept_run
from tests.support.run_folders import write_run

CAPTIONS = ["A dog.", "two Dogs on a red mat", "no cat", "a hotdog with 3 red and blue stripes"]
TOKENS = [tokenise(caption) for caption in CAPTIONS]
WORDS = {
    word: np.array([row for row in range(4) if word in TOKENS[row]]) for words in TOKENS for word in words
}
COLUMNS = Columns(
    4,
    {"length": np.array([2, 6, 2, 8]), "colours": np.array([0, 1, 0, 2])},
    {"words": WORDS},
    {"caption": CAPTIONS},
    {"concept": {"dog": np.array([0, 3]), 'a "cat"': np.array([2])}},
)
CONDITION = "not a condition"


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
        ("length", [0, 1, 2, 3]),
        ("'3' in words", [3]),
        ("not " * 120 + "length", [0, 1, 2, 3]),
        ("length > 9" + "0" * 400, []),
    ],
)
def test_an_expression_selects_captions(expression: str, rows: list[int]) -> None:
    for question in (select, search):
        assert np.flatnonzero(question(expression, COLUMNS)).tolist() == rows


@pytest.mark.parametrize(
    ("expression", "fact"),
    [
        ("", "is empty"),
        ("length >", "cannot be read"),
        ("width > 3", "one of caption, colours, concept, length, words"),
        ("concept > 3", 'concept == "dog"'),
        ('"dog" in concept', 'concept == "dog"'),
        ("concept", CONDITION),
        ("concept == dog", 'concept == "dog"'),
        ('length == "dog"', "compares"),
        ("length > colours * 1 or colours", "compares 'colours * 1'"),
        ("dog in words", '"dog"'),
        ('"dog" in images', "'images'"),
        ("words > 3", '"word" in words'),
        ("caption", CONDITION),
        ("__import__('os').system('true')", CONDITION),
        ("length.__class__ > 3", "compares"),
        ("[x for x in words]", CONDITION),
        ("(lambda: 1)()", CONDITION),
        ("length > True", "compares 'True'"),
        ("length > 3 if length else colours", "not a c"),
        ("(" * 300 + "length" + ")" * 190, "cannot be read"),
        ("length > 1 " + "or 1" * 200, "500"),
        ("a := 3", "cannot be read"),
        ("\0", "cannot be read"),
        ("{**words}", CONDITION),
        # a typing error is an error and not a search for words
        ("lenght > 3", "'lenght'"),
        ("length 3", "cannot be read"),
        ("dog in word", '"dog"'),
        ('"dog" in word', "'word'"),
        ('"dog', "cannot be read"),
        ("“dog” in words", "invalid character"),
        ("length 3 and colours", "cannot be read"),
        ("not colors", CONDITION),
        ('length 3 and "dog" in caption', "cannot be read"),
        ("12 in neighbors", "'neighbors'"),
        ("man in red", '"man in red"'),
        ("...", CONDITION),
        ("dog & cat", CONDITION),
        ("<img src=x onerror=alert(1)>", "cannot be read"),
        ("__import__", CONDITION),
        ("dog " * 200, "at most 500"),
        ("'a' in " * 60 + "words", CONDITION),
        ("not " * 120 + "x", CONDITION),
    ],
)
def test_everything_else_of_python_and_typing_errors_are_refused(expression: str, fact: str) -> None:
    with pytest.raises(InputError) as raised:
        search(expression, COLUMNS)
    assert fact in str(raised.value)
    with pytest.raises(InputError):
        select(expression, COLUMNS)


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
        ("is True", []),
        ("a " * 249, [0, 1, 3]),
    ],
)
def test_plain_words_search(text: str, rows: list[int]) -> None:
    assert np.flatnonzero(search(text, COLUMNS)).tolist() == rows


@pytest.mark.parametrize("direction", ["t2i", "i2t"])
def test_recall_by_slice_agrees_with_loops(tmp_path: Path, direction: str) -> None:
    pairs = [(image, way) for image in range(150) for way in range(5)]
    words = ("cat", "dog", "man")
    captions = [f"{words[image % 3]} {'red ' * (way % 2)}scene {image}" for image, way in pairs]
    runs = [
        open_run(write_run(tmp_path, name, noise=noise, images=150, captions=captions, pictures=False))
        for name, noise in (("first", 3.0), ("second", 2.0))
    ]
    columns = slice_columns(runs[-1], "dev", tags={0: ["Odd"]})
    both = '"dog" in words and colours'
    expressions = ['"cat" in words', "colours", "image == 3", both, "tenth <= 3"]
    slices = [Slice("kind", expression) for expression in expressions]
    recalls = slice_table(runs, "dev", direction, 5, slices, columns).set_index("expression")
    assert set(recalls.index) == {*expressions} - {"image == 3"}  # that one has too few queries
    owner, ranks = runs[0].image_of_text("dev"), [run.ranks("dev")[direction] for run in runs]
    discovery = set(np.random.default_rng(HALVES_SEED).permutation(150)[:75].tolist())
    image_of = owner if direction == "t2i" else np.arange(150)
    half = [query for query, image in enumerate(image_of) if image not in discovery]
    overall = np.mean([ranks[1][query] < 5 for query in half])
    for expression, row in recalls.iterrows():
        mask = select(str(expression), columns)
        queries = np.flatnonzero(mask) if direction == "t2i" else np.unique(owner[mask])
        assert row["queries"] == len(queries)
        assert row["share"] == pytest.approx(100 * len(queries) / len(ranks[0]))
        reported = [query for query in queries if query in half]
        for number, answers in enumerate(ranks):
            recall = 100 * np.mean([answers[query] < 5 for query in reported])
            assert row[f"recall_{number}"] == pytest.approx(recall)
            assert row[f"low_{number}"] - 1e-9 <= recall <= row[f"high_{number}"] + 1e-9
        misses = sum(ranks[1][query] >= 5 for query in reported)
        assert row["excess"] == pytest.approx(misses - len(reported) * (1 - overall))
        assert row["gain"] == pytest.approx(row["recall_1"] - row["recall_0"])
        assert row["gain_low"] <= row["gain"] <= row["gain_high"]


def test_a_large_split_is_counted_by_a_sample_of_its_images(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = open_run(write_run(tmp_path, "run", noise=2.0, images=150, pictures=False))
    monkeypatch.setattr(table, "MOST_IMAGES", 100)
    images, columns = images_counted(run, "dev"), slice_columns(run, "dev")
    assert len(set(images.tolist())) == 100
    [row] = slice_table([run], "dev", "t2i", 1, [Slice("all", "length > 0")], columns).itertuples()
    right = (run.ranks("dev")["t2i"] < 1).reshape(150, 5)[images]
    reported = np.setdiff1d(np.arange(100), np.random.default_rng(HALVES_SEED).permutation(100)[:50])
    assert row.queries == 500
    assert row.recall_0 == pytest.approx(100 * right[reported].mean())


def test_the_neighbours_of_a_caption_are_those_nearest_to_it(run: Run) -> None:
    columns, (images, texts) = slice_columns(run, "dev"), run.scoring("dev")
    nearest = np.argsort(-(texts @ texts[12]))[:51]
    assert np.flatnonzero(select("12 in neighbours", columns)).tolist() == sorted(nearest)
    assert not select('150 in neighbours or "dog" in neighbours', columns).any()
    near = np.argsort(-(images @ images[12]))[:11]
    inside = select("12 in image_neighbours", columns)
    np.testing.assert_array_equal(inside, np.isin(run.image_of_text("dev"), near))
    assert inside.sum() == 55


def test_a_concept_is_the_one_that_a_caption_reads_most(tmp_path: Path) -> None:
    words = [
        ("dog", "object"),
        ("run", "motion"),
        ("run", "object"),
        ('<b>"', "object"),
        ("x" * 600, "object"),
    ]
    run = open_run(write_concept_run(tmp_path, "run", images=80, concepts=words))
    columns, most = slice_columns(run, "dev"), run.concepts("dev").rows("text", slice(None)).argmax(1)
    slices = [one for one in usual_slices(columns) if one.kind == "concept"]
    labels = ["dog", "run (motion)", "run (object)", '<b>\\"']  # the long one has no room in an expression
    assert {one.expression for one in slices} == {f'concept == "{label}"' for label in labels}
    counts = {}
    for number, label in enumerate(labels):
        mask = select(f'concept == "{label}"', columns)
        np.testing.assert_array_equal(mask, most == number)
        counts[f'concept == "{label}"'] = int(mask.sum())
    recalls = slice_table([run], "dev", "t2i", 1, slices, columns)
    assert recalls.set_index("expression")["queries"].to_dict() == counts


def test_the_usual_slices_can_all_be_selected(run: Run) -> None:
    columns = slice_columns(run, "dev", tags={3: ["it's", 'a "quote"'], 4: ["\\"]})
    slices = usual_slices(columns)
    assert {one.kind for one in slices} >= {"length", "kind of word", "diversity", "word", "tag"}
    masks = [(one.kind, select(one.expression, columns)) for one in slices]
    assert [np.flatnonzero(mask).tolist() for kind, mask in masks if kind == "tag"] == [[4], [3], [3]]
    assert all(mask.dtype == bool for _, mask in masks)
