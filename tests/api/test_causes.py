"""Causes of misses: each cause is found where it was put, and a slow reference of the corrected ranks."""

import os
from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse

from coder_core.api import causes, open_run
from coder_core.api.causes import budget
from coder_core.api.causes.evidence import (
    PICTURE,
    TEXT,
    PairEvidence,
    compute_evidence,
    other_images_with_words,
)
from coder_core.api.causes.fixes import AVERAGED, COMPLETE, HUBS, LEFT_OUT
from coder_core.api.causes.hubs import NEIGHBOURS, STRENGTHS, corrected_ranks
from coder_core.api.data_quality import mismatches
from coder_core.api.reviews import ReviewedSplit
from coder_core.api.sides import Sides
from coder_core.config.schema import Config
from coder_core.data.reviews import Review, Reviews
from coder_core.embedding.log import log_split
from coder_core.evaluation import hub_correction
from coder_core.evaluation.recall import ensemble_metrics
from coder_core.geometry.captions import caption_space
from coder_core.runs.analysis.import_lists import import_lists
from tests.support.precomp_folders import assert_refused
from tests.support.run_folders import unit, write_configured, write_embeddings, write_run
from tests.support.tiny_runs import changed

IMAGES = 120
PER_IMAGE = 3
SIZE = 64


def review(image, caption, verdict):
    return Review(
        id=f"{abs(hash((image, caption))):x}"[:16],
        time="2026-11-28T00:00:00Z",
        reviewer="me",
        image=image,
        caption=caption,
        verdict=verdict,
        tags=(),
        note="",
    )


def test_words_of_a_caption_are_counted_in_other_images():
    captions = ["a black dog", "a dog", "it barks", "the black cat", "a dog and a black hat"]
    right = sparse.csr_array((np.ones(5, bool), (np.arange(5), [0, 0, 1, 2, 3])))
    np.testing.assert_array_equal(other_images_with_words(captions, right), [1, 1, 0, 0, 0])
    np.testing.assert_array_equal(other_images_with_words(captions, right, np.array([1, 4])), [1, 0])


