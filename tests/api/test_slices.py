"""Slices: expressions, their errors, and recall by slice against loops."""

import numpy as np
import pytest

from coder_core.api import open_run, slices
from coder_core.api.slices import Slice, caption_words, table
from coder_core.data.words import tokenise
from coder_core.evaluation.metrics import label_values
from coder_core.evaluation.sampled import HALVES_SEED
from tests.reference.graded import label_means
from tests.support.precomp_folders import refusal
from tests.support.run_folders import write_run

CAPTIONS = ["A dog.", "two Dogs on a red mat", "no cat, ein Fuß", "a hotdog with 3 red and blue stripes"]
TOKENS = [set(tokenise(caption)) for caption in CAPTIONS]
WORDS = {word: np.flatnonzero([word in tokens for tokens in TOKENS]) for word in set.union(*TOKENS)}
COLUMNS = slices.Columns(
    4,
    {"length": np.array([2, 6, 2, 8]), "colours": np.array([0, 1, 0, 2]), "share": np.full(4, 0.5)},
    {"words": WORDS},
    {"caption": CAPTIONS},
    {"concept": {"dog": np.array([0, 3]), 'a "cat"': np.array([2])}},
)
CONDITION = "not a condition"


def test_expressions_and_words_select_captions_and_a_singular_suggests_its_column():
    nines = "9" + "0" * 400
    expressions = {
        (0,): ['"dog" in words'],
        (1,): ["2 < length <= 6", "length != 2 and colours == 1", 'concept != "dog" and colours'],
        (2,): ['"dog" not in caption', '"Fuß" in words'],
        (3,): ['"wolf" in words or length == 8', "'3' in words"],
        (0, 2): ["not colours"],
        (0, 3): ['concept == "Dog"'],
        (1, 2): ['("cat" in words or colours) and length < 7'],
        (1, 3): ["length > 2", "colours"],
        (0, 1, 3): ['"DOG" in caption'],
        (0, 1, 2, 3): ["length > -1", "length", "not " * 120 + "length"],
        (): ['concept == "wolf"', f"length > {nines}", f"share > {nines}", f"share < -{nines}"],
    }
    words = {
        (0,): ["dog", "DOG, a!"],
        (1,): ["on a red", "“on a red” mat"],
        (3,): ["red blue", '"hotdog"', "3"],
        (1, 3): ['"dog" red'],
        (0, 1, 3): ["a " * 249],
        (): ["wolf", "red Colours", "colors", "is True"],
    }
    for select, cases in ((slices.select, expressions), (slices.search, expressions), (slices.search, words)):
        for rows, texts in cases.items():
            for text in texts:
                assert np.flatnonzero(select(text, COLUMNS)).tolist() == [*rows], text
    # a search for words that match nothing suggests the columns of that name
    assert slices.search("colours", COLUMNS).any()
    assert "colours >= 2" in refusal(slices.search, "colour word", COLUMNS).faults[0].fix


def test_an_expression_may_have_as_many_characters_as_the_field():
    longest = "length > 2".ljust(slices.LONGEST_EXPRESSION)
    assert slices.select(longest, COLUMNS).tolist() == [False, True, False, True]
    assert "at most" in str(refusal(slices.select, f"{longest} ", COLUMNS))


