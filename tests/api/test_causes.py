"""The cause of a miss by its evidence, what would fix it, and the sentence that says why."""

from dataclasses import replace

import numpy as np
import pytest

from coder_core.api import causes
from coder_core.api.causes import budget
from coder_core.api.causes.evidence import PICTURE, TEXT
from coder_core.api.causes.fixes import AVERAGED, COMPLETE, HUBS, LEFT_OUT
from tests.support.evidence import some_way


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
    unchanged = table.loc["as it is", ["change_low", "change_high"]]
    assert (unchanged == 0).all()
    assert table.loc[AVERAGED, "change_low"] > 0
    alone = np.where(np.arange(8) == 0, 0, np.where(several.t2i.ranks == 0, 0, 9))
    table = causes.what_would_fix(misses, averaged=alone)
    noisy = causes.gain_sentence(table[table["fix"] == AVERAGED], 1)
    assert noisy == "Averaging both runs would raise R@1 by 12.5 points (may be noise)."


def test_a_fix_that_breaks_as_much_as_it_fixes_is_no_gain(several):
    swapped = replace(several.t2i, corrected=np.where(several.t2i.ranks == 0, 9, several.t2i.corrected))
    swapped.corrected[several.t2i.corrected == 0] = 9
    swapped.corrected[several.t2i.ranks.argmax()] = 0  # one hit is lost, one miss becomes a hit
    question = causes.Question("t2i", noise=0.01)
    misses = causes.find_causes(replace(several, t2i=swapped), np.arange(8), question)
    table = causes.what_would_fix(misses).set_index("fix")
    assert table.loc[HUBS, "fixed"] > 0
    assert table.loc[HUBS, "change"] == 0
    assert "hub correction" not in causes.gain_sentence(table.reset_index(), 1).lower()


def test_without_a_miss_there_is_no_share(several):
    evidence = replace(several, t2i=replace(several.t2i, ranks=np.zeros(8, int)))
    misses = causes.find_causes(evidence, np.arange(8), causes.Question("t2i"))
    assert np.isnan(causes.error_budget(misses)["share"]).all()
    assert causes.gain_sentence(causes.what_would_fix(misses), 1).startswith("None of the fixes")


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
