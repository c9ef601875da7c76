"""Masks, directions and hardest negatives."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from coder_core.objectives import pairs
from tests.reference import pairs as reference

IDS = st.lists(st.integers(-2, 4), min_size=1, max_size=6)
SLOTS = st.lists(st.integers(-2, 4), min_size=1, max_size=9)
LITERAL = {"keep_same_image": True}


@pytest.mark.parametrize(
    ("queries", "candidates", "switches", "expected"),
    [
        # pairs 0 and 1 show image 7, pair 2 shows image 8: the only negative of 0 is 2
        ([7, 7, 8], [7, 7, 8], {}, [[0, 0, 1], [0, 0, 1], [1, 1, 0]]),
        # the literal switch keeps other captions but never the positive
        ([7, 7, 8], [7, 7, 8], LITERAL, [[0, 1, 1], [1, 0, 1], [1, 1, 0]]),
        # the second of two processes: its pairs 0 and 1 are candidates 2 and 3 of four
        ([5, 6], [5, 9, 5, 6], LITERAL | {"positive_offset": 2}, [[1, 1, 0, 1], [1, 1, 1, 0]]),
        # a bank of images 5, −1 and 6 seen by an anchor of image 5: its diagonal means nothing
        ([5], [5, -1, 6], {"positive_offset": None}, [[0, 1, 1]]),
        ([5], [5, -1, 6], LITERAL | {"positive_offset": None}, [[1, 1, 1]]),
    ],
)
def test_same_image_negatives_by_hand(queries, candidates, switches, expected):
    ids = torch.tensor(queries), torch.tensor(candidates)
    assert pairs.same_image_negatives(*ids, **switches).int().tolist() == expected


@given(query_ids=IDS, slots=SLOTS)
def test_masks_match_reference_loops(query_ids, slots):
    queries = torch.tensor(query_ids)
    candidates = torch.tensor(slots)
    for keep_same_image, offset in ((False, 0), (True, None), (True, 0), (True, 1)):
        switches = {"keep_same_image": keep_same_image, "positive_offset": offset}
        expected = reference.negatives(query_ids, slots)
        if keep_same_image:
            expected = reference.literal_negatives(query_ids, slots, offset)
        assert pairs.same_image_negatives(queries, candidates, **switches).tolist() == expected


def test_directions_and_hardest_negatives_by_hand():
    """Rows are images in one direction, columns are texts in the other; the diagonal is the positive in both."""
    scores = torch.tensor([[0.9, 0.1], [0.2, 0.8]])
    ways = pairs.both_directions(scores, torch.tensor([0, 1]))
    for direction, expected in zip(ways, (scores, scores.T), strict=True):
        assert torch.equal(direction.scores, expected)
        assert torch.equal(direction.positive_scores, scores.diagonal())
        assert direction.negatives.tolist() == [[False, True], [True, False]]
    scores = torch.arange(8.0).reshape(2, 4)
    ids = torch.tensor([5, 6])
    direction = pairs.in_batch_direction(scores, ids, torch.tensor([1, 2, 5, 6]), positive_offset=2)
    assert direction.positive_scores.tolist() == [2.0, 7.0]
    assert direction.negatives.tolist() == [[True, True, False, True], [True, True, True, False]]
    with pytest.raises(ValueError, match="2 anchors at offset 3 need at least 5 candidates, got 4"):
        pairs.in_batch_direction(scores, ids, torch.arange(4), positive_offset=3)
    with pytest.raises(ValueError, match=r"scores are \(4, 4\), but there are ids of 3 and 3"):
        pairs.both_directions(torch.eye(4), torch.arange(3))
    # The best score of row 0 is its positive's; the second row has no negative
    scores = torch.tensor([[0.9, 0.1, 0.5], [0.2, 0.8, 0.3]])
    values, columns = pairs.hardest_negatives(scores, torch.tensor([[False, True, True], [False] * 3]))
    assert values.tolist() == [0.5, float("-inf")]
    assert columns[0] == 2
