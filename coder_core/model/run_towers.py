"""The towers of a run: load them by its configuration, turn them into encoders, describe them in its folder."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeVar

import torch
from torch import Tensor, nn

from coder_core.config.model import TowersConfig, Tuning
from coder_core.config.schema import Config
from coder_core.console.faults import Fault, InputError
from coder_core.console.plain_files import check_values
from coder_core.model.towers.checkpoints import ModelChoice
from coder_core.model.towers.halves import ImageHalf, TextHalf, TowerChoice, load_halves, weights_fingerprint
from coder_core.model.towers.own import check_allowed
from coder_core.model.towers.pretrained import OWN, PROBE
from coder_core.model.towers.tuning import TunedTower, structure_of

FILE = "towers.json"  # of a run folder
SIDES = ("image", "text")
KEYS = ("kind", "model", "base", "tower", "revision", "fingerprint", "weights")
Half = TypeVar("Half", ImageHalf, TextHalf)


@dataclass(frozen=True)
class RunTowers:
    """The towers of a run, before training."""

    config: TowersConfig  # how they are tuned
    # image, text: None for a side without a tower
    image: ImageHalf | None
    text: TextHalf | None

    def document(self) -> dict[str, Any]:
        """Return the description stored in the run: side → document."""
        sides = zip(SIDES, (self.image, self.text), strict=True)
        return {name: half.about for name, half in sides if half is not None}

    @property
    def notes(self) -> list[Fault]:
        """What was guessed or left out when they were loaded."""
        halves = [half for half in (self.image, self.text) if half is not None]
        return list(dict.fromkeys(note for half in halves for note in half.notes))

    def read_alike(self) -> tuple[object, ...]:
        """Return a key that is equal for towers with the same inputs: same models and local features per picture."""
        sides = (self.image, self.text)
        names = tuple(half.about["fingerprint"] if half is not None else "" for half in sides)
        return *names, self.image.local_features if self.image is not None else 0

    def encoder(self, side: Literal["image", "text"], dimension: int) -> TunedTower | None:
        """Return a side's encoder with a new layer on top, a copy that shares weights that are not trained; None without
        a tower. Images: (B, 3, H, W), (B,) -> (B, L, D). Texts: (B, T) ids, (B,) -> (B, T, D)."""
        half: ImageHalf | TextHalf | None = self.image if side == "image" else self.text
        tuning = self.config.image_tuning if side == "image" else self.config.text_tuning
        if half is None:
            return None
        linear: nn.Module = nn.Identity()
        if self.config.projection == "linear":
            linear = nn.Linear(half.size, dimension)
            nn.init.xavier_uniform_(linear.weight)
            nn.init.zeros_(linear.bias)
        tower = structure_of(half.module, share=tuning != "full")
        encoder = TunedTower(tower, linear, tuning, self.config, f"--{side}-tower")
        if torch.get_default_device().type != "meta":
            encoder.freeze_unused(*_sample(half))
        return encoder


def _sample(half: ImageHalf | TextHalf) -> tuple[Tensor, Tensor]:
    if isinstance(half, ImageHalf):
        pixels = torch.from_numpy(half.prepare(PROBE))[None]
        return pixels, half.lengths(pixels)
    ids = half.tokenise(["a"])[0]
    return torch.tensor([ids]), torch.tensor([len(ids)])


def open_towers(
    config: Config, noted: Mapping[str, Any] | None = None, moved: Sequence[str] = (), run: str = ""
) -> RunTowers | None:
    """Load the towers of a configuration; None if it has none. InputError: a tower is not on this machine, unsafe, not
    the recorded one, or not an encoder of that kind.

    For an existing run, `noted` is its record of the towers, which they must match. The sides in `moved` ("image",
    "text") are loaded from where the configuration names them now. A user's own towers are imported only if allowed.
    """
    towers = config.towers
    projected = config.towers.projection == "none"
    poolings = (config.model.image_pooling, config.model.text_pooling)
    choices: dict[str, TowerChoice] = {}
    for side, name, pooling in zip(SIDES, (towers.image_tower, towers.text_tower), poolings, strict=True):
        if name:
            where = f"--{side}-tower {name}"
            advice = "restore the model the run was trained with, or name its folder"
            fix = f"{advice}: --resume RUN --{side}-tower FOLDER"
            model = ModelChoice(name, towers.revision, towers.base, where, fix=fix)
            if noted is not None:
                model = _as_noted(model, side, noted, side in moved, run)
            choices[side] = TowerChoice(model, pooling == "tower", projected)

    if not choices:
        return None

    state = torch.get_rng_state()
    torch.manual_seed(config.training.seed)  # a user's own tower may have random initial weights
    try:
        image, text = load_halves(choices.get("image"), choices.get("text"))
    finally:
        torch.set_rng_state(state)
    if image is not None:
        image = _with_weights(image, noted, "image", towers.image_tuning)
    if text is not None:
        text = _with_weights(text, noted, "text", towers.text_tuning)

    return RunTowers(towers, image, text)


def _as_noted(choice: ModelChoice, side: str, noted: Mapping[str, Any], moved: bool, run: str) -> ModelChoice:
    """Return the model that a run recorded, but under the configuration's name if it has moved."""
    entry = noted.get(side)
    where = f"the {side} tower of run {run}" if run else choice.where
    if not isinstance(entry, dict):
        raise InputError.at(where, "is not recorded in the run's folder", FILE, "restore that file")

    check_values(entry, dict.fromkeys(KEYS, str), where)
    is_own = entry.get("kind") == OWN
    if not moved:
        choice = replace(
            choice,
            name=str(entry.get("tower" if is_own else "model", "")),
            revision=str(entry.get("revision", "")),
            base=str(entry.get("base", "")),
        )
        choice = replace(choice, source=f"--{side}-tower {choice.name}")

    if is_own or TowerChoice(choice, False, False).is_own:
        check_allowed(choice.name, where)

    return replace(choice, expected=str(entry.get("fingerprint", "")))


