"""Which images of a large split are drawn (`coder_core.api.sampling`), by hand: the same ones in every version."""

import numpy as np

from coder_core.api.sampling import QUERIES_AT_MOST, draw_sample, sample_of, whole_split
from tests.support.run_folders import unit


def owner(images, captions):
    return np.arange(captions) % images


def test_a_split_of_125_million_scores_is_computed_whole_and_a_larger_one_in_part():
    assert draw_sample(5_000, owner(5_000, 25_000)) is None
    drawn = draw_sample(5_000, owner(5_000, 25_001))
    assert (len(drawn.images), drawn.of_images, drawn.of_texts) == (4_999, 5_000, 25_001)
    assert QUERIES_AT_MOST == 5_000


def test_the_number_of_images_follows_from_what_is_asked_for():
    """100 images with 500 captions; k images have 5 k of them."""
    owners = owner(100, 500)
    assert draw_sample(100, owners, scores=50_000) is None
    assert len(draw_sample(100, owners, scores=5 * 30**2).images) == 30
    assert len(draw_sample(100, owners, scores=1, points=66).images) == 11
    assert len(draw_sample(100, owners, scores=1, texts=66).images) == 13
    assert len(draw_sample(100, owners, scores=1).images) == 2
    assert len(draw_sample(100, owners, scores=49_999, points=10_000).images) == 100


def test_the_drawn_images_have_all_their_captions_and_never_change():
    drawn = draw_sample(10, owner(10, 20), scores=50)
    assert drawn.images.tolist() == [2, 3, 4, 5, 7]
    assert drawn.texts.tolist() == [2, 3, 4, 5, 7, 12, 13, 14, 15, 17]
    assert drawn.queries("i2t") is drawn.images
    assert drawn.queries("t2i") is drawn.texts
    other = sample_of(np.array([3, 1]), 10, owner(10, 20))
    assert (other.images.tolist(), other.texts.tolist()) == ([1, 3], [1, 3, 11, 13])
    assert other.key != drawn.key


def test_images_with_ranks_are_drawn_before_others():
    first = np.array([2, 4, 7])
    assert set(draw_sample(10, owner(10, 20), scores=8, first=first).images) < {2, 4, 7}
    assert draw_sample(10, owner(10, 20), scores=18, first=first).images.tolist() == [2, 4, 7]
    more = draw_sample(10, owner(10, 20), scores=50, first=first).images
    assert len(more) == 5
    assert {2, 4, 7} < set(more.tolist())


def test_a_part_of_a_split_has_the_scores_of_its_rows():
    random = np.random.default_rng(0)
    images = unit(random.normal(size=(6, 4)))
    texts = unit(random.normal(size=(12, 4)))
    scores = random.normal(size=(6, 12))
    sample = sample_of(np.array([1, 4]), 6, owner(6, 12))
    rows = np.array([1, 0])
    columns = np.array([3, 0, 2])
    for part, expected in (
        (whole_split(images, texts, owner(6, 12)), images @ texts.T),
        (whole_split(images, texts, owner(6, 12), scores), scores),
    ):
        some = part.of_sample(sample)
        assert part.of_sample(None) is part
        assert (some.image_rows.tolist(), some.text_rows.tolist()) == ([1, 4], [1, 4, 7, 10])
        assert some.owner.tolist() == [0, 1, 0, 1]
        assert some.rows("image").tolist() == [1, 4]
        assert some.rows("text").tolist() == [1, 4, 7, 10]
        wanted = expected[np.ix_([4, 1], [10, 1, 7])]
        np.testing.assert_allclose(some.similarities(rows, columns), wanted)
        assert some.sides("image").candidate_images.tolist() == [0, 1, 0, 1]
        assert some.sides("text").anchor_images.tolist() == [0, 1, 0, 1]