def slow_corrected_ranks(scores, anchor_images, candidate_images):
    """Return the corrected ranks of every anchor by loops over one anchor and one candidate."""
    images = max(anchor_images.max(), candidate_images.max()) + 1
    first = set(np.random.default_rng(5).permutation(images)[: images // 2].tolist())
    in_first = np.array([image in first for image in anchor_images])

    def bias(candidate, half, k):
        foreign = [
            scores[q, candidate]
            for q in range(len(scores))
            if in_first[q] == half and anchor_images[q] != candidate_images[candidate]
        ]
        return np.mean(sorted(foreign)[-k:])

    def rank(query, k, alpha):
        half = not in_first[query]
        shifted = [
            scores[query, c] - alpha * bias(c, half, k) if alpha else scores[query, c]
            for c in range(scores.shape[1])
        ]
        own = max(
            s for s, image in zip(shifted, candidate_images, strict=True) if image == anchor_images[query]
        )
        return sum(
            s >= own
            for s, image in zip(shifted, candidate_images, strict=True)
            if image != anchor_images[query]
        )

    strengths = [(k, alpha) for alpha in (0.25, 0.5, 0.75, 1.0) for k in (1, 4, 16, 64, 128)]
    settings = [(1, 0.0), *strengths]
    ranks = np.array([[rank(q, *setting) for q in range(len(scores))] for setting in settings])
    result = np.empty(len(scores), int)
    for half in (False, True):
        recalls = [sum((of[in_first == half] < k).mean() for k in (1, 5, 10)) for of in ranks]
        result[in_first != half] = ranks[int(np.argmax(recalls)), in_first != half]
    return result


def test_strengths_are_chosen_among_those_of_the_correction_by_train_queries():
    assert NEIGHBOURS == hub_correction.NEIGHBOURS
    assert STRENGTHS == hub_correction.STRENGTHS


@pytest.mark.parametrize("pair_scores", [False, True])
def test_corrected_ranks_match_a_slow_reference(pair_scores):
    random = np.random.default_rng(3)
    images = random.normal(size=(14, 6))
    owner = np.repeat(np.arange(14), 2)
    texts = images[owner] + 1.5 * random.normal(size=(28, 6))
    images[:3] += 1.5  # hubs
    v, w = unit(images), unit(texts)
    scores = (w.astype(float) @ v.astype(float).T).astype(np.float32)
    sides = Sides(w, v, owner, np.arange(14))
    if pair_scores:
        sides = Sides(w[:, :0], v[:, :0], owner, np.arange(14), scores)
    expected = slow_corrected_ranks(scores.astype(float), owner, np.arange(14))
    right = sparse.csr_array((np.ones(28, bool), (np.arange(28), owner)))
    np.testing.assert_array_equal(corrected_ranks(sides, np.arange(28), right), expected)


def some_way(queries, **values):
    """Return evidence on queries that miss at 1 and have no cause but a model error; `values` replace fields."""
    nothing = {
        "queries": np.arange(queries),
        "images": np.arange(queries),
        "ranks": np.full(queries, 4),
        "corrected": np.full(queries, 4),
        "results": (np.arange(queries)[:, None] + np.arange(1, 4)) % queries,
        "match": np.zeros((queries, 3), bool),
        "refused": np.zeros((queries, 3), bool),
        "features": np.zeros((queries, 3, 4), np.float32),
        "copies": np.zeros((queries, 3), np.int8),
        "scores": np.full((queries, 3), 0.9, np.float32),
        "match_scores": np.linspace(0.1, 0.5, queries).astype(np.float32),
    }
    return causes.WayEvidence(**(nothing | values))


@pytest.fixture
def several():
    """Eight captions, one per image; the first seven each have the evidence of one cause and of later ones."""
    way = some_way(8)
    way.features[:2, 0, 1] = 9
    way.copies[:3, 0] = PICTURE
    way.corrected[:4] = 0
    way.match_scores[:6] = 0.899
    way.ranks[7] = 0
    wrong = np.where(np.arange(8) < 1, 0.9, 0.1)
    fits = np.where((np.arange(8) > 0) & (np.arange(8) < 5), 5, 4)
    return causes.Evidence(wrong, fits, some_way(8), way)


def test_every_miss_has_the_first_cause_that_applies(several):
    question = causes.Question("t2i")
    # 1 and 0 have no probable match unless the copy is ignored
    several.t2i.copies[:2, 0] = 0
    misses = causes.find_causes(several, np.arange(8), replace(question, noise=0.01))
    assert [int(cause) for cause in misses.cause] == [*range(7), causes.HIT]
    table = causes.error_budget(misses)
    np.testing.assert_array_equal(table["count"], np.ones(7))
    assert table["share"].sum() == pytest.approx(100)
    assert (table["low"] <= table["share"]).all()
    assert (table["share"] <= table["high"]).all()
    assert table["low"].min() == 0
    assert 14.3 < table["high"].max() < 60


def test_a_result_counts_only_within_the_first_k(several):
    several.t2i.features[:2, 0, 1] = 0
    several.t2i.features[1, 2, 1] = 9
    at = {
        k: causes.find_causes(several, np.arange(8), causes.Question("t2i", k, noise=0.01)).cause[1]
        for k in (1, 3)
    }
    assert at == {1: budget.COPY, 3: budget.UNLABELLED}


def test_verdicts_come_before_guesses(several):
    several.t2i.copies[:2, 0] = 0
    known = causes.Known.nothing(8)
    known.verdicts[[0, 5, 6]] = "label-right", "wrong-caption", "too-vague"
    refused = np.array([[1, int(several.t2i.results[1, 0])]])
    people = np.array([[3, int(several.t2i.results[3, 0])]])
    known = replace(known, people=people, refused=refused)
    cause = causes.find_causes(several, np.arange(8), causes.Question("t2i", noise=0.01), known).cause
    expected = {0: budget.UNLABELLED, 1: budget.HUB, 3: budget.UNLABELLED, 5: budget.WRONG, 6: budget.VAGUE}
    assert {row: int(cause[row]) for row in expected} == expected


def test_an_image_has_a_wrong_label_only_if_all_its_labels_are_wrong():
    owner = np.array([0, 0, 1, 1, 2, 2])
    wrong = np.array([0.9, 0.9, 0.9, 0.1, 0.1, 0.9])
    fits = np.array([0, 0, 0, 9, 0, 0])
    evidence = causes.Evidence(wrong, fits, some_way(3), some_way(6))
    cause = causes.find_causes(evidence, owner, causes.Question("i2t", noise=0.0)).cause
    assert cause.tolist() == [budget.WRONG, budget.VAGUE, budget.MODEL]


def test_a_caption_with_a_wrong_label_matches_the_image_that_it_fits_best():
    """Caption 5 has the label of image 5, describes image 3, and is the first result of image 3."""
    of_images, of_texts = some_way(8), some_way(8)
    of_images.results[3] = 5, 4, 6
    of_texts.results[5] = 1, 3, 2
    of_texts.features[5, :, :2] = [(2, 1), (6, 3), (1, 2)]
    evidence = causes.Evidence(np.where(np.arange(8) == 5, 0.9, 0.1), np.zeros(8, int), of_images, of_texts)
    question = causes.Question("i2t", noise=0.0)
    misses = causes.find_causes(evidence, np.arange(8), question)
    utility = [0.53 * words + 1.35 * captions for words, captions in [(2, 1), (6, 3), (1, 2)]]
    utility[1] += 1.52
    utility[2] += 1.52 / 3  # the third result of image 2
    chance = np.exp(utility[1]) / (np.exp(utility).sum() + np.exp(6.63))
    assert misses.unlabelled[3, 0] == pytest.approx(0.9 * chance, abs=1e-4)
    assert misses.cause[3] == budget.UNLABELLED
    assert (np.delete(misses.cause, [3, 5]) == budget.MODEL).all()
    known = causes.Known.nothing(8)
    known.verdicts[5] = "label-right"
    assert causes.find_causes(evidence, np.arange(8), question, known).cause[3] == budget.MODEL
    vague = replace(evidence, fits=np.full(8, 5), wrong=np.full(8, np.nan))
    assert causes.find_causes(vague, np.arange(8), question).unlabelled[3, 0] == pytest.approx(0, abs=1e-3)
    nobody = replace(question, within=np.zeros(0, int))
    assert len(causes.find_causes(evidence, np.arange(8), nobody).cause) == 0


def test_equal_texts_are_copies_unless_they_say_little():
    way = some_way(3)
    way.copies[:2, 0] = TEXT
    evidence = causes.Evidence(np.zeros(3), np.array([0, 7, 0]), some_way(3), way)
    cause = causes.find_causes(evidence, np.arange(3), causes.Question("t2i", noise=0.0)).cause
    assert cause.tolist() == [budget.COPY, budget.VAGUE, budget.MODEL]


def test_probabilities_are_calibrated_on_verdicts():
    """Where people refuse nine of ten probable matches, the rest of them is improbable too."""
    way = some_way(60)
    way.features[:, 0, 0] = 7.2
    way.features[:, 0, 1] = 4.5
    evidence = causes.Evidence(np.zeros(60), np.zeros(60, int), some_way(60), way)
    pairs = np.stack([np.arange(30), way.results[:30, 0]], 1)
    known = replace(causes.Known.nothing(60), people=pairs[:3], refused=pairs[3:])
    question = causes.Question("t2i")
    before = causes.find_causes(evidence, np.arange(60), replace(question, noise=0.0))
    after = causes.find_causes(evidence, np.arange(60), replace(question, noise=0.0), known)
    assert before.unlabelled[50, 0] > 0.5
    assert after.unlabelled[50, 0] == pytest.approx(0.1, abs=0.03)
    few = replace(known, refused=pairs[3:10])
    again = causes.find_causes(evidence, np.arange(60), replace(question, noise=0.0), few)
    assert again.unlabelled[50, 0] == before.unlabelled[50, 0]


def test_fixes_count_what_they_would_change(several):
    several.t2i.copies[:2, 0] = 0
    misses = causes.find_causes(several, np.arange(8), causes.Question("t2i", noise=0.01))
    table = causes.what_would_fix(misses, averaged=np.array([0, 0, 0, 0, 0, 0, 9, 9])).set_index("fix")
    hits = {"as it is": 1, COMPLETE: 4, HUBS: 4, AVERAGED: 6}  # of eight
    for fix, number in hits.items():
        assert table.loc[fix, "recall"] == pytest.approx(100 * number / 8)
        assert table.loc[fix, "low"] <= table.loc[fix, "recall"] <= table.loc[fix, "high"]
    assert table.loc[LEFT_OUT, "recall"] == pytest.approx(100 / 7)
    assert table["fixed"].tolist() == pytest.approx([0, *(100 * k / 7 for k in (3, 1, 4, 6))])
    sentence = causes.gain_sentence(table.reset_index(), 1)
    assert sentence == "Averaging both runs would raise R@1 by 62.5 points, complete labels by 37.5."
    for fix, number in hits.items():
        low, high = table.loc[fix, ["change_low", "change_high"]]
        assert low <= table.loc[fix, "change"] <= high
        assert table.loc[fix, "change"] == pytest.approx(100 * (number - 1) / 8)
    assert (
        table.loc["as it is", ["change_low", "change_high"]] == 0
    ).all()  # the same queries: nothing changes
    assert table.loc[AVERAGED, "change_low"] > 0
    alone = np.where(np.arange(8) == 0, 0, np.where(several.t2i.ranks == 0, 0, 9))
    noisy = causes.gain_sentence(
        causes.what_would_fix(misses, averaged=alone)[lambda t: t["fix"] == AVERAGED], 1
    )
    assert noisy == "Averaging both runs would raise R@1 by 12.5 points (may be noise)."


def test_a_fix_that_breaks_as_much_as_it_fixes_is_no_gain(several):
    swapped = replace(several.t2i, corrected=np.where(several.t2i.ranks == 0, 9, several.t2i.corrected))
    swapped.corrected[several.t2i.corrected == 0] = 9
    swapped.corrected[several.t2i.ranks.argmax()] = 0  # one hit is lost, one miss becomes a hit
    table = causes.what_would_fix(
        causes.find_causes(replace(several, t2i=swapped), np.arange(8), causes.Question("t2i", noise=0.01))
    ).set_index("fix")
    assert table.loc[HUBS, "fixed"] > 0
    assert table.loc[HUBS, "change"] == 0
    assert "hub correction" not in causes.gain_sentence(table.reset_index(), 1).lower()


def test_without_a_miss_there_is_no_share(several):
    evidence = replace(several, t2i=replace(several.t2i, ranks=np.zeros(8, int)))
    misses = causes.find_causes(evidence, np.arange(8), causes.Question("t2i"))
    assert np.isnan(causes.error_budget(misses)["share"]).all()
    assert causes.gain_sentence(causes.what_would_fix(misses), 1).startswith("None of the fixes")


def test_pixels_tell_copies_and_embeddings_do_where_a_picture_cannot_be_read(tmp_path):
    """Images 0 and 1, 2 and 3, 4 and 5 have equal embeddings. The first two show something else, the next two are one
    picture twice, and the picture of image 5 is gone."""
    folder = write_run(tmp_path / "runs", "pictures", images=12)
    pictures = tmp_path / "runs-pictures"
    (pictures / "3.png").write_bytes((pictures / "2.png").read_bytes())
    (pictures / "5.png").unlink()
    run = open_run(folder)
    v, w = (rows.copy() for rows in run.embeddings("dev"))
    v[1:6:2] = v[0:6:2]
    facts = {"picture_folder": pictures, "captions": run.captions("dev")}
    write_embeddings(folder, v, w, run.image_of_text("dev"), **facts)
    of_images = causes.split_evidence(open_run(folder), "dev").t2i
    found = {}
    for image in (0, 2, 4):
        rows = of_images.images == image
        found[image] = of_images.copies[rows][of_images.results[rows] == image + 1]
    assert [set(copies.tolist()) for copies in found.values()] == [{0}, {PICTURE}, {PICTURE}]


def test_queries_of_a_slice_alone_are_counted(several):
    question = causes.Question("t2i", within=np.array([2, 6, 7]))
    misses = causes.find_causes(several, np.arange(8), replace(question, noise=0.01))
    assert misses.way.queries.tolist() == [2, 6, 7]
    assert misses.missed.sum() == 2
    assert causes.error_budget(misses)["share"].max() == 50


def test_one_sentence_says_why(several):
    several.t2i.copies[:2, 0] = 0
    known = causes.Known.nothing(8)
    misses = causes.find_causes(several, np.arange(8), causes.Question("t2i", noise=0.01), known)
    hub = np.array([int(several.t2i.results[3, 0])])
    sentences = [causes.why(misses, query, several, known, hub) for query in range(8)]
    assert sentences[0].endswith("the caption probably belongs to another image (probability 0.90).")
    assert "result 1 probably matches, but has no label (probability" in sentences[1]
    assert sentences[2] == "Missed by 0.001: result 1 is a near-duplicate of the matching picture."
    assert sentences[3] == "Missed by 0.001: result 1 is a hub; with hub correction its match has rank 1."
    assert sentences[4] == "Missed by 0.001: all its words also fit 5 other images."
    assert (
        sentences[5] == "Missed by 0.001: training with another seed typically shifts such a margin by 0.010."
    )
    assert "this is a model error" in sentences[6]
    assert sentences[7] == "Hit: its match has rank 1."
    judged = replace(known, people=np.array([[6, int(several.t2i.results[6, 0])]]))
    by_people = causes.find_causes(several, np.arange(8), causes.Question("t2i", noise=0.01), judged)
    sentence = causes.why(by_people, 6, several, judged, hub)
    assert sentence.endswith("result 1 matches by a verdict, a judgment or its group, but has no label.")
    several.t2i.copies[2] = 0, TEXT, PICTURE
    later = causes.find_causes(several, np.arange(8), causes.Question("t2i", 3, noise=0.01), known)
    assert causes.why(later, 2, several, known, hub).endswith("result 2 has a caption with the same text.")
    assert causes.why(misses, 99, several, known, hub) == ""


@pytest.fixture(scope="module")
def injected(tmp_path_factory):
    """Run with pairs of every cause, and caption → its cause."""
    random = np.random.default_rng(0)
    v = random.normal(size=(IMAGES, SIZE))
    owner = np.repeat(np.arange(IMAGES), PER_IMAGE)
    captions = [
        f"thing{i} beside place{i} in colour{i} shade{k}" for i in range(IMAGES) for k in range(PER_IMAGE)
    ]
    v[3] = v[2]  # a copy, and another view
    v[5] = v[4] + 0.3 * random.normal(size=SIZE)
    for image, shown in ((3, 2), (5, 4)):
        for k in range(PER_IMAGE):
            captions[PER_IMAGE * image + k] = f"thing{shown} beside place{shown} in colour{shown} tone{k}"
    w = v[owner] + 0.5 * random.normal(size=(len(owner), SIZE))
    w[12:15] = v[5] + 0.2 * random.normal(size=(3, SIZE))  # captions of image 4, nearer to its other view
    cause = {6: budget.COPY, 7: budget.COPY, 8: budget.COPY}
    cause |= dict.fromkeys((12, 13, 14), budget.UNLABELLED)
    exchanged = np.arange(60, 360, 12)
    w[exchanged] = np.roll(w[exchanged], 1, 0)
    texts = [captions[row] for row in exchanged]
    for row, text in zip(exchanged.tolist(), np.roll(texts, 1).tolist(), strict=True):
        captions[row] = text
        cause[row] = budget.WRONG
    for row in range(61, 360, 24):
        captions[row] = "a thing"
        w[row] = v.mean(0) + 0.02 * random.normal(size=SIZE)
        cause[row] = budget.VAGUE
    for row in range(25, 55, 9):  # nearer to another image than to its own, with the words of its own
        w[row] = v[(owner[row] + 40) % IMAGES] + 0.3 * random.normal(size=SIZE)
        cause[row] = budget.MODEL
    for row in range(26, 58, 6):  # nearly as near to its own image as to another
        nearest = [v[image] / np.linalg.norm(v[image]) for image in (owner[row], owner[row] + 53)]
        w[row] = nearest[0] + 1.06 * nearest[1]
        cause[row] = budget.CLOSE
    v[1] = random.normal(size=SIZE)  # a hub: nearer to these captions than their own images
    w[3:6] = v[1] + 0.3 * random.normal(size=(3, SIZE))
    for row in range(65, 360, 12):
        w[row] = v[owner[row]] + 1.05 * v[1] + 0.2 * random.normal(size=SIZE)
        cause[row] = budget.HUB
    folder = write_configured(
        tmp_path_factory.mktemp("causes"), changed(Config(name="injected"), data="demo")
    )
    write_embeddings(folder, unit(v), unit(w), owner, captions=captions)
    return open_run(folder), cause


def test_each_cause_is_found_where_it_was_put(injected):
    run, truth = injected
    misses = causes.causes_of_run(run, "dev", causes.Question("t2i"))
    found = {row: int(misses.cause[row]) for row in truth if misses.missed[row]}
    assert set(found) >= set(range(6, 9))
    for cause in set(truth.values()):
        rows = [row for row in found if truth[row] == cause]
        assert len(rows) >= 3
        assert np.mean([found[row] == cause for row in rows]) >= 0.8, causes.CAUSES[cause]


def test_the_evidence_is_stored_and_read_again(injected, tmp_path):
    run, _ = injected
    computed = compute_evidence(run, "dev")
    for read in (causes.split_evidence(run, "dev"), causes.split_evidence(run, "dev")):
        np.testing.assert_array_equal(read.wrong, computed.wrong)
        for direction in ("i2t", "t2i"):
            for name in ("queries", "ranks", "corrected", "copies", "features", "match_scores"):
                np.testing.assert_array_equal(
                    getattr(read.way(direction), name), getattr(computed.way(direction), name)
                )
    folders = list((run.path / "derived" / "dev").glob("causes-*"))
    assert len(folders) == 1
    part = folders[0] / "t2i_ranks.npy"
    part.write_bytes(part.read_bytes()[:-1])
    np.testing.assert_array_equal(causes.split_evidence(run, "dev").t2i.ranks, computed.t2i.ranks)
    assert part.stat().st_size == (folders[0] / "t2i_corrected.npy").stat().st_size


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_run_that_cannot_be_written_has_causes_too(tmp_path):
    folder = write_run(tmp_path / "runs", "sealed", images=12, pictures=False)
    folder.chmod(0o555)
    misses = causes.causes_of_run(open_run(folder), "dev", causes.Question("t2i"))
    assert len(misses.cause) == 60


def test_averaged_ranks_are_those_of_the_ensemble(run, tmp_path):
    other = open_run(write_run(tmp_path / "runs", "other", noise=2.5, images=30, pictures=False))
    for direction in ("i2t", "t2i"):
        misses = causes.causes_of_run(run, "dev", causes.Question(direction))
        ranks = causes.averaged_with(run, other, "dev", misses, direction)
        sources = [*run.analysis("dev").sources, *other.analysis("dev").sources]
        metrics = ensemble_metrics(sources, run.image_of_text("dev"))
        for k in (1, 5, 10):
            assert 100 * (ranks < k).mean() == pytest.approx(metrics[f"{direction}_r{k}"])


def test_reviews_become_what_people_know(injected):
    run, _ = injected
    reviewed = ReviewedSplit.of(run, "dev")
    captions = run.captions("dev")
    reviews = Reviews(
        (
            review("7.png", captions[0], "also-matches"),
            review("8.png", captions[0], "label-right"),
            review("0.png", captions[1], "wrong-caption"),
        )
    )
    known = causes.Known.of(run, "dev", reviewed, reviews, [np.array([[3, 9]])])
    assert known.people.tolist() == [[0, 7]]
    assert known.refused.tolist() == [[0, 8]]
    assert known.others.tolist() == [[3, 9]]
    assert known.verdicts[1] == "wrong-caption"


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


def test_lists_of_another_system_say_why_they_have_no_causes(run, tmp_path):
    ours = write_run(tmp_path / "runs", "ours", images=12, pictures=False)
    names = open_run(ours).image_names("dev")
    lines = [f"{names[image]}#0 Q0 {names[image]} 1 0.5 x\n" for image in range(12)]
    (tmp_path / "run.txt").write_text("".join(lines))
    import_lists(tmp_path / "run.txt", ours, tmp_path / "runs", "theirs", "dev")
    theirs = open_run(tmp_path / "runs" / "theirs")
    assert causes.why_no_causes(theirs, "dev").startswith(
        "Why theirs misses cannot be told: it has only the lists"
    )
    assert not causes.has_causes(theirs, "dev")
    assert_refused("only the lists of another system", causes.split_evidence, theirs, "dev")
    assert causes.why_no_causes(run, "dev") == ""


@pytest.fixture(scope="module")
def guessed():
    """Misses of 2,000 captions at R@1 with guesses, and (2000,) bool: which first results match, far more than guessed."""
    random = np.random.default_rng(4)
    count = 2000
    way = some_way(count)
    way.ranks[: count // 4] = 0
    way.features[:, 0, 1] = random.normal(4.5, 1.2, count)
    evidence = causes.Evidence(np.zeros(count), np.zeros(count, int), some_way(count), way)
    misses = causes.find_causes(evidence, np.arange(count), causes.Question("t2i", noise=0.0))
    is_match = random.random(count) < misses.unlabelled[:, 0] ** 0.3
    return misses, is_match


def test_verdicts_correct_guesses_and_the_interval_has_the_truth(guessed):
    misses, is_match = guessed
    truth = 100 * (~misses.missed | is_match).mean()
    found = []
    for reviewer in range(100):
        drawn = causes.draw_for_verdicts(misses, seed=reviewer)
        found.append(causes.recall_with_verdicts(drawn, is_match[drawn.queries].astype(float)))
    assert found[0].labels == 25
    assert abs(found[0].guess - truth) > 5
    recalls = np.array([one.recall for one in found])
    assert abs(recalls.mean() - truth) < 4 * recalls.std() / np.sqrt(len(recalls))
    assert np.mean([one.low <= truth <= one.high for one in found]) >= 0.93
    half = np.mean([one.high - one.low for one in found]) / 2
    needed = np.median([one.needed for one in found])
    assert needed == pytest.approx(100 * (half / 4) ** 2, rel=0.1)


def test_the_interval_of_few_verdicts_follows_from_its_formula():
    """25 draws of 40 misses among 50 queries, all with the same chance and a guess of 0.2; seven results match."""
    drawn = causes.Drawn(np.arange(25), np.arange(25), np.full(25, 0.2), np.full(25, 1 / 40), 10, 8.0, 50)
    found = causes.recall_with_verdicts(drawn, (np.arange(25) < 7).astype(float))
    assert (found.labels, found.guess) == (20, 36)
    corrections = np.where(np.arange(25) < 7, 64.0, -16.0)  # 2 points a query, times 40, times 0.8 or −0.2
    assert found.recall == pytest.approx(36 + 6.4)
    squares = ((corrections - 6.4) ** 2).sum() + 2 * 80**2  # and two pseudo-draws
    half = 2.0639 * np.sqrt(squares / 26) / 5  # Student's t for 24 degrees of freedom
    assert (found.low, found.high) == pytest.approx((42.4 - half, 42.4 + half), abs=1e-3)
    assert found.needed == np.ceil(1.959964**2 * squares / 26 / 4**2)


def test_uncertain_guesses_are_drawn_most_and_unjudged_draws_are_left_out(guessed):
    misses, is_match = guessed
    drawn = causes.draw_for_verdicts(misses, draws=4000, seed=1)
    assert set(drawn.queries.tolist()) <= set(np.flatnonzero(misses.missed).tolist())
    guesses = misses.unlabelled[misses.missed, 0]
    uncertain = (drawn.guesses > 0.2) & (drawn.guesses < 0.8)
    assert uncertain.mean() > 1.2 * ((guesses > 0.2) & (guesses < 0.8)).mean()
    verdicts = is_match[drawn.queries].astype(float)
    verdicts[60:] = np.nan
    some = causes.recall_with_verdicts(drawn, verdicts)
    first = causes.draw_for_verdicts(misses, draws=4000, seed=1)
    kept = replace(
        first, **{name: getattr(first, name)[:60] for name in ("queries", "results", "guesses", "chances")}
    )
    assert some == causes.recall_with_verdicts(kept, verdicts[:60])
    verdicts[19:] = np.nan
    few = causes.recall_with_verdicts(drawn, verdicts)
    assert (few.verdicts, few.needed) == (19, 0)
    assert np.isnan(few.recall)


def test_verdicts_on_the_drawn_results_are_found(injected):
    run, _ = injected
    misses = causes.causes_of_run(run, "dev", causes.Question("t2i"))
    drawn = causes.draw_for_verdicts(misses, draws=30)
    reviewed = ReviewedSplit.of(run, "dev")
    pairs = [reviewed.pair(image, text) for image, text in zip(drawn.results, drawn.queries, strict=True)]
    verdicts = {pairs[0]: "also-matches", pairs[1]: "label-right", pairs[2]: "too-vague"}
    reviews = Reviews(tuple(review(*pair, verdict) for pair, verdict in verdicts.items()))
    values = causes.values_of_verdicts(drawn, reviewed, reviews)
    known = {"also-matches": 1.0, "label-right": 0.0}
    np.testing.assert_array_equal(values, [known.get(verdicts.get(pair), np.nan) for pair in pairs])


def test_a_close_call_is_what_two_seeds_differ_by_if_both_were_trained(tmp_path):
    names = {"one": 0, "two": 1, "other": 2}
    for name, seed in names.items():
        more = {"settings": {"margin": 0.4}} if name == "other" else {}
        write_run(tmp_path, name, seed=seed, noise=2.5, images=30, pictures=False, **more)
    one, two, other = (open_run(tmp_path / name) for name in names)
    summaries = [run.summary for run in (one, two, other)]
    assert causes.run_of_another_seed(one.summary, "dev", summaries) == two.summary
    assert causes.run_of_another_seed(one.summary, "test", summaries) is None
    assert causes.run_of_another_seed(other.summary, "dev", summaries) is None
    for summary in (replace(two.summary, state="imported"), replace(two.summary, config={})):
        assert not causes.differ_in_seed(one.summary, summary)
        assert not causes.differ_in_seed(summary, one.summary)
    noise = causes.noise_of_seeds(one, two, "dev", "t2i", 1)
    margins = [run.similarity(range(30), range(150), split="dev") for run in (one, two)]
    owner = one.image_of_text("dev")
    texts = np.arange(150)
    of_runs = [scores[owner, texts] - scores.max(0) for scores in margins]
    assert noise == pytest.approx(np.median(np.abs(of_runs[0] - of_runs[1])), abs=1e-5)
    usual = causes.causes_of_run(one, "dev", causes.Question("t2i"))
    measured = causes.causes_of_run(one, "dev", causes.Question("t2i", noise=noise))
    assert (usual.noise, measured.noise) == (pytest.approx(0.3 * np.std(of_runs[0]), rel=1e-4), noise)
    write_run(tmp_path, "few", seed=3, images=20, pictures=False)
    assert causes.noise_of_seeds(one, open_run(tmp_path / "few"), "dev", "t2i", 1) is None
