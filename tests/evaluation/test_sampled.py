"""Which queries of a large split are ranked (`coder_core.evaluation.sampled`): the same ones in every version."""

import numpy as np

from coder_core.evaluation.relevance import Queries, Relevance
from coder_core.evaluation.sampled import (
    choose_queries,
    describe,
    describe_counts,
    parse_rank,
    queries_differ,
)
from tests.support.precomp_folders import assert_refused


def one_caption_each(count):
    return Relevance.of_labels(np.arange(count), count), np.arange(count)


def test_a_split_of_ten_billion_pairs_is_ranked_whole_and_a_larger_one_by_ten_thousand_queries():
    assert choose_queries(*one_caption_each(100_000)) is None
    drawn = choose_queries(*one_caption_each(100_001))
    assert [len(drawn.images), len(drawn.texts)] == [10_000, 10_000]
    assert choose_queries(*one_caption_each(100_001), "all") is None


def test_as_many_queries_as_there_are_is_all_and_one_fewer_leaves_one_out():
    labels, owner = one_caption_each(12)
    assert choose_queries(labels, owner, 12) is None
    assert len(choose_queries(labels, owner, 11).images) == 11
    owner = np.array([0, 0, 1])  # image 2 has no caption, so it is no query
    labels = Relevance.of_labels(owner, 3)
    assert choose_queries(labels, owner, 3) is None
    drawn = choose_queries(labels, owner, 2)
    assert drawn.images.tolist() == [0, 1]
    assert len(drawn.texts) == 2


def test_the_drawn_queries_never_change_so_that_runs_stay_comparable():
    owner = np.repeat(np.arange(12), [1, 2, 4] * 4)
    drawn = choose_queries(Relevance.of_labels(owner, 12), owner, 6)
    assert drawn.images.tolist() == [4, 5, 6, 7, 8, 10]
    assert drawn.texts.tolist() == [4, 8, 12, 13, 20, 26]


def test_queries_are_compared_in_both_directions():
    some = Queries(np.arange(3), np.arange(2))
    assert not queries_differ(None, None)
    assert queries_differ(None, some)
    assert queries_differ(some, None)
    assert queries_differ(some, Queries(np.arange(3), np.arange(1)))
    assert queries_differ(some, Queries(np.arange(1), np.arange(2)))
    assert not queries_differ(some, Queries(np.arange(3), np.arange(2)))


def test_words_on_a_sample_name_both_directions_where_they_differ():
    assert describe(None, 5, 6) == ""
    assert describe_counts(0, 0, 5, 5) == "not ranked"
    assert describe_counts(2, 2, 5, 5) == "sampled 2 of 5"
    assert describe_counts(2, 2, 5, 6) == "sampled 2 of 5 images and 2 of 6 captions"
    assert describe_counts(2, 0, 5, 5) == "sampled 2 of 5 images and 0 of 5 captions"
    assert describe_counts(0, 3, 5, 5) == "sampled 0 of 5 images and 3 of 5 captions"


def test_numbers_of_queries_are_plain_and_have_at_most_twelve_digits():
    assert parse_rank("auto") == "auto"
    assert parse_rank("999999999999") == 999_999_999_999
    for text in ("1000000000000", "-5", "1.5", "", "٣", "some"):
        assert_refused("--rank: is ", parse_rank, text)


def test_a_share_of_the_captions_of_an_image_is_that_of_all_captions():
    """Of a half of the captions, every image with four has two, every one with two has one."""
    owner = np.repeat(np.arange(300), [2, 4, 4] * 100)
    drawn = choose_queries(Relevance.of_labels(owner, 300), owner, 500)
    counts = np.bincount(owner[drawn.texts], minlength=300)
    assert np.abs(counts[::3] - 1).max() <= 1
    assert (counts[::3] == 1).mean() > 0.9
    assert (counts[1::3] == 2).mean() > 0.9
