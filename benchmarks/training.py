"""A training step ÷ its matrix products, and the cost of each part of CODER and of boosting.

A step is forward pass, backward pass, clipping and fused AdamW on batches of the real loader. Its products are those
that the mathematics requires, in the batch's sizes, run back to back: region layers, the GRU's input and recurrent
products, scores; forward, and backward to weights and inputs. The lean products are the fewer and faster ones that the
model actually computes (equal words projected once, rows of the recurrent weights padded in memory).
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from benchmarks.synthetic import random_concepts, write_features
from benchmarks.timing import DEVICE, PRECISION, Line, Seconds, at_most, in_turn, no_bar, quotient
from coder_core.config.presets import PRESETS
from coder_core.config.schema import Config
from coder_core.data.batches import Batch
from coder_core.model.device import autocast
from coder_core.model.encoders.recurrent import PADDING, pack
from coder_core.ops import normalise
from coder_core.training.optim import make_optimizer
from coder_core.training.parts.memory import MomentumMemory
from coder_core.training.parts.prototypes import PrototypeClassification
from coder_core.training.prepare import Inputs, Prepared, make_objective, prepare
from coder_core.training.step import Part

STEP_BAR = 1.6
WHOLE_BAR = 1.6
BOOSTING_BAR = 1.25
PAST_WARM_UP = 5.0  # epochs, after which every loss term is active
PAIRS = 145_000  # of Flickr30K's train split
CONNECTED = 0.05  # share of concept pairs that occur together often enough for an edge
SMALL_FEATURES = 128  # the feature dimension for which the Flickr8k presets were chosen
Products = list[Callable[[], Tensor]]
random = partial(torch.randn, device=DEVICE, dtype=PRECISION)


def configuration(folder: Path, bank_size: int) -> Config:
    """Return the preset f30k-bigru on the data in `folder`, with banks of this size."""
    preset = PRESETS["f30k-bigru"].config
    memory = replace(preset.memory, bank_size=bank_size)
    return replace(preset, data=replace(preset.data, data=str(folder)), memory=memory)


def stepper(prepared: Prepared, config: Config, *more: Part) -> Callable[[Batch], None]:
    """Return the trainer's step without its bookkeeping, with `more` parts and full banks."""
    model = prepared.model.train().to(DEVICE)
    objective = make_objective(config, prepared, DEVICE)
    objective.parts += [part.to(DEVICE) for part in more]
    for part in objective.parts:
        if isinstance(part, MomentumMemory):
            images, texts = normalise(torch.randn(2, *part.bank.images.shape, device=DEVICE))
            part.bank.enqueue(images, texts, torch.arange(len(images), device=DEVICE))
    learned = dict(model.named_parameters()) | objective.joint_parameters()
    optimizer = make_optimizer(learned, config.training, DEVICE)

    def step(batch: Batch) -> None:
        cast = autocast(DEVICE, config.training.precision)
        losses = objective.losses(model, batch.to(DEVICE), epoch=PAST_WARM_UP, autocast=cast)
        optimizer.zero_grad(set_to_none=True)
        losses.total.backward()
        torch.nn.utils.clip_grad_norm_(learned.values(), config.training.clip_norm)
        optimizer.step()
        objective.after_step(model, 0)

    return step


def on(step: Callable[[Batch], None], batches: list[Batch]) -> Callable[[int], object]:
    """Return a function of the round that calls the step on its batch."""
    return lambda turn: step(batches[turn % len(batches)])


def some_batches(prepared: Prepared, count: int) -> list[Batch]:
    """Return the first `count` batches, at most one epoch."""
    return [prepared.batches(turn) for turn in range(min(count, prepared.batches.per_epoch))]