@pytest.mark.parametrize(
    ("fact", "expressions"),
    [
        ("is empty", [""]),
        ("2,000", ["length > 1 " + "or 1" * 500, "dog " * 501]),
        ("cannot be read", ["length >", "(" * 300 + "length" + ")" * 190, "a := 3", "\0"]),
        (CONDITION, ["concept", "caption", "__import__('os').system('true')", "[x for x in words]"]),
        (CONDITION, ["(lambda: 1)()", "{**words}", "length > 3 if length else colours", "dog & cat", "..."]),
        ("one of caption, colours, concept, length, share, words", ["width > 3"]),
        ('concept == "dog"', ["concept > 3", '"dog" in concept', "concept == dog"]),
        ("compares", ['length == "dog"', "length.__class__ > 3"]),
        ("compares 'colours * 1'", ["length > colours * 1 or colours"]),
        ("compares 'True'", ["length > True"]),
        ("compares 5 with 4; expected a column", ["length > 5 > 4", "5 > 4 < length", "5 > 4"]),
        ("nested too deeply", ["-" * 490 + "1 > length", "~" * 490 + "length"]),
        ('"dog"', ["dog in words"]),
        ("'images'", ['"dog" in images']),
        ('"word" in words', ["words > 3"]),
        # a misspelt column is an error and not a search for words
        ("'lenght'", ["lenght > 3"]),
        ("'word'", ['"dog" in word']),
        ("'neighbors'", ["12 in neighbors"]),
        ('"dog"', ["dog in word"]),
        ('"man in red"', ["man in red"]),
        ("invalid character", ["“dog” in words"]),
        ("cannot be read", ["length 3", '"dog', "length 3 and colours", 'length 3 and "dog" in caption']),
        ("cannot be read", ["<img src=x onerror=alert(1)>"]),
        (CONDITION, ["not colors", "__import__", "'a' in " * 60 + "words", "not " * 120 + "x"]),
    ],
)
def test_other_python_and_typing_errors_are_refused(fact, expressions):
    for expression in expressions:
        assert fact in str(refusal(slices.search, expression, COLUMNS)), expression
        refusal(slices.select, expression, COLUMNS)


@pytest.mark.parametrize("direction", ["t2i", "i2t"])
def test_recall_by_slice_matches_reference_loops(tmp_path, direction, monkeypatch):
    words = ["cat", "dog", "man"] * 50
    captions = [f"{words[n // 5]} {'red ' * (n % 5 % 2)}scene {n // 5}" for n in range(750)]
    shared = {"images": 150, "captions": captions, "pictures": False}
    noises = {"first": 3.0, "second": 2.0}
    runs = [open_run(write_run(tmp_path, name, noise=noise, **shared)) for name, noise in noises.items()]
    columns = slices.slice_columns(runs[-1], "dev", tags={0: ["Odd"]})
    expressions = ['"cat" in words', "colours", "image == 3", '"dog" in words and colours', "tenth <= 3"]
    entries = [Slice("kind", expression, expression.upper()) for expression in expressions]
    recalls = slices.slice_table(runs, "dev", slices.Queries(direction, 5), entries, columns).set_index(
        "expression"
    )
    assert set(recalls.index) == {*expressions} - {"image == 3"}  # that one has too few queries
    assert recalls["label"].tolist() == [expression.upper() for expression in recalls.index]
    confirmed = (recalls["excess"] > 0).tolist()
    assert confirmed == sorted(confirmed, reverse=True)
    owner = runs[0].image_of_text("dev")
    ranks = [run.ranks("dev")[direction] for run in runs]
    discovery = set(np.random.default_rng(HALVES_SEED).permutation(150)[:75].tolist())
    image_of = owner if direction == "t2i" else np.arange(150)
    half = [query for query, image in enumerate(image_of) if image not in discovery]
    overall = np.mean([ranks[1][query] < 5 for query in half])
    for expression, row in recalls.iterrows():
        mask = slices.select(str(expression), columns)
        queries = np.flatnonzero(mask) if direction == "t2i" else np.unique(owner[mask])
        reported = [query for query in queries if query in half]
        assert row["queries"] == len(reported)
        misses = sum(ranks[1][query] >= 5 for query in reported)
        expected = {"share": 100 * len(reported) / len(half), "gain": row["recall_1"] - row["recall_0"]}
        expected |= {"excess": misses - len(reported) * (1 - overall)}
        for number, answers in enumerate(ranks):
            recall = expected[f"recall_{number}"] = 100 * np.mean([answers[query] < 5 for query in reported])
            of_query = label_values(runs[number].analysis("dev"), owner)[direction][reported]
            expected |= dict(zip((f"mrr_{number}", f"ndcg10_{number}"), 100 * of_query.mean(0), strict=True))
            assert expected[f"mrr_{number}"] == pytest.approx(100 * np.mean(1 / (answers[reported] + 1)))
            assert row[f"low_{number}"] - 1e-9 <= recall <= row[f"high_{number}"] + 1e-9
        assert {name: row[name] for name in expected} == pytest.approx(expected)
        assert row["gain_low"] <= row["gain"] <= row["gain_high"]
    monkeypatch.setattr(table, "label_values", None)  # gains of R@K do not need MRR and nDCG@10
    gains = table.slice_gains(runs, "dev", slices.Queries(direction, 5), entries, columns)
    asked = [entry.expression for entry in entries if slices.select(entry.expression, columns).any()]
    assert gains["expression"].tolist() == asked
    plain = table.slice_recalls(runs, "dev", slices.Queries(direction, 5), entries, columns)
    assert plain["expression"].tolist() == [name for name in expressions if name != "image == 3"]
    for expression, recall in zip(plain["expression"], plain["recall_1"], strict=True):
        mask = slices.select(expression, columns)
        queries = mask if direction == "t2i" else np.unique(owner[mask])
        assert recall == pytest.approx(100 * np.mean(ranks[1][queries] < 5))
    for expression, gain in zip(gains["expression"], gains["gain"], strict=True):
        mask = slices.select(expression, columns)
        queries = mask if direction == "t2i" else np.unique(owner[mask])
        before, after = (100 * np.mean(answers[queries] < 5) for answers in ranks)
        assert gain == pytest.approx(after - before)