def _with_weights(half: Half, noted: Mapping[str, Any] | None, side: str, tuning: Tuning) -> Half:
    """Add the fingerprint of its initial weights to the description of a user's own tower. InputError: the tower now has
    other initial weights, and no save contains the original ones."""
    if half.about["kind"] != OWN:
        return half
    expected = str(noted[side].get("weights", "")) if noted is not None else ""
    is_saved = tuning == "full" and noted is not None
    weights = expected if is_saved else weights_fingerprint(half.module)
    if expected and weights != expected:
        where = f"--{side}-tower {half.about['tower']}"
        fix = "make its function load the weights it had then, or create them from a fixed seed"
        raise InputError.at(where, f"now gives different weights, {weights[:12]}", expected[:12], fix)
    return replace(half, about=half.about | {"weights": weights})


def with_size_of_towers(config: Config, towers: RunTowers | None) -> tuple[Config, list[Fault]]:
    """Return the configuration, with the towers' size as its dimension if nothing projects them, and notes: on the towers,
    and if that changes it. InputError: the two towers' spaces have different sizes."""
    if towers is None:
        return config, []
    if config.towers.projection == "linear":
        return config, towers.notes
    sizes = {half.size for half in (towers.image, towers.text) if half is not None}
    if len(sizes) > 1:
        problem = f"is none, but the towers' spaces differ in size: {' and '.join(map(str, sorted(sizes)))}"
        raise InputError.at("--projection", problem, "one size for both", "give --projection linear")
    size = sizes.pop()
    if size == config.model.dimension:
        return config, towers.notes
    note = Fault("--dimension", f"is {size}, the size of the towers' own space", severity="note")
    return replace(config, model=replace(config.model, dimension=size)), [*towers.notes, note]