def layer(rows: int, inputs: int, outputs: int, *, to_inputs: bool = True) -> Products:
    """Return the products of a linear layer: forward, gradient of its weight, gradient of its inputs."""
    x = random(rows, inputs)
    w = random(outputs, inputs)
    g = random(rows, outputs)
    y = torch.empty_like(g)
    to_w = torch.empty_like(w)
    to_x = torch.empty_like(x)
    result: Products = [lambda: torch.mm(x, w.T, out=y), lambda: torch.mm(g.T, x, out=to_w)]
    return [*result, lambda: torch.mm(g, w, out=to_x)] if to_inputs else result


def recurrence(steps: list[int], size: int, spacing: int = 0) -> Products:
    """Return the recurrent products of one direction of a GRU: one per step forward and backward, one for the weight."""
    w = random(3 * size, size + spacing)[:, :size]
    w_turned = random(3 * size, size).T
    if spacing:
        w_turned = random(size, 3 * size + spacing)[:, : 3 * size]
    states = random(sum(steps), size)
    gates = random(sum(steps), 3 * size)
    to_gates = torch.empty_like(gates)
    to_states = torch.empty_like(states)
    to_w = random(3 * size, size)
    result: Products = []
    for x, y in zip(states.split(steps), to_gates.split(steps), strict=True):
        result.append(lambda x=x, y=y: torch.mm(x, w_turned, out=y))  # type: ignore[misc]
    for g, x in zip(gates.split(steps), to_states.split(steps), strict=True):
        result.append(lambda g=g, x=x: torch.mm(g, w, out=x))  # type: ignore[misc]
    return [*result, lambda: torch.mm(gates.T, states, out=to_w)]


def products(batch: Batch, config: Config, *, lean: bool) -> Products:
    """Return every matrix product of a step on this batch; with `lean`, those that the model computes."""
    size = config.model.dimension
    half = config.model.dimension // 2
    pairs, regions, features = batch.regions.shape
    rows = pairs * regions
    steps = pack(batch.word_lengths, batch.words.shape[1]).steps
    inputs = len(batch.words.unique()) if lean else sum(steps)
    result = layer(rows, features, size, to_inputs=False) + layer(rows, features, half, to_inputs=False)
    result += layer(rows, half, size)
    for _ in range(2):  # directions, of the GRU and of the loss
        result += layer(inputs, config.model.word_size, 3 * size)
        result += recurrence(steps[1:], size, PADDING if lean else 0)
        result += layer(pairs, size, pairs)
    return result


def lines(folder: Path, rounds: int, warm_up: int = 2) -> list[Line]:
    """Measure the step ÷ its products, and the step with momentum encoder and banks ÷ without."""
    plain = configuration(folder, 0)
    banks = configuration(folder, PRESETS["f30k-bigru"].config.memory.bank_size)
    prepared = prepare(plain)
    batches = some_batches(prepared, rounds + warm_up)
    ready: dict[bool, Products] = {}

    def make_ready(turn: int) -> None:
        batch = batches[turn % len(batches)]
        ready.update({lean: products(batch, plain, lean=lean) for lean in (False, True)})

    programs: dict[str, Callable[[int], object]] = {
        "ready": make_ready,
        "products": lambda _: [product() for product in ready[False]],
        "step": on(stepper(prepared, plain), batches),
        "lean": lambda _: [product() for product in ready[True]],
        "banks": on(stepper(prepare(banks), banks), batches),
    }
    taken = in_turn(programs, rounds, warm_up)
    name = f"training step, batch {plain.training.batch_size}, D = {plain.model.dimension}"
    with_banks = f"the step with {banks.memory.bank_size} bank slots ÷ without"
    return [
        at_most(f"{name} ÷ its products", STEP_BAR, taken["step"], taken["products"], "products"),
        at_most(f"{name} ÷ the model's own", STEP_BAR, taken["step"], taken["lean"], "products"),
        no_bar(with_banks, taken["banks"], taken["step"]),
    ]


def filled_prototypes(config: Config, count: int) -> PrototypeClassification:
    """Create prototypes as in the middle of a run."""
    memory = replace(config.memory, prototypes=count)
    part = PrototypeClassification(replace(config, memory=memory), np.arange(PAIRS), PAIRS)
    clusters = part.clusters
    clusters.centroids.copy_(normalise(torch.randn_like(clusters.centroids)))
    clusters.resultants.fill_(0.8)
    clusters.weights.fill_(PAIRS / count)
    clusters.seen.fill_(PAIRS)
    return part


