"""A training step of preset f30k-bigru against its matrix products, and what the momentum twin and the banks add.

A step is forward, backward, clipping and fused AdamW on batches of the real loader. Its products are those the
mathematics asks for, with the batch's own sizes, run back to back: the region layers, the GRU's input products for
every word of both directions, its recurrent products step by step (not at the first, which starts from zero), the
scores; forward, and backward to weights and inputs. Two limits are shown: those products with ordinary weights, and
the fewer and faster ones that the model makes itself (equal words projected once, rows of the recurrent weights spaced
apart in memory), which leave nothing but its overhead above 1.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from benchmarks.timing import Line, at_most, in_turn, milliseconds, no_bar
from coder_core.config.presets import PRESETS
from coder_core.config.schema import Config
from coder_core.cpu.gru import PADDING, pack
from coder_core.data.batches import Batch
from coder_core.ops import normalise
from coder_core.training.optim import make_optimizer
from coder_core.training.parts.make import make_parts
from coder_core.training.parts.memory import MomentumMemory
from coder_core.training.parts.part import Part
from coder_core.training.prepare import Prepared, prepare
from coder_core.training.step import compute_losses

BAR = 1.6
PAST_WARM_UP = 5.0  # epochs; every term counts by then
Products = list[Callable[[], Tensor]]


def configuration(folder: Path, bank_size: int) -> Config:
    """The preset, on `folder`, with banks of this size."""
    preset = PRESETS["f30k-bigru"].config
    memory = replace(preset.memory, bank_size=bank_size)
    return replace(preset, data=replace(preset.data, data=str(folder)), memory=memory)


def stepper(prepared: Prepared, config: Config, *more: Part) -> Callable[[Batch], None]:
    """The trainer's step, with `more` parts and without its bookkeeping; banks are filled before the first one."""
    model = prepared.model.train()
    parts = [*make_parts(config, prepared, torch.device("cpu")), *more]
    for part in parts:
        if isinstance(part, MomentumMemory):
            keys = [normalise(torch.randn(config.memory.bank_size, config.model.dimension)) for _ in range(2)]
            part.bank.enqueue(keys[0], keys[1], torch.arange(config.memory.bank_size))
    joint = {name: parameter for part in parts for name, parameter in part.joint_parameters().items()}
    learned = dict(model.named_parameters()) | joint
    optimizer = make_optimizer(learned, config.training, torch.device("cpu"))

    def step(batch: Batch) -> None:
        losses = compute_losses(model, batch, config, parts, epoch=PAST_WARM_UP)
        optimizer.zero_grad(set_to_none=True)
        losses.total.backward()
        torch.nn.utils.clip_grad_norm_(learned.values(), config.training.clip_norm)
        optimizer.step()
        for part in parts:
            part.after_step(model, 0)

    return step


def on(step: Callable[[Batch], None], batches: list[Batch]) -> Callable[[int], object]:
    """Call the step on one batch after the other."""
    return lambda turn: step(batches[turn % len(batches)])


def layer(rows: int, inputs: int, outputs: int, *, to_inputs: bool = True) -> Products:
    """The products of a linear layer: forward, to its weight, to its inputs."""
    x, w, g = torch.randn(rows, inputs), torch.randn(outputs, inputs), torch.randn(rows, outputs)
    y, to_w, to_x = torch.empty_like(g), torch.empty_like(w), torch.empty_like(x)
    made: Products = [lambda: torch.mm(x, w.T, out=y), lambda: torch.mm(g.T, x, out=to_w)]
    return [*made, lambda: torch.mm(g, w, out=to_x)] if to_inputs else made


def recurrence(steps: list[int], size: int, spacing: int = 0) -> Products:
    """One direction of a GRU: a product a step forward and back, one to the weight."""
    w, w_turned = torch.randn(3 * size, size + spacing)[:, :size], torch.randn(3 * size, size).T
    if spacing:
        w_turned = torch.randn(size, 3 * size + spacing)[:, : 3 * size]
    states, gates = torch.randn(sum(steps), size), torch.randn(sum(steps), 3 * size)
    to_gates, to_states, to_w = torch.empty_like(gates), torch.empty_like(states), torch.empty(3 * size, size)
    made: Products = []
    for x, y in zip(states.split(steps), to_gates.split(steps), strict=True):
        made.append(lambda x=x, y=y: torch.mm(x, w_turned, out=y))  # type: ignore[misc]
    for g, x in zip(gates.split(steps), to_states.split(steps), strict=True):
        made.append(lambda g=g, x=x: torch.mm(g, w, out=x))  # type: ignore[misc]
    return [*made, lambda: torch.mm(gates.T, states, out=to_w)]


def products(batch: Batch, config: Config, *, lean: bool) -> Products:
    """Every matrix product of a step on this batch; `lean` as the model makes them."""
    size, half = config.model.dimension, config.model.dimension // 2
    pairs, regions, features = batch.regions.shape
    rows, steps = pairs * regions, pack(batch.word_lengths, batch.words.shape[1]).steps
    inputs = len(batch.words.unique()) if lean else sum(steps)
    made = layer(rows, features, size, to_inputs=False) + layer(rows, features, half, to_inputs=False)
    made += layer(rows, half, size)
    for _ in range(2):  # directions, of the GRU and of the loss
        made += layer(inputs, config.model.word_size, 3 * size)
        made += recurrence(steps[1:], size, PADDING if lean else 0)
        made += layer(pairs, size, pairs)
    return made


def lines(folder: Path, rounds: int, warm_up: int = 2) -> list[Line]:
    """The step ÷ its products, and with twin and banks ÷ without."""
    plain, banks = (
        configuration(folder, 0),
        configuration(folder, PRESETS["f30k-bigru"].config.memory.bank_size),
    )
    prepared = prepare(plain)
    step, step_with_banks = stepper(prepared, plain), stepper(prepare(banks), banks)
    batches = [prepared.batches(turn) for turn in range(min(rounds + warm_up, prepared.batches.per_epoch))]

    def batch(turn: int) -> Batch:
        return batches[turn % len(batches)]

    ready: dict[bool, Products] = {}

    def make_ready(turn: int) -> None:
        ready.update({lean: products(batch(turn), plain, lean=lean) for lean in (False, True)})

    programs: dict[str, Callable[[int], object]] = {
        "ready": make_ready,
        "products": lambda _: [product() for product in ready[False]],
        "step": lambda turn: step(batch(turn)),
        "lean products": lambda _: [product() for product in ready[True]],
        "banks": lambda turn: step_with_banks(batch(turn)),
    }
    taken = in_turn(programs, rounds, warm_up)
    name = f"training step, batch {plain.training.batch_size}, D = {plain.model.dimension}"
    notes = {kind: f"products {milliseconds(taken[kind]):.0f} ms" for kind in ("products", "lean products")}
    with_banks = f"the step with {banks.memory.bank_size} bank slots ÷ without"
    return [
        at_most(f"{name} ÷ its products", BAR, taken["step"], taken["products"], notes["products"]),
        at_most(
            f"{name} ÷ the model's own", BAR, taken["step"], taken["lean products"], notes["lean products"]
        ),
        no_bar(with_banks, taken["banks"], taken["step"]),
    ]
