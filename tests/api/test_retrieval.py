"""Hubs, margins, changes between runs, likely matches by captions, and judgements, against loops and by hand."""

import numpy as np
import pandas as pd
import pytest

from coder_core.api import InputError, open_run, retrieval, sampling
from coder_core.api.reviews import reviews_folder
from tests.support.run_folders import unit, write_embeddings, write_run

both_directions = pytest.mark.parametrize("direction", ["i2t", "t2i"])
LINES = "1.png#0\t0.png\n2.png#0\t0.png\nelsewhere.png#0\t0.png\n"


def scores_of(run, direction):
    """Return (Q, C) scores and the (Q, C) mask of true matches."""
    v, w = run.embeddings("dev")
    match = np.arange(len(v))[:, None] == run.image_of_text("dev")[None, :]
    return (w @ v.T, match.T) if direction == "t2i" else (v @ w.T, match)


@pytest.mark.parametrize("k", [1, 5, 10])
@both_directions
def test_occurrences_and_hubness_match_direct_counts(run, direction, k):
    scores, match = scores_of(run, direction)
    order = np.argsort(-scores, 1)
    count = np.zeros(scores.shape[1], int)
    right = np.zeros(scores.shape[1], int)
    for query in range(len(scores)):
        for candidate in order[query, :k]:
            count[candidate] += 1
            right[candidate] += match[query, candidate]
    table = retrieval.occurrences(run, "dev", direction, k=k)
    for column, expected in (("count", count), ("right", right), ("wrong", count - right)):
        np.testing.assert_array_equal(table[column], expected)
    largest = int(count.argmax())
    queries = retrieval.found_by(run, "dev", direction, largest, k=k)
    rows, columns = np.nonzero(order[:, :k] == largest)
    assert set(zip(queries["query"], queries["place"], strict=True)) == {*zip(rows, columns + 1, strict=True)}
    assert queries["match"].tolist() == match[queries["query"], largest].tolist()
    assert queries["place"].is_monotonic_increasing
    even = retrieval.hubness(count, k)
    assert even.mean == pytest.approx(len(scores) * k / scores.shape[1])
    assert even.never == pytest.approx(100 * (count == 0).mean())
    # Three candidates found 0, 0, 3 times: mean 1, deviations −1, −1, 2, second moment 2, third 2, 2 / 2^1.5
    uneven = retrieval.hubness(np.array([0, 0, 3]), 1)
    assert (uneven.skewness, uneven.never) == pytest.approx((2 / 2**1.5, 200 / 3))
    assert retrieval.hubness(np.array([2, 2]), 1).skewness == 0.0
    assert retrieval.hubness(np.zeros(0), 1).mean == 0.0


@both_directions
def test_margins_match_the_full_score_matrix(run, direction):
    scores, match = scores_of(run, direction)
    table = retrieval.margins(run, "dev", direction)
    assert table["query"].tolist() == list(range(len(scores)))
    own = np.where(match, scores, -9)
    wrong = np.where(match, -9, scores)
    np.testing.assert_array_equal(table["match"], own.argmax(1))
    np.testing.assert_array_equal(table["wrong"], wrong.argmax(1))
    np.testing.assert_allclose(table["margin"], own.max(1) - wrong.max(1), atol=1e-6)
    assert ((table["margin"] < 0) == (table["rank"] > 1)).all()
    sample = run.sample("dev", scores=600)
    rows = sample.texts if direction == "t2i" else sample.images
    part = retrieval.margins(run, "dev", direction, sample=sample)
    pd.testing.assert_frame_equal(part, table.iloc[rows].reset_index(drop=True))


def test_margins_if_the_ten_best_results_are_all_matches(tmp_path):
    """Twelve captions of one image, and one of another: the ten best of the first image are all its own."""
    folder = write_run(tmp_path, "many", images=1, pictures=False)
    v = np.eye(3, dtype=np.float32)[:2]
    w = unit(np.array([[1.0, 0.001 * i, 0.0] for i in range(12)] + [[0.3, 1.0, 0.0]]))
    write_embeddings(folder, v, w, np.array([0] * 12 + [1]))
    table = retrieval.margins(open_run(folder), "dev", "i2t")
    assert table["wrong"].tolist() == [12, 11]
    np.testing.assert_allclose(table["margin"][0], 1.0 - w[12, 0], atol=1e-6)


