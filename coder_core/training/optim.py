"""Parameter groups, the learning rate as a pure function of the step, and the optimizer's state as flat tensors."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable

import torch
from torch import Tensor, nn

from coder_core.config.schema import TrainingConfig
from coder_core.console.faults import Fault, InputError
from coder_core.runs.files.saves import Save

DECAY_FACTOR = 0.1


def learning_rate(step: int, steps: int, config: TrainingConfig) -> float:
    """The rate of step 0 … steps-1: a linear rise, then a step, a cosine, or nothing.

    Args:
        step: from 0.
        steps: of the whole run.
        config: of the run.
    """
    rate = config.learning_rate
    if step < config.warmup_steps:
        return rate * (step + 1) / config.warmup_steps
    if config.schedule == "step":
        return rate * (DECAY_FACTOR if step >= config.decay_at * steps else 1.0)
    if config.schedule == "cosine":
        done = (step - config.warmup_steps) / max(1, steps - config.warmup_steps)
        return rate * 0.5 * (1 + math.cos(math.pi * done))
    return rate


def make_optimizer(
    model: nn.Module, config: TrainingConfig, device: torch.device, extra: Iterable[nn.Parameter] = (),
    branches: Iterable[nn.Module] = (),
) -> torch.optim.AdamW:  # fmt: skip
    """AdamW (fused) in two groups: BERT's own weights at a share of the rate, everything else, `extra` among it.

    Branches that train beside the model join both groups: AdamW treats every number alone, so one optimizer is as good
    as one for each.
    """
    bert: list[tuple[str, nn.Parameter]] = []
    others: list[tuple[str, nn.Parameter]] = []
    for branch, module in enumerate((model, *branches)):
        for name, parameter in module.named_parameters():
            if parameter.requires_grad:
                group = bert if name.startswith("words.bert.") else others
                group.append((f"branch_{branch}.{name}" if branch else name, parameter))
    others += [(f"extra_{number}", parameter) for number, parameter in enumerate(extra)]
    groups = [{"params": others, "share": 1.0}, {"params": bert, "share": config.bert_rate}]
    return torch.optim.AdamW(
        [group for group in groups if group["params"]],
        lr=config.learning_rate,
        weight_decay=config.weight_decay,
        fused=device.type in ("cpu", "cuda"),
    )


def set_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    """Give every group its share of the rate."""
    for group in optimizer.param_groups:
        group["lr"] = rate * group["share"]


def optimizer_tensors(optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """The state as flat tensors: "<parameter>.exp_avg", "<parameter>.exp_avg_sq", "<parameter>.step".

    Rates and weight decay are left out: they follow from the configuration and the step.
    """
    names = list(_named_parameters(optimizer))
    state = optimizer.state_dict()["state"]
    return {f"{names[index]}.{key}": value for index, values in state.items() for key, value in values.items()}


def load_optimizer(optimizer: torch.optim.Optimizer, save: Save) -> None:
    """Restore what `optimizer_tensors` returned, or what version 0.1 saved: numbered tensors and a document.

    Raises:
        InputError: the save has moments of other parameters, or of other shapes.
    """
    parameters, tensors = _named_parameters(optimizer), save.tensors("optimizer")
    names = list(parameters)
    if "optimizer.json" in save.manifest["files"]:  # version 0.1
        numbered = save.document("optimizer")["state"].get("value", [])
        if len(numbered) > len(names):
            raise InputError(
                Fault(str(save.path / "optimizer.json"), f"has {len(numbered)} parameters", f"{len(names)}")
            )
        tensors = {
            f"{names[i]}.{key}": tensors[value["value"]] for i, values in numbered for key, value in values.items()
        }
    state: dict[int, dict[str, Tensor]] = defaultdict(dict)
    for key, tensor in tensors.items():
        name, _, moment = key.rpartition(".")
        if name not in parameters or tensor.shape not in ((), parameters[name].shape):
            fault = Fault(str(save.path / "optimizer.safetensors"), f"has {key} of shape {tuple(tensor.shape)}")
            raise InputError(fault)
        state[names.index(name)][moment] = tensor
    optimizer.load_state_dict({"state": dict(state), "param_groups": optimizer.state_dict()["param_groups"]})


def _named_parameters(optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """The parameters in the order of the optimizer's own numbers."""
    groups = optimizer.param_groups
    return {name: value for group in groups for name, value in zip(group["param_names"], group["params"], strict=True)}
