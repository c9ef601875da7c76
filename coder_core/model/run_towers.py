"""The towers of a run: found and loaded as its configuration says, made into encoders, described in its folder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from coder_core.config.schema import Config
from coder_core.config.towers import TowersConfig, Tuning
from coder_core.console.documents import check_values
from coder_core.console.faults import Fault, InputError
from coder_core.model.towers.halves import (
    ImageHalf,
    TextHalf,
    Wanted,
    load_image_half,
    load_model_of,
    load_text_half,
    weights_fingerprint,
)
from coder_core.model.towers.own import ALLOWED, NAME, is_allowed
from coder_core.model.towers.own_halves import own_image_half, own_text_half
from coder_core.model.towers.pretrained import OWN
from coder_core.model.towers.regions import PROBE
from coder_core.model.towers.tuning import LoraSettings, TunedTower, structure_of

FILE = "towers.json"  # of a run folder
SIDES = ("image", "text")
KEYS = ("kind", "model", "tower", "revision", "fingerprint", "weights")


@dataclass(frozen=True)
class RunTowers:
    """The towers of a run, as they were before it.

    Args:
        config: how they are tuned.
        image, text: a side that no tower reads is None.
    """

    config: TowersConfig
    image: ImageHalf | None
    text: TextHalf | None

    def document(self) -> dict[str, Any]:
        """Description stored in the run: side → document."""
        sides = zip(SIDES, (self.image, self.text), strict=True)
        return {name: half.about for name, half in sides if half is not None}

    def read_alike(self) -> tuple[object, ...]:
        """Equal for towers that read the same batches: the same models, and as many local features a picture."""
        sides = (self.image, self.text)
        names = tuple(half.about["fingerprint"] if half is not None else "" for half in sides)
        return *names, self.image.local_features if self.image is not None else 0

    def image_encoder(self, dimension: int, checkpointing: bool = False) -> TunedTower | None:
        """(B, 3, H, W), (B,) -> (B, L, D), with a new layer on top; a copy, but for what is not trained."""
        return self._encoder(self.image, self.config.image_tuning, dimension, checkpointing, "--image-tower")

    def text_encoder(self, dimension: int, checkpointing: bool = False) -> TunedTower | None:
        """(B, T) ids, (B,) -> (B, T, D), likewise."""
        return self._encoder(self.text, self.config.text_tuning, dimension, checkpointing, "--text-tower")

    def _encoder(
        self,
        half: ImageHalf | TextHalf | None,
        tuning: Tuning,
        dimension: int,
        checkpointing: bool,
        flag: str,
    ) -> TunedTower | None:
        if half is None:
            return None
        linear: nn.Module = nn.Identity()
        if self.config.projection == "linear":
            linear = nn.Linear(half.size, dimension)
            nn.init.xavier_uniform_(linear.weight)
            nn.init.zeros_(linear.bias)
        tower = structure_of(half.module, share=tuning != "full")
        lora = LoraSettings(self.config.lora_rank, self.config.lora_alpha, self.config.lora_dropout)
        encoder = TunedTower(tower, linear, tuning, lora, flag)
        if torch.get_default_device().type != "meta":
            encoder.freeze_unused(*_sample(half))
        if checkpointing:
            encoder.checkpoint_activations()
        return encoder


def _sample(half: ImageHalf | TextHalf) -> tuple[torch.Tensor, torch.Tensor]:
    if isinstance(half, ImageHalf):
        pixels = torch.from_numpy(half.prepare(PROBE))[None]
        return pixels, half.lengths(pixels)
    ids = half.tokenise(["a"])[0]
    return torch.tensor([ids]), torch.tensor([len(ids)])


def open_towers(
    config: Config, noted: Mapping[str, Any] | None = None, moved: Sequence[str] = (), run: str = ""
) -> RunTowers | None:
    """The towers of a configuration; None where it has none.

    Args:
        config: of the run.
        noted: what a run that began noted of its towers, which they must be.
        moved: sides whose tower the configuration names anew: "image", "text".
        run: its name, for messages; a run's own towers are imported only where a person allowed it.

    Raises:
        InputError: a tower is not here, unsafe, another than noted, or no encoder of that kind.
    """
    settings = config.towers
    if not settings.image_tower and not settings.text_tower:
        return None
    projected = settings.projection == "none"
    image_pools, text_pools = config.model.image_pooling == "tower", config.model.text_pooling == "tower"
    image_wanted = text_wanted = image = text = None
    if settings.image_tower:
        moves = "image" in moved
        image_wanted = _wanted("image", settings.image_tower, image_pools, projected, noted, moves, run)
    if settings.text_tower:
        moves = "text" in moved
        text_wanted = _wanted("text", settings.text_tower, text_pools, projected, noted, moves, run)
    state = torch.get_rng_state()
    torch.manual_seed(config.training.seed)  # a tower of a user's own may start from random weights
    try:
        whole = None
        if (
            image_wanted
            and text_wanted
            and image_wanted.name == text_wanted.name
            and not _is_own(image_wanted)
        ):
            whole = load_model_of(image_wanted)
        if image_wanted:
            own = _is_own(image_wanted)
            image = own_image_half(image_wanted) if own else load_image_half(image_wanted, whole)
        if text_wanted:
            text = own_text_half(text_wanted) if _is_own(text_wanted) else load_text_half(text_wanted, whole)
    finally:
        torch.set_rng_state(state)
    if image is not None:
        image = replace(image, about=image.about | _own_weights(image, noted, "image", settings.image_tuning))
    if text is not None:
        text = replace(text, about=text.about | _own_weights(text, noted, "text", settings.text_tuning))
    return RunTowers(settings, image, text)


def _is_own(wanted: Wanted) -> bool:
    return bool(NAME.fullmatch(wanted.name)) and not Path(wanted.name).is_dir()


def _wanted(
    side: str,
    name: str,
    pooled: bool,
    projected: bool,
    noted: Mapping[str, Any] | None,
    moved: bool,
    run: str,
) -> Wanted:
    place = f"--{side}-tower {name}"
    if noted is None:
        return Wanted(name, place, pooled, projected)
    about = noted.get(side)
    where = f"the {side} tower of run {run}" if run else place
    if not isinstance(about, dict):
        raise InputError(Fault(where, "is noted nowhere in the run's folder", FILE, "restore that file"))
    check_values(about, dict.fromkeys(KEYS, str), where)
    revision = "" if moved else str(about.get("revision", ""))
    if not moved:
        name = str(about.get("tower" if about.get("kind") == OWN else "model", ""))
        place = f"--{side}-tower {name}"
    if about.get("kind") == OWN and not is_allowed(name):
        problem = f"is code of its maker, {name!r:.200}, and is not imported by itself"
        fix = f"if you trust that code, set {ALLOWED}={name} and start again"
        raise InputError(Fault(where, problem, fix=fix))
    return Wanted(name, place, pooled, projected, revision, str(about.get("fingerprint", "")))


def _own_weights(
    half: ImageHalf | TextHalf, noted: Mapping[str, Any] | None, side: str, tuning: Tuning
) -> dict[str, str]:
    """The fingerprint of the weights with which a user's own tower began.

    Raises:
        InputError: it gives others now, and no save holds them.
    """
    if half.about["kind"] != OWN:
        return {}
    expected = str(noted[side].get("weights", "")) if noted is not None else ""
    if tuning == "full" and noted is not None:
        return {"weights": expected}
    weights = weights_fingerprint(half.module)
    if expected and weights != expected:
        place, fix = (
            f"--{side}-tower {half.about['tower']}",
            "let its function load or seed the weights it had then",
        )
        raise InputError(Fault(place, f"gives other weights now, {weights[:12]}", expected[:12], fix))
    return {"weights": weights}


def with_size_of_towers(config: Config, towers: RunTowers | None) -> tuple[Config, list[Fault]]:
    """The configuration with the towers' size as its dimension where nothing projects them, and a note on it.

    Raises:
        InputError: the two towers' spaces have different sizes.
    """
    if towers is None or config.towers.projection == "linear":
        return config, []
    sizes = {half.size for half in (towers.image, towers.text) if half is not None}
    if len(sizes) > 1:
        problem = f"is none, and the towers' spaces have {' and '.join(map(str, sorted(sizes)))} numbers"
        raise InputError(Fault("--projection", problem, "towers of one space", "give --projection linear"))
    size = sizes.pop()
    if size == config.model.dimension:
        return config, []
    note = Fault("--dimension", f"is {size}, the size of the towers' own space", severity="note")
    return replace(config, model=replace(config.model, dimension=size)), [note]
