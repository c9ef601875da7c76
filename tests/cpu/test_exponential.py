"""The exponential through NumPy is PyTorch's, in place."""

from __future__ import annotations

import pytest
import torch

from coder_core.cpu.exponential import exp_


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_it_is_the_exponential_in_place_also_of_a_part_and_at_the_ends(dtype: torch.dtype) -> None:
    whole = torch.linspace(-90, 60, 600).to(dtype).view(20, 30)
    whole[3, 4], whole[5, 6] = -torch.inf, 0.0
    before, part = whole.clone(), whole[:, ::2]
    assert exp_(part) is part
    torch.testing.assert_close(
        part, before[:, ::2].double().exp().to(dtype), rtol=1e-6 if dtype.itemsize > 2 else 1e-2, atol=0
    )
    assert torch.equal(whole[:, 1::2], before[:, 1::2])
    assert whole[3, 4] == 0
