"""Causes of misses in a search log, by its judgments."""

import numpy as np
import pytest

from coder_core.api import causes, open_run
from coder_core.api.causes import budget
from coder_core.api.causes.evidence import PairEvidence
from coder_core.api.data_quality import mismatches
from coder_core.embedding.log import log_split
from coder_core.geometry.captions import caption_space
from tests.support.run_folders import unit

IMAGES = 120
PER_IMAGE = 3
SIZE = 64


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    """Run of a search log whose query k has the right pictures 2k and 2k + 1, most like the latter; query → its cause."""
    random = np.random.default_rng(0)
    queries = 60
    v = random.normal(size=(2 * queries + 3, SIZE))
    w = v[1 : 2 * queries : 2] + 0.4 * random.normal(size=(queries, SIZE))
    captions = [f"thing{k} beside place{k} in colour{k}" for k in range(queries)]
    judged = [(k, 2 * k + step, 1) for k in range(queries) for step in (0, 1)]
    cause = {0: budget.COPY, 1: budget.UNLABELLED, 2: budget.MODEL, 4: budget.VAGUE, 6: budget.MODEL}
    v[-3] = v[1]  # another file of a right picture, nearer by a hair than both
    w[0] = v[1]
    captions[3] = captions[1].replace(
        "place1", "town"
    )  # says the same, and nobody judged query 1 with its picture
    w[1] = v[7] + 0.05 * random.normal(size=SIZE)
    captions[5] = captions[2].replace("place2", "town")  # says the same, but the judges refused that picture
    w[2] = v[11] + 0.05 * random.normal(size=SIZE)
    judged.append((2, 11, 0))
    judged.append((8, 7, 1))  # a picture that two queries match
    w[4] = v[20] + 0.05 * random.normal(size=SIZE)
    for k in (4, *range(10, 17)):
        captions[k] = f"thing beside place{k}"
    captions[4] = "thing"
    w[6] = v[30] + 0.05 * random.normal(size=SIZE)
    root = tmp_path_factory.mktemp("log") / "shop"
    log_split(root, "log", unit(v), unit(w), captions=captions, judgements=np.array(judged))
    return open_run(root), cause


def test_a_search_log_has_causes_by_its_judgements(log):
    run, truth = log
    misses = causes.causes_of_run(run, "log", causes.Question("t2i"))
    assert {query: int(misses.cause[query]) for query in truth} == truth
    assert (misses.cause[7:10] == causes.HIT).all()
    way = misses.way
    scores = run.similarity(range(123), range(60), split="log")
    own = np.stack([scores[2 * np.arange(60), np.arange(60)], scores[2 * np.arange(60) + 1, np.arange(60)]])
    np.testing.assert_allclose(way.match_scores, own.max(0), atol=1e-6)
    assert way.refused.sum() == 1
    of_images = causes.causes_of_run(run, "log", causes.Question("i2t"))
    np.testing.assert_array_equal(of_images.way.queries, np.arange(120))


def test_a_verdict_on_one_of_several_right_pictures_leaves_the_query_a_label(log):
    run, _ = log
    known = causes.Known.nothing(60)
    known.verdicts[[2, 6]] = "wrong-caption"
    wrong = causes.causes_of_run(run, "log", causes.Question("t2i"), known)
    assert not wrong.wrong.any()
    of_images = causes.causes_of_run(run, "log", causes.Question("i2t"), known)
    judged_best = run.image_of_text("log")[[2, 6]]
    np.testing.assert_array_equal(np.flatnonzero(of_images.wrong), judged_best)


TELLING = "thing{image} beside place{image} in colour{row}"


