"""The halves of a user's own model that a run trains on; docs/training.md, Towers, shows one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from coder_core.console.faults import Fault, InputError
from coder_core.model.towers.halves import ImageHalf, Pixels, TextHalf, Wanted, measured, restore
from coder_core.model.towers.own import load_own
from coder_core.model.towers.pretrained import OWN

EXAMPLE = "docs/training.md, Towers, shows one"


class OwnModule(nn.Module):
    """A user's encoder, its output as (B, L, F), or (B, 1, F) where it pools.

    Args:
        module: called with the samples, and with their lengths where `lengths`.
        place: who names it, for messages.
    """

    def __init__(self, module: nn.Module, place: str, *, lengths: bool = False) -> None:
        super().__init__()
        self.module, self.place, self.reads_lengths = module, place, lengths

    def forward(self, samples: Tensor, lengths: Tensor) -> Tensor:
        features: Tensor = self.module(samples, lengths) if self.reads_lengths else self.module(samples)
        if features.ndim not in (2, 3) or len(features) != len(samples):
            problem = f"gives shape {tuple(features.shape)} for {len(samples)} samples"
            raise InputError(Fault(self.place, problem, "(B, L, F) or (B, F)", "docs/training.md, Towers"))
        return features if features.ndim == 3 else features[:, None]


def _own(wanted: Wanted, attribute: str) -> tuple[Any, nn.Module, dict[str, Any]]:
    user, fingerprint = load_own(wanted.name, wanted.place, wanted.expected, restore(wanted))
    module = getattr(user, attribute, None)
    if not isinstance(module, nn.Module):
        problem = f"gives a {type(user).__name__} whose {attribute} is not a torch.nn.Module"
        raise InputError(Fault(wanted.place, problem, f"a module {attribute}", EXAMPLE))
    return user, module.eval(), {"kind": OWN, "tower": wanted.name, "fingerprint": fingerprint}


def own_image_half(wanted: Wanted) -> ImageHalf:
    """A picture encoder: attribute `image_tower` of the object, and its method `prepare`.

    Raises:
        InputError: as for `load_own`, or the object lacks one of them.
    """
    user, module, about = _own(wanted, "image_tower")
    prepare = getattr(user, "prepare", None)
    if not callable(prepare):
        expected = "prepare(picture), which gives an array of one shape"
        raise InputError(Fault(wanted.place, "has no method prepare", expected, EXAMPLE))
    return measured(about, OwnModule(module, wanted.place).eval(), Pixels(prepare))


def own_text_half(wanted: Wanted) -> TextHalf:
    """A text encoder: attribute `text_tower` of the object, and its method `tokenise`; errors as above."""
    user, module, about = _own(wanted, "text_tower")
    tokenise = getattr(user, "tokenise", None)
    if not callable(tokenise):
        expected = "tokenise(texts), which gives a list of ids a text"
        raise InputError(Fault(wanted.place, "has no method tokenise", expected, EXAMPLE))
    encoder = OwnModule(module, wanted.place, lengths=True).eval()
    ids = tokenise(["a"])[0]
    with torch.no_grad():
        size = encoder(torch.tensor([ids]), torch.tensor([len(ids)])).shape[-1]

    def as_lists(texts: Sequence[str]) -> list[list[int]]:
        return [[int(number) for number in numbers] for numbers in tokenise(list(texts))]

    def pieces(text: str) -> list[str]:
        return [str(number) for number in as_lists([text])[0]]

    words = int(getattr(user, "words", 0)) or 1
    return TextHalf(about, encoder, as_lists, words, int(size), lambda words: [], pieces)