def whole_stepper(config: Config, count: int) -> Callable[[Batch], None]:
    """Return the step with random concepts, if the configuration has concepts, and with `count` prototypes, if any."""
    size = config.model.concepts
    concepts = (
        random_concepts(np.random.default_rng(0), size, config.model.word_size, CONNECTED) if size else None
    )
    more = [filled_prototypes(config, count)] if count else []
    return stepper(prepare(config, Inputs(concepts=concepts)), config, *more)


def whole(folder: Path, rounds: int, warm_up: int = 2) -> list[Line]:
    """Measure all of CODER (coder-f30k-bigru) ÷ the instance branch without momentum, and the share of each part."""
    preset = PRESETS["coder-f30k-bigru"].config
    plain = configuration(folder, 0)
    bank = preset.memory.bank_size
    concepts = preset.model.concepts
    count = preset.memory.prototypes
    with_bank = replace(plain, memory=replace(plain.memory, bank_size=bank))
    with_concepts = replace(plain, model=replace(plain.model, concepts=concepts))
    parts = {
        "instance branch": (plain, 0),
        f"+ momentum encoder and {bank:,} bank slots": (with_bank, 0),
        f"+ {concepts} concepts": (with_concepts, 0),
        f"+ {count:,} prototypes": (plain, count),
        "the whole": (replace(with_concepts, memory=with_bank.memory), count),
    }
    prepared = prepare(plain)
    batches = [prepared.batches(turn) for turn in range(rounds + warm_up)]
    steps = {name: on(whole_stepper(config, number), batches) for name, (config, number) in parts.items()}
    taken = in_turn(steps, rounds, warm_up)
    base = taken["instance branch"]
    shares = {part: quotient(taken[part], base) for part in list(parts)[1:-1]}
    added = {part: Seconds(share.processor - 1, share.wall - 1) for part, share in shares.items()}
    name = f"the whole of CODER's step ÷ the instance branch's, batch {plain.training.batch_size}"
    return [
        at_most(name, WHOLE_BAR, taken["the whole"], base),
        *(Line(f"    {part}: added share", "", *share, None, None) for part, share in added.items()),
    ]


def boosting_configurations(folder: Path, name: str) -> tuple[Config, Config]:
    """Return configurations without and with boosting: "small" is flickr8k-boosted, "large" the model of f30k-bigru."""
    plain, boosted = (PRESETS[f"flickr8k-{kind}"].config for kind in ("baseline", "boosted"))
    if name == "small":
        data = replace(plain.data, data=str(folder), word_vectors="random")
        return replace(plain, data=data), replace(boosted, data=data)
    large = replace(configuration(folder, 0), objective=plain.objective)
    return large, replace(large, boosting=boosted.boosting)


def boosting(folder: Path, rounds: int, warm_up: int = 2) -> list[Line]:
    """Measure a step with a moving average as teacher ÷ a plain one, at two sizes. `folder`: features of size 2048."""
    small = folder / "small"
    small.mkdir(exist_ok=True)
    write_features(small, features=SMALL_FEATURES)
    result = []
    for name, data, count in (("small", small, 4 * rounds), ("large", folder, rounds)):
        plain, boosted = boosting_configurations(data, name)
        prepared = prepare(plain)
        batches = some_batches(prepared, count + warm_up)
        steps = {"plain": stepper(prepared, plain), "boosted": stepper(prepare(boosted), boosted)}
        taken = in_turn({kind: on(step, batches) for kind, step in steps.items()}, count, warm_up)
        size = f"features of {prepared.data.train.feature_size}, D = {plain.model.dimension}"
        title = f"boosted step ÷ plain, {size}"
        result.append(at_most(title, BOOSTING_BAR, taken["boosted"], taken["plain"], "plain"))
    return result