def test_slices_without_excess_misses_come_last_and_tenths_are_tenths(run):
    columns = slices.slice_columns(run, "dev")
    np.testing.assert_array_equal(np.bincount(columns.numbers["tenth"])[1:], np.full(10, 15))
    assert (columns.numbers["numbers"] == 2).all()  # "scene 3, told in way 1"
    assert not columns.numbers["colours"].any()
    entries = [Slice("kind", f"image {sign} {image}", "") for image in range(8, 23) for sign in ("<", ">")]
    excess = slices.slice_table([run], "dev", slices.Queries("t2i"), entries, columns)["excess"].to_numpy()
    assert ((excess > 0) & (excess < 1)).any()
    assert (np.diff((excess > 0).astype(int)) <= 0).all()


def test_mrr_and_ndcg_of_a_slice_match_reference_loops(run):
    owner = run.image_of_text("dev")
    (images, texts) = run.scoring("dev")
    captions = np.arange(3, len(owner), 7)
    asked = {"i2t": np.unique(owner[captions]).tolist(), "t2i": captions.tolist()}
    expected = label_means((images.astype(float) @ texts.T).tolist(), owner.tolist(), asked=asked)
    metrics = slices.slice_metrics(run, "dev", captions)
    assert {key: metrics[key] for key in expected} == pytest.approx(expected)


def test_slices_of_a_large_split_are_counted_on_a_sample(tmp_path, monkeypatch):
    run = open_run(write_run(tmp_path, "run", noise=2.0, images=100, pictures=False))
    monkeypatch.setattr(table, "MOST_IMAGES", 60)
    images = slices.images_counted(run, "dev")
    columns = slices.slice_columns(run, "dev")
    assert len(set(images.tolist())) == 60
    [row] = slices.slice_table(
        [run], "dev", slices.Queries("t2i"), [Slice("all", "length > 0", "")], columns
    ).itertuples()
    counted = slices.counted_columns(run, "dev")
    assert (columns.rows, counted.count) == (None, 300)
    table_of_both = [
        slices.slice_table([run], "dev", slices.Queries("i2t"), [Slice("kind", text, "")], of)
        for text in ("length > 4 and image >= 20", '"dog" in words or tenth < 5')
        for of in (columns, counted)
    ]
    assert table_of_both[0].equals(table_of_both[1])
    assert table_of_both[2].equals(table_of_both[3])
    right = (run.ranks("dev")["t2i"] < 1).reshape(100, 5)[images]
    reported = np.setdiff1d(np.arange(60), np.random.default_rng(HALVES_SEED).permutation(60)[:30])
    assert row.queries == 150
    assert row.recall_0 == pytest.approx(100 * right[reported].mean())


