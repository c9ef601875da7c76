"""The ring of keys against a list that forgets from the front, for batches of any size."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from coder_core.ops import EMPTY_ID
from coder_core.training.memory.bank import CoupledBank
from tests.reference.ring import Ring

Entry = tuple[list[float], list[float], int]


def entries_in_order(bank: CoupledBank) -> list[Entry]:
    """Filled slots, oldest first."""
    start = int(bank.position) if bank.count == bank.size else 0
    order = [(start + k) % bank.size for k in range(bank.count)]
    return [(bank.images[k].tolist(), bank.texts[k].tolist(), int(bank.image_ids[k])) for k in order]


def keys(first: int, count: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Keys that say which they are: image key (i, 0), text key (i, 1), id i."""
    number = torch.arange(first, first + count, dtype=torch.float32)
    images, texts = torch.stack([number, number * 0], 1), torch.stack([number, number * 0 + 1], 1)
    return images, texts, torch.arange(first, first + count)


def test_by_hand() -> None:
    """Three slots: 0 1, then 2 3 → slots 3 1 2."""
    bank = CoupledBank(3, 2)
    bank.enqueue(*keys(0, 2))
    assert bank.count == 2
    assert bank.image_ids.tolist() == [0, 1, EMPTY_ID]
    bank.enqueue(*keys(2, 2))
    assert bank.count == 3
    assert bank.image_ids.tolist() == [3, 1, 2]
    assert bank.images[:, 0].tolist() == [3.0, 1.0, 2.0]
    assert int(bank.position) == 1


@settings(max_examples=80, deadline=None)
@given(size=st.integers(1, 9), batches=st.lists(st.integers(0, 25), max_size=12))
def test_any_batch_sizes_wrap_around_as_a_queue_does(size: int, batches: list[int]) -> None:
    bank, ring = CoupledBank(size, 2), Ring(size)
    seen = 0
    for count in batches:
        images, texts, ids = keys(seen, count)
        bank.enqueue(images, texts, ids)
        ring.enqueue(zip(images.tolist(), texts.tolist(), ids.tolist(), strict=True))
        seen += count
        assert entries_in_order(bank) == ring.entries
        assert bank.count == len(ring.entries)
        assert bank.image_ids[bank.count :].tolist() == [EMPTY_ID] * (size - bank.count)


def test_filled_slots_come_first_until_the_bank_is_full() -> None:
    """The trainer reads the first `count` slots."""
    bank = CoupledBank(10, 2)
    for step in range(3):
        bank.enqueue(*keys(3 * step, 3))
        assert bank.image_ids[: bank.count].tolist() == list(range(3 * step + 3))


def test_continuing_a_saved_bank_equals_going_on() -> None:
    bank, other = CoupledBank(5, 2), CoupledBank(5, 2)
    bank.enqueue(*keys(0, 7))
    other.load_state_dict(bank.state_dict())
    for each in (bank, other):
        each.enqueue(*keys(7, 4))
    for name, value in bank.state_dict().items():
        assert torch.equal(other.state_dict()[name], value)


def test_keys_carry_no_gradient_into_the_bank() -> None:
    bank = CoupledBank(4, 2)
    images, texts, ids = keys(0, 2)
    bank.enqueue(images.requires_grad_(), texts.requires_grad_(), ids)
    assert not bank.images.requires_grad
    assert list(bank.parameters()) == []


def test_what_does_not_pair_up_is_refused() -> None:
    bank = CoupledBank(4, 2)
    images, texts, ids = keys(0, 3)
    with pytest.raises(ValueError, match="3 image keys, 2 text keys and 3 ids do not pair up"):
        bank.enqueue(images, texts[:2], ids)
    with pytest.raises(ValueError, match="at least one slot, got 0"):
        CoupledBank(0, 2)