def exchanged_log(root, name, noise=0.4, text=TELLING):
    """Write a run of a search log of 360 queries and 121 pictures. Queries 12, 24 … 108 are judged right for the picture of
    the one before them in this list; of every tenth query, two pictures are judged right; queries 1, 61 … say little."""
    random = np.random.default_rng(0)
    v = random.normal(size=(IMAGES + 1, SIZE))
    owner = np.repeat(np.arange(IMAGES), PER_IMAGE)
    w = v[owner] + noise * random.normal(size=(len(owner), SIZE))
    captions = [text.format(image=image, row=row) for row, image in enumerate(owner)]
    exchanged = np.arange(12, 120, 12)
    label = owner.copy()
    label[exchanged] = np.roll(owner[exchanged], 1)
    for row in range(1, 360, 60):
        captions[row] = "a thing"
    judged = [(row, image, 2) for row, image in enumerate(label.tolist())]
    judged += [(row, IMAGES, 1) for row in range(0, 360, 10)]
    log_split(root / name, "log", unit(v), unit(w), captions=captions, judgements=np.array(judged))
    return open_run(root / name), exchanged


def slow_error_probability(random):
    """Return `data_quality.error_probability` by loops: counts in 50 steps, pooled until none is above the one before."""
    steps = [min(int(value / 2), 49) for value in random]
    counts = [float(sum(step == number for step in steps)) for number in range(50)]
    wrong = max(sum(value >= 50 for value in random) - 2e-4 * len(random), 0) / 25
    blocks = []
    for count in counts:
        blocks.append([count, 1])
        while len(blocks) > 1 and blocks[-1][0] / blocks[-1][1] >= blocks[-2][0] / blocks[-2][1]:
            total, width = blocks.pop()
            blocks[-1][0] += total
            blocks[-1][1] += width
    density = [total / width for total, width in blocks for _ in range(width)]
    return [min(wrong / max(density[step], 1e-9), 1) for step in steps]


def test_an_exchanged_query_of_a_search_log_has_a_wrong_label(tmp_path):
    run, exchanged = exchanged_log(tmp_path, "shop")
    evidence = causes.split_evidence(run, "log")
    misses = causes.causes_of_run(run, "log", causes.Question("t2i"))
    one_picture = exchanged[exchanged % 10 > 0]
    np.testing.assert_array_equal(np.flatnonzero(misses.cause == budget.WRONG), one_picture)
    assert misses.wrong.sum() == len(one_picture)
    table = mismatches(run, "log").set_index("caption").sort_index()
    rows = np.arange(360)
    can_tell = (rows % 10 > 0) & (rows % 60 != 1)
    expected = np.full(360, np.nan)
    expected[can_tell] = slow_error_probability(table["random"].to_numpy()[can_tell].tolist())
    np.testing.assert_allclose(evidence.wrong, expected)
    nothing = causes.Known.nothing(360)
    sentence = causes.why(misses, 12, evidence, nothing, np.zeros(0, int))
    chance = f"(probability {evidence.wrong[12]:.2f})"
    assert sentence.endswith(f"the query probably means another picture than the one judged right {chance}.")


def test_a_run_that_doubts_most_judgments_makes_none_of_them_wrong(tmp_path):
    """Neither its similarities nor the words of other queries tell which judgments are right."""
    run, _ = exchanged_log(tmp_path, "lost", noise=8, text="colour{row}")
    assert np.isnan(causes.split_evidence(run, "log").wrong).all()
    misses = causes.causes_of_run(run, "log", causes.Question("t2i"))
    assert not (misses.cause == budget.WRONG).any()


def test_likeness_by_words_is_the_same_if_only_the_compared_captions_are_encoded(log):
    run, _ = log
    captions = np.repeat(np.arange(60), 3)
    images = np.random.default_rng(1).integers(0, 123, 180)
    pairs = PairEvidence(run, "log")
    whole = pairs.features(captions, images)
    assert np.isnan(whole[images >= 120, :2]).all()  # no query is about these pictures
    pairs.vectors = caption_space(run.captions("log"))
    np.testing.assert_allclose(pairs.features(captions, images), whole, atol=1e-4)