def test_words_of_a_large_split_are_stored_and_computed_again_if_damaged(tmp_path, monkeypatch):
    run = open_run(write_run(tmp_path, "run", images=40, pictures=False))
    captions = run.captions("dev")
    in_memory = slices.select('"dog" in words and length > 3 or numbers', slices.slice_columns(run, "dev"))
    monkeypatch.setattr(caption_words, "STORED_ABOVE", 100)
    for content in (None, None, b"damaged"):
        stored = list((run.path / "derived" / "dev").glob("words-*/ids.npy"))
        if content:
            stored[0].write_bytes(content)
        columns = slices.slice_columns(run, "dev")
        words = columns.sets["words"]
        assert {word: rows.tolist() for word, rows in words.items()} == {
            word: [row for row, caption in enumerate(captions) if word in tokenise(caption)] for word in words
        }
        assert columns.numbers["length"].tolist() == [len(tokenise(caption)) for caption in captions]
        np.testing.assert_array_equal(
            slices.select('"dog" in words and length > 3 or numbers', columns), in_memory
        )
    assert len(stored) == 1


def test_neighbours_are_the_nearest_samples_and_the_usual_slices_can_be_selected(run):
    columns = slices.slice_columns(run, "dev")
    (images, texts) = run.scoring("dev")
    nearest = np.argsort(-(texts @ texts[12]))[:51]
    assert np.flatnonzero(slices.select("12 in neighbours", columns)).tolist() == sorted(nearest)
    assert not slices.select('150 in neighbours or "dog" in neighbours', columns).any()
    near = np.argsort(-(images @ images[12]))[:11]
    inside = slices.select("12 in image_neighbours", columns)
    np.testing.assert_array_equal(inside, np.isin(run.image_of_text("dev"), near))
    assert inside.sum() == 55
    columns = slices.slice_columns(run, "dev", tags={3: ["it's", 'a "quote"'], 4: ["\\"]})
    masks = [(one.kind, slices.select(one.expression, columns)) for one in slices.usual_slices(columns)]
    assert {kind for kind, _ in masks} >= {"length", "kind of word", "diversity", "word", "tag"}
    labels = {one.expression: one.label for one in slices.usual_slices(columns)}
    assert (labels["tenth == 3"], labels["length <= 6"]) == ("3rd tenth of diversity", "at most 6 words")
    assert all(mask.dtype == bool for _, mask in masks)
    assert [np.flatnonzero(mask).tolist() for kind, mask in masks if kind == "tag"] == [[4], [3], [3]]


def test_a_captions_concept_is_the_one_with_most_attention(tmp_path):
    words = [("run", "motion"), *((word, "object") for word in ("dog", "run", '<b>"', "x" * 2100))]
    run = open_run(write_run(tmp_path, "run", images=80, concepts=words))
    columns = slices.slice_columns(run, "dev")
    most = run.concepts("dev").rows("text", slice(None)).argmax(1)
    usual = [one for one in slices.usual_slices(columns) if one.kind == "concept"]
    labels = "run (motion)", "dog", "run (object)", '<b>\\"'  # the long label does not fit into an expression
    rows = {f'concept == "{label}"': most == number for number, label in enumerate(labels)}
    assert {one.expression for one in usual} == set(rows)
    for expression, mask in rows.items():
        np.testing.assert_array_equal(slices.select(expression, columns), mask)
    recalls = slices.slice_table([run], "dev", slices.Queries("t2i"), usual, columns).set_index("expression")
    reported = np.isin(run.image_of_text("dev"), np.random.default_rng(HALVES_SEED).permutation(80)[40:])
    expected = {expression: (mask & reported).sum() for expression, mask in rows.items()}
    assert recalls["queries"].to_dict() == expected