def test_diversity_changes_rank_correlation_and_likely_matches_by_hand():
    """Anchor 0 goes from the most to the least diverse of three. ρ is 1 − 6·Σd²/(n(n² − 1)) without ties; pairs with
    a missing value are left out."""
    anchors = pd.DataFrame({"anchor": [0, 1, 2], "image": [0, 0, 1]})
    values = [1.0, 0.8, 0.9], [0.6, 0.8, 1.0]
    tables = [anchors.assign(diversity=column, spread=column) for column in values]
    changes = retrieval.diversity_changes(*tables)
    places = {"place_a": [100, 0, 50], "place_b": [0, 50, 100], "change": [-100, 50, 50]}
    assert changes[list(places)].to_dict("list") == places
    with pytest.raises(InputError, match="3 anchors and 2 others"):
        retrieval.diversity_changes(tables[0], tables[1].iloc[:2])
    cases = [([1.0, 2, 3, 4], [10.0, 30, 20, 40], 1 - 6 * 2 / 60), ([1.0, 2, np.nan], [5.0, 1, 9], -1)]
    for first, second, rho in [*cases, ([1.0, 1, 1], [0.0, 1, 2], np.nan)]:
        value = retrieval.rank_correlation(np.array(first), np.array(second))
        assert value == pytest.approx(rho, nan_ok=True)
    guesses = retrieval.LikelyMatches(
        likeness=np.array([[1.0, 0.2], [0.6, 0.9], [0.4, 0.7], [0.1, 0.1], [0.9, 0.9]]),
        match=np.array([[1, 0], [0, 1], [0, 0], [0, 0], [0, 0]], bool),
        ranks=np.array([0, 1, 5, 7, -1]),  # the last is an image without captions
    )
    assert guesses.likely(0.5).astype(int).tolist() == [[0, 0], [1, 0], [0, 1], [0, 0], [1, 1]]
    for k, right, recall in ((1, 1, (25.0, 50.0)), (2, 2, (50.0, 75.0))):
        assert np.flatnonzero(guesses.probably_right(k, 0.5)).tolist() == [right]
        assert guesses.recall(k, 0.5) == recall


@both_directions
def test_likeness_is_the_largest_cosine_between_captions_of_query_and_result(run, direction):
    vectors = retrieval.text_vectors(run, "dev")
    owner = run.image_of_text("dev")
    guesses = retrieval.likely_matches(run, "dev", direction, vectors)
    for query, results in enumerate(run.best("dev", direction)):
        own = [query] if direction == "t2i" else np.flatnonzero(owner == query)
        for column, result in enumerate(results):
            others = np.flatnonzero(owner == result) if direction == "t2i" else [result]
            likeness = (vectors[own] @ vectors[others].T).max()
            assert guesses.likeness[query, column] == pytest.approx(likeness, abs=1e-6)
            same = owner[query] == result if direction == "t2i" else owner[result] == query
            assert guesses.match[query, column] == same
    # nothing describes image 2
    gaps = open_run(run.path)
    owner = np.where(owner == 2, 3, owner)
    gaps.image_of_text = lambda split: owner
    if direction == "t2i":
        of_gaps = retrieval.likely_matches(gaps, "dev", direction, vectors).likeness
        assert (of_gaps[run.best("dev", direction) == 2] == -1).all()
    labelled, with_likely = guesses.recall(1)
    assert labelled == pytest.approx(run.metrics["dev"][f"{direction}_r1"])
    assert with_likely >= labelled


@both_directions
def test_likely_matches_of_sampled_queries_equal_those_of_the_whole(run, direction, monkeypatch):
    """The text space is fitted to a sample of the captions; only captions that are compared are encoded."""
    run = open_run(run.path)  # samples are drawn once for an opened run
    assert run.query_sample("dev") is None
    monkeypatch.setattr(sampling, "SCORES_AT_MOST", 30 * 150 - 1)
    monkeypatch.setattr(sampling, "QUERIES_AT_MOST", 40)
    sample = run.query_sample("dev")
    assert (len(sample.images), len(sample.texts)) == (8, 40)
    queries = sample.texts if direction == "t2i" else sample.images
    space = retrieval.text_vectors(run, "dev")
    whole = retrieval.likely_matches(run, "dev", direction, space.encode(run.captions("dev")))
    guesses = retrieval.likely_matches(run, "dev", direction, space, queries)
    np.testing.assert_allclose(guesses.likeness[queries], whole.likeness[queries], atol=1e-6)
    np.testing.assert_array_equal(guesses.match[queries], whole.match[queries])
    rest = np.setdiff1d(np.arange(len(whole.ranks)), queries)
    assert (guesses.likeness[rest] == -1).all()
    assert not guesses.match[rest].any()
    assert guesses.recall(1, 0.5) == pytest.approx(whole.recall(1, 0.5, queries))
    assert guesses.recall(1, 0.5, rest) == (pytest.approx(np.nan, nan_ok=True),) * 2
    assert guesses.recall(1, 0.5, queries[:3]) == pytest.approx(whole.recall(1, 0.5, queries[:3]))


