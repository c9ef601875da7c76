"""A tower as an encoder of a model: frozen, with low-rank adapters (LoRA), or trained in full.

Weights that are not trained are shared by all copies (momentum encoder, teacher) and left out of every saved state.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any

import torch
from torch import Tensor, nn

from coder_core.config.model import TowersConfig, Tuning
from coder_core.console.faults import InputError

ADAPTER = ".lora_"  # part of the names of an adapter's weights


class TunedTower(nn.Module):
    """A tower, inputs, (B,) lengths -> (B, L, F), with a layer on top, F -> D, or the identity. The tower is modified in
    place: pass a copy (`structure_of`). `config`: rank, α and dropout of adapters. `where`: for messages. InputError:
    adapters are requested, but the tower has no linear layer."""

    def __init__(
        self,
        tower: nn.Module,
        linear: nn.Module,
        tuning: Tuning,
        config: TowersConfig | None = None,
        where: str = "",
    ) -> None:
        super().__init__()
        self.tuning = tuning
        if tuning == "lora" and config is not None:
            _add_adapters(tower, config, where)
        self.tower = tower
        self.linear = linear
        self.shared = frozenset(
            f"tower.{name}"
            for name, _ in _named_tensors(tower)
            if tuning != "full" and not (tuning == "lora" and ADAPTER in f".{name}")
        )
        for name, parameter in tower.named_parameters():
            parameter.requires_grad_(f"tower.{name}" not in self.shared)
        self.register_state_dict_post_hook(_leave_out_shared)
        self.register_load_state_dict_pre_hook(_keep_shared)

    def forward(self, inputs: Tensor, lengths: Tensor) -> Tensor:
        """Encode the tower's inputs, with (B,) lengths, as (B, L, D)."""
        with torch.set_grad_enabled(torch.is_grad_enabled() and self.tuning != "frozen"):
            features = self.tower(inputs, lengths)
        return self.linear(features)

    def train(self, mode: bool = True) -> TunedTower:
        """Set the mode, but keep a frozen tower in evaluation mode, and batch norm too in a tower with adapters."""
        super().train(mode)
        if self.tuning == "frozen":
            self.tower.eval()
        elif self.tuning == "lora":
            for part in self.tower.modules():
                if isinstance(part, nn.modules.batchnorm._BatchNorm):
                    part.eval()
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> TunedTower:
        """Return a copy that shares the weights that are not trained."""
        memo |= {id(tensor): tensor for name, tensor in _named_tensors(self) if name in self.shared}
        twin = type(self).__new__(type(self))
        memo[id(self)] = twin
        twin.__dict__ = copy.deepcopy(self.__dict__, memo)
        return twin

    def checkpoint_activations(self) -> None:
        """Recompute activations in the backward pass, in every part of the tower that supports this."""
        for part in self.tower.modules():
            if getattr(part, "supports_gradient_checkpointing", False):
                part.activation_checkpointing_enable()  # type: ignore[operator]

    def freeze_unused(self, inputs: Tensor, lengths: Tensor) -> None:
        """Freeze parameters that no gradient reaches, such as an unused pooling or the mask token of pretraining.
        `inputs`, `lengths`: a sample."""
        if self.tuning == "frozen":
            return
        mode = self.training
        with torch.enable_grad():
            self.eval()(inputs, lengths).sum().backward()
        for name, parameter in self.named_parameters():
            if name.startswith("tower.") and parameter.grad is None:
                parameter.requires_grad_(False)
            parameter.grad = None
        self.train(mode)

    def blending(self, original: nn.Module) -> Callable[[float], None]:
        """Return a function of α that sets the tower to α · its current weights + (1 − α) · the original ones,
        exactly at 0 and 1 (WiSE-FT, Wortsman et al. 2022). An adapter is added to the original weights, so it is
        scaled by α instead. Integer tensors, such as counters, are unchanged. `original`: the tower before
        tuning."""
        if self.tuning != "full":
            return self._scale_adapters
        originals = dict(_named_tensors(original))
        tensors = [pair for pair in _named_tensors(self.tower) if pair[1].is_floating_point()]
        present = [tensor.detach().clone() for _, tensor in tensors]

        def blend(alpha: float) -> None:
            with torch.no_grad():
                for (name, tensor), tuned in zip(tensors, present, strict=True):
                    tensor.copy_(torch.lerp(originals[name].to(tensor), tuned, alpha))

        return blend

    def _scale_adapters(self, alpha: float) -> None:
        from peft.tuners.lora import LoraLayer

        for part in self.tower.modules():
            if isinstance(part, LoraLayer):
                for adapter in part.lora_A:
                    part.set_scale(adapter, alpha)


def merge_adapters(module: nn.Module) -> None:
    """Merge every adapter into the weights that it adapts, in place, which leaves the plain tower."""
    from peft.tuners.tuners_utils import BaseTunerLayer

    for name, part in list(module.named_children()):
        if isinstance(part, BaseTunerLayer):
            part.merge()
            setattr(module, name, part.get_base_layer())
        else:
            merge_adapters(part)


def structure_of(module: nn.Module, *, share: bool) -> nn.Module:
    """Return a copy of a module whose parts may be replaced. `share`: share the weights with the copy. If the
    default device is "meta", the copy's weights have no data."""
    memo: dict[int, Tensor] = {}
    for _, tensor in _named_tensors(module):
        if torch.get_default_device().type == "meta":
            empty = torch.empty_like(tensor, device="meta")
            memo[id(tensor)] = nn.Parameter(empty) if isinstance(tensor, nn.Parameter) else empty
        elif share:
            memo[id(tensor)] = tensor
    return copy.deepcopy(module, memo)


def _named_tensors(module: nn.Module) -> Iterator[tuple[str, Tensor]]:
    return chain(module.named_parameters(), module.named_buffers())


def _leave_out_shared(
    module: nn.Module, state: dict[str, Any], prefix: str, metadata: dict[str, Any]
) -> None:
    assert isinstance(module, TunedTower)
    for name in module.shared:
        state.pop(prefix + name, None)


def _keep_shared(module: nn.Module, state: dict[str, Any], prefix: str, *_: Any) -> None:
    """Add to a state that is being loaded the shared tensors that it leaves out, as the module has them."""
    assert isinstance(module, TunedTower)
    present = {f"tower.{name}": tensor for name, tensor in module.tower.state_dict(keep_vars=True).items()}
    state |= {prefix + name: tensor for name, tensor in present.items() if name in module.shared}


def _add_adapters(tower: nn.Module, config: TowersConfig, where: str) -> None:
    """Add an adapter to every linear layer except those in PyTorch's attention, which uses their weights directly."""
    from peft import LoraConfig, inject_adapter_in_model

    modules = list(tower.named_modules())
    attentions = tuple(f"{name}." for name, part in modules if isinstance(part, nn.MultiheadAttention))
    linear = [name for name, part in modules if isinstance(part, nn.Linear)]
    layers = [name for name in linear if not name.startswith(attentions)]
    if not layers:
        problem = "has no linear layer that an adapter could be added to"
        raise InputError.at(where, problem, "linear layers", "train it in full, or leave it frozen")
    alpha: Any = config.lora_alpha  # peft annotates int; it only divides by the rank
    dropout = config.lora_dropout
    settings = LoraConfig(r=config.lora_rank, lora_alpha=alpha, lora_dropout=dropout, target_modules=layers)
    inject_adapter_in_model(settings, tower)
