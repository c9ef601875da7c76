"""A training step of preset f30k-bigru against its matrix products, and what the momentum twin and the banks add.

A step is forward, backward, clipping and fused AdamW on batches of the real loader. Its products are those the
mathematics asks for, with the batch's own sizes, run back to back: the region layers, the GRU's input products for
every word of both directions, its recurrent products step by step (not at the first, which starts from zero), the
scores; forward, and backward to weights and inputs. The step itself projects equal words once, which the products
here do not credit.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from benchmarks.timing import Line, at_most, in_turn, milliseconds, quotient
from coder_core.config import Config
from coder_core.data.batches import Batch
from coder_core.encoders.gru import pack
from coder_core.ops import normalise
from coder_core.presets import PRESETS
from coder_core.training.optim import make_optimizer
from coder_core.training.prepare import Prepared, prepare
from coder_core.training.step import compute_losses, make_memory

BAR = 1.6
Products = list[Callable[[], Tensor]]


def configuration(folder: Path, bank_size: int) -> Config:
    """The preset, on `folder`, with banks of this size."""
    preset = PRESETS["f30k-bigru"].config
    memory = replace(preset.memory, bank_size=bank_size)
    return replace(preset, data=replace(preset.data, data=str(folder)), memory=memory)


def stepper(prepared: Prepared, config: Config) -> Callable[[Batch], None]:
    """The trainer's step without its bookkeeping; banks are filled before the first one."""
    model = prepared.model.train()
    memory = make_memory(model, config)
    optimizer = make_optimizer(model, config.training, torch.device("cpu"))
    if memory is not None:
        keys = [normalise(torch.randn(config.memory.bank_size, config.model.dimension)) for _ in range(2)]
        memory.bank.enqueue(keys[0], keys[1], torch.arange(config.memory.bank_size))

    def step(batch: Batch) -> None:
        losses = compute_losses(model, model, memory, batch, config, epoch=1.0, autocast=nullcontext())
        optimizer.zero_grad(set_to_none=True)
        losses.total.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), config.training.clip_norm)
        optimizer.step()
        if memory is not None:
            memory.remember()

    return step


def layer(rows: int, inputs: int, outputs: int, *, to_inputs: bool = True) -> Products:
    """The products of a linear layer: forward, to its weight, to its inputs."""
    x, w, g = torch.randn(rows, inputs), torch.randn(outputs, inputs), torch.randn(rows, outputs)
    y, to_w, to_x = torch.empty_like(g), torch.empty_like(w), torch.empty_like(x)
    found: Products = [lambda: torch.mm(x, w.T, out=y), lambda: torch.mm(g.T, x, out=to_w)]
    return [*found, lambda: torch.mm(g, w, out=to_x)] if to_inputs else found


def recurrence(steps: list[int], size: int) -> Products:
    """One direction of a GRU: a product a step forward and back, one to the weight."""
    w, states, gates = torch.randn(3 * size, size), torch.randn(sum(steps), size), torch.randn(sum(steps), 3 * size)
    to_gates, to_states, to_w = torch.empty_like(gates), torch.empty_like(states), torch.empty_like(w)
    found: Products = []
    for x, y in zip(states.split(steps), to_gates.split(steps), strict=True):
        found.append(lambda x=x, y=y: torch.mm(x, w.T, out=y))  # type: ignore[misc]
    for g, x in zip(gates.split(steps), to_states.split(steps), strict=True):
        found.append(lambda g=g, x=x: torch.mm(g, w, out=x))  # type: ignore[misc]
    return [*found, lambda: torch.mm(gates.T, states, out=to_w)]


def products(batch: Batch, config: Config) -> Products:
    """Every matrix product of a step on this batch."""
    size, half = config.model.dimension, config.model.dimension // 2
    pairs, regions, features = batch.regions.shape
    rows, steps = pairs * regions, pack(batch.word_lengths, batch.words.shape[1]).steps
    found = layer(rows, features, size, to_inputs=False) + layer(rows, features, half, to_inputs=False)
    found += layer(rows, half, size)
    for _ in range(2):  # directions, of the GRU and of the loss
        found += layer(sum(steps), config.model.word_size, 3 * size) + recurrence(steps[1:], size)
        found += layer(pairs, size, pairs)
    return found


def lines(folder: Path, rounds: int, warm_up: int = 2) -> list[Line]:
    """The step ÷ its products, and with twin and banks ÷ without."""
    plain, banks = configuration(folder, 0), configuration(folder, PRESETS["f30k-bigru"].config.memory.bank_size)
    prepared = prepare(plain)
    step, step_with_banks = stepper(prepared, plain), stepper(prepare(banks), banks)
    batches = [prepared.batches(turn) for turn in range(min(rounds + warm_up, prepared.batches.per_epoch))]

    def batch(turn: int) -> Batch:
        return batches[turn % len(batches)]

    prepared_products: dict[int, Products] = {}

    def ready(turn: int) -> None:
        prepared_products.clear()
        prepared_products[turn] = products(batch(turn), plain)

    programs: dict[str, Callable[[int], object]] = {
        "ready": ready,
        "products": lambda turn: [product() for product in prepared_products[turn]],
        "step": lambda turn: step(batch(turn)),
        "banks": lambda turn: step_with_banks(batch(turn)),
    }
    taken = in_turn(programs, rounds, warm_up)
    added = quotient(taken["banks"], taken["step"])
    first = at_most(
        f"training step, batch {plain.training.batch_size}, D = {plain.model.dimension} ÷ its products", BAR,
        taken["step"], taken["products"], f"products {milliseconds(taken['products']):.0f} ms",
    )  # fmt: skip
    name = f"the step with twin and banks of {banks.memory.bank_size} ÷ without"
    return [first, Line(name, "", *added, milliseconds(taken["banks"]), None)]