@pytest.fixture
def three(tmp_path):
    """Run of three images with one caption each. The captions rank the images 0 1 2, 0 1 2 and 1 0 2; the images rank
    the captions 1 0 2, 2 0 1 and 2 1 0."""
    folder = write_run(tmp_path / "runs", "three", images=3, pictures=False, per_image=1)
    w = unit(np.array([[0.8, 0.6, 0.0], [0.94, 0.33, 0.1], [0.65, 0.7, 0.29]]))
    write_embeddings(folder, np.eye(3, dtype=np.float32), w, np.arange(3))
    (tmp_path / "positives.tsv").write_text(LINES)
    return open_run(folder)


def test_recall_by_labels_and_by_judgements_by_hand(three, tmp_path):
    (tmp_path / "CrowdFlowerAnnotations.txt").write_text("2.png\t0.png#0\t0\t0\t3\n")
    file = tmp_path / "positives.tsv"
    files = [path.name for path in retrieval.judgement_files(tmp_path)]
    assert files == [file.name, "CrowdFlowerAnnotations.txt"]
    judgements = retrieval.run_judgements(three, "dev", file)
    assert judgements.fact.startswith("2 positives")
    values = retrieval.judged_values(three, "dev", judgements)
    table = retrieval.judged_recall(["three"], [values]).set_index("direction")
    columns = [f"{by}_{k}" for by in ("labels", "judged") for k in (1, 5, 10)]
    columns += ["labels_mrr", "labels_ndcg10", "map_at_r", "r_precision", "judged_mrr", "judged_ndcg10"]
    # discounted gains at ranks 2 and 3
    second = 1 / np.log2(3)
    third = 1 / 2
    by_labels = [1 / 3, 1, 1, 2 / 3, 1, 1, (1 + 1 / 2 + 1 / 3) / 3, (1 + second + third) / 3]
    queries = {"i2t": np.array([0]), "t2i": np.array([2])}
    part = retrieval.judged_recall(["three"], [values], queries).set_index("direction")
    of_texts = [3 / 4, 5 / 6, 5 / 6, (2 + (second + third) / (1 + second)) / 3]
    for direction, more, of_part, no_label in (
        ("i2t", [2 / 3, 2 / 3, 7 / 9, (2 + third) / 3], [1, 0, 100, 100], {(0, 1), (0, 2)}),
        ("t2i", of_texts, [1, 0, 0, 25], {(1, 0), (2, 0)}),
    ):
        expected = 100 * np.array(by_labels + more)
        np.testing.assert_allclose(table.loc[direction, columns].astype(float), expected)
        assert table.loc[direction, "queries"] == 3
        assert part.loc[direction, ["queries", "labels_1", "judged_1", "map_at_r"]].tolist() == of_part
        best = three.best("dev", direction)
        judged = np.argwhere(retrieval.judged_results(three, "dev", direction, judgements))
        assert {(query, best[query, column]) for query, column in judged} == no_label


def test_unfitting_judgements_are_refused_and_their_data_folder_is_found(three, tmp_path):
    file = tmp_path / "positives.tsv"
    file.write_text("elsewhere.png#0\t0.png\n")  # judgements of other splits only
    with pytest.raises(retrieval.OtherSplitError):
        retrieval.run_judgements(three, "dev", file)
    file.write_text(LINES + "1.png 0.png\n")
    with pytest.raises(InputError, match=r"positives.tsv line 4: .*1.png 0.png") as raised:
        retrieval.run_judgements(three, "dev", file)
    assert not isinstance(raised.value, retrieval.OtherSplitError)
    root = tmp_path / "runs"
    data = tmp_path / "data" / "flickr8k"
    (data / "precomp").mkdir(parents=True)
    for named, folder in ((data / "precomp", data), (data, data), ("demo", root), (tmp_path, root)):
        assert reviews_folder(str(named), [data], root) == folder
