"""The optimizer (AdamW): parameter groups, learning-rate schedule, gradient clipping, and its state as flat tensors."""

import inspect
import math
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from coder_core.config.checks import NOTHING_TRAINS
from coder_core.config.model import TowersConfig
from coder_core.config.training import TrainingConfig
from coder_core.console.faults import InputError
from coder_core.data.batches import Batch
from coder_core.runs.saves import Save
from coder_core.training.step import SAMPLES_NAMED, NotFiniteError

DECAY_FACTOR = 0.1
BERT = "words.bert."
IMAGE_TOWER = "regions.tower."
TEXT_TOWER = "words.tower."
"""Substrings of parameter names that identify pretrained weights."""
SCALE = "scale."  # prefix of the names of the logits' scale and bias


class EagerAdamW(torch.optim.AdamW):
    """AdamW without torch.compile, which PyTorch's own methods import for five seconds only to exclude themselves."""

    step = torch.no_grad()(inspect.unwrap(torch.optim.AdamW.step))
    add_param_group = inspect.unwrap(torch.optim.AdamW.add_param_group)
    zero_grad = inspect.unwrap(torch.optim.AdamW.zero_grad)
    state_dict = inspect.unwrap(torch.optim.AdamW.state_dict)
    load_state_dict = inspect.unwrap(torch.optim.AdamW.load_state_dict)


def learning_rate(step: int, steps: int, config: TrainingConfig, reductions: int = 0) -> float:
    """Return the learning rate of a step: linear warm-up, then a constant rate, one drop ("step"), a cosine, or a drop
    at each plateau of the dev score (`reductions` so far)."""
    rate = config.learning_rate
    if step < config.warmup_steps:
        return rate * (step + 1) / config.warmup_steps
    if config.schedule == "step":
        return rate * (DECAY_FACTOR if step >= config.decay_at * steps else 1.0)
    if config.schedule == "plateau":
        return rate * DECAY_FACTOR**reductions
    if config.schedule == "cosine":
        done = (step - config.warmup_steps) / max(1, steps - config.warmup_steps)
        return rate * 0.5 * (1 + math.cos(math.pi * done))
    return rate


def make_optimizer(
    parameters: Mapping[str, nn.Parameter],
    config: TrainingConfig,
    device: torch.device,
    towers: TowersConfig | None = None,
) -> torch.optim.AdamW:
    """Create a fused AdamW with these groups: BERT and each tower, at a share of the learning rate; the logits' scale,
    without weight decay; and the rest. Frozen parameters are left out. InputError: nothing is trained."""
    towers = towers or TowersConfig()
    shares = {"": 1.0, BERT: config.bert_rate, IMAGE_TOWER: towers.image_rate, TEXT_TOWER: towers.text_rate}
    shares[SCALE] = 1.0
    groups: dict[str, Any] = {part: {"params": [], "share": share} for part, share in shares.items()}
    groups[SCALE]["weight_decay"] = 0.0
    for name, parameter in parameters.items():
        if parameter.requires_grad:
            pretrained = next((part for part in (BERT, IMAGE_TOWER, TEXT_TOWER) if part in name), "")
            groups[SCALE if name.startswith(SCALE) else pretrained]["params"].append((name, parameter))

    used = [group for group in groups.values() if group["params"]]
    if not used:
        raise InputError(NOTHING_TRAINS)

    lr = config.learning_rate
    decay = config.weight_decay
    fused = device.type in ("cpu", "cuda")
    return EagerAdamW(used, lr=lr, weight_decay=decay, fused=fused)


def set_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    """Set the learning rate of every group to its share of `rate`."""
    for group in optimizer.param_groups:
        group["lr"] = rate * group["share"]


def gradient_norm(parameters: Mapping[str, nn.Parameter]) -> Tensor:
    """Return () the joint norm of the parameters' gradients."""
    return torch.nn.utils.get_total_norm([p.grad for p in parameters.values() if p.grad is not None])


def check_gradients(parameters: Mapping[str, nn.Parameter], norm: float, batch: Batch, step: int) -> None:
    """Raise NotFiniteError, naming the step, the batch and the parameters, if the norm of the gradients is not finite; call
    it before clipping, which would spread NaN and Inf."""
    if math.isfinite(norm):
        return
    bad = [name for name, p in parameters.items() if p.grad is not None and not bool(p.grad.isfinite().all())]
    named = ", ".join(map(str, batch.text_ids[:SAMPLES_NAMED].tolist()))
    message = f"the gradient of {', '.join(bad[:SAMPLES_NAMED]) or 'the loss'} is not finite"
    message += f" (captions {named} … of a batch of {len(batch.text_ids)})"
    raise NotFiniteError.in_step(step, message, "gradients", "lower --learning-rate or raise --temperature")


def optimizer_tensors(optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """Return the state as flat tensors: "<parameter>.exp_avg", "<parameter>.exp_avg_sq", "<parameter>.step". Learning
    rates and weight decay are omitted: they follow from the configuration and the step."""
    named = _named_parameters(optimizer).items()
    states = ((name, optimizer.state.get(parameter, {})) for name, parameter in named)
    return {f"{name}.{key}": value for name, state in states for key, value in state.items()}


def load_optimizer(optimizer: torch.optim.Optimizer, save: Save) -> None:
    """Restore the tensors of `optimizer_tensors` from a save. InputError: the save has unknown parameters, wrong
    shapes, or lacks a moment."""
    parameters = _named_parameters(optimizer)
    file = save.path / "optimizer.safetensors"
    names = list(parameters)
    state: dict[int, dict[str, Tensor]] = defaultdict(dict)
    for key, tensor in save.tensors("optimizer").items():
        name, _, moment = key.rpartition(".")
        if name not in parameters or tensor.shape != (() if moment == "step" else parameters[name].shape):
            raise InputError.at(file, f"has {key} of shape {tuple(tensor.shape)}")
        state[names.index(name)][moment] = tensor
    for number, moments in state.items():
        if missing := {"step", "exp_avg", "exp_avg_sq"} - moments.keys():
            raise InputError.at(file, f"lacks {names[number]}.{min(missing)}")
    optimizer.load_state_dict({"state": dict(state), "param_groups": optimizer.state_dict()["param_groups"]})


def _named_parameters(optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """Return name → parameter, in the order in which the optimizer numbers them."""
    pairs = (zip(group["param_names"], group["params"], strict=True) for group in optimizer.param_groups)
    return {name: value for group in pairs for name, value in group}
