"""Training state through safetensors and JSON and back, without loss."""

from __future__ import annotations

import json
import math
import random
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from coder_core.runs.files.packing import pack_state, unpack_state


def there_and_back(state: Any) -> Any:
    tensors, document = pack_state(state)
    written = {key: tensor.clone() for key, tensor in tensors.items()}
    return unpack_state(written, json.loads(json.dumps(document)))


def test_optimizer_and_schedule_continue_where_they_were() -> None:
    def start() -> tuple[torch.nn.Linear, torch.optim.Optimizer]:
        torch.manual_seed(0)
        model = torch.nn.Linear(3, 2)
        return model, torch.optim.AdamW(model.parameters(), lr=0.1, fused=True)

    def step(model: torch.nn.Linear, optimizer: torch.optim.Optimizer) -> None:
        model(torch.ones(4, 3)).square().sum().backward()
        optimizer.step()
        optimizer.zero_grad()

    model, optimizer = start()
    step(model, optimizer)
    weights, state = there_and_back(model.state_dict()), there_and_back(optimizer.state_dict())
    step(model, optimizer)
    other, continued = start()
    other.load_state_dict(weights)
    continued.load_state_dict(state)
    step(other, continued)
    assert torch.equal(other.weight, model.weight)


def test_random_generators_continue_where_they_were() -> None:
    generator, numpy_generator = torch.Generator().manual_seed(3), np.random.default_rng(3)
    torch.randn(5, generator=generator)
    numpy_generator.normal(size=7)
    random.seed(3)
    legacy = np.random.RandomState(3)
    state = {
        "torch": generator.get_state(),
        "numpy": numpy_generator.bit_generator.state,
        "python": random.getstate(),
        "legacy": legacy.get_state(),
    }
    back = there_and_back(state)
    expected = torch.randn(3, generator=generator), numpy_generator.normal(), random.random(), legacy.normal()
    generator.set_state(back["torch"])
    numpy_generator.bit_generator.state = back["numpy"]
    random.setstate(back["python"])
    legacy.set_state(back["legacy"])
    assert torch.equal(torch.randn(3, generator=generator), expected[0])
    assert (numpy_generator.normal(), random.random(), legacy.normal()) == expected[1:]


plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary(max_size=9),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(st.text() | st.integers(), inner, max_size=3)
    ),
    max_leaves=10,
)


@given(plain)
def test_any_nest_comes_back_with_its_types(state: Any) -> None:
    back = there_and_back(state)
    assert back == state
    assert repr(back) == repr(state)


def test_arrays_scalars_and_special_floats() -> None:
    state = [np.arange(6, dtype=">u4").reshape(2, 3), np.float32(0.1), math.nan, -math.inf, {"$": "tuple"}]
    array, scalar, nan, infinite, dollar = there_and_back(state)
    assert array.dtype == state[0].dtype
    assert np.array_equal(array, state[0])
    assert type(scalar) is np.float32
    assert scalar == state[1]
    assert math.isnan(nan)
    assert infinite == -math.inf
    assert dollar == {"$": "tuple"}


def test_what_cannot_be_saved_is_named() -> None:
    with pytest.raises(TypeError, match=r"state\.groups\[1\]\.hook is a function"):
        pack_state({"groups": [{}, {"hook": there_and_back}]})
    with pytest.raises(TypeError, match="Python objects"):
        pack_state(np.array([object()]))
