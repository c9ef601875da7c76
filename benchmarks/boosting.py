"""The cost that Deep Boosting Learning with a moving average as teacher adds to a step, at two sizes.

Small is preset flickr8k-boosted beside flickr8k-baseline, on regions of 128 numbers. Large is the model of f30k-bigru
on regions of 2048 numbers, under the triplet loss. The teacher adds a forward pass without gradient.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from benchmarks.flickr_sized import write_folder
from benchmarks.timing import Line, at_most, in_turn, milliseconds
from benchmarks.training import configuration, on, stepper
from coder_core.config.presets import PRESETS
from coder_core.config.schema import Config
from coder_core.training.prepare import prepare

BAR = 1.25
SMALL_FEATURES = 128  # numbers a region, as the preset was chosen for


def configurations(folder: Path, name: str) -> tuple[Config, Config]:
    """Without and with boosting, on `folder`."""
    plain, boosted = (PRESETS[f"flickr8k-{kind}"].config for kind in ("baseline", "boosted"))
    if name == "small":
        data = replace(plain.data, data=str(folder), word_vectors="random")
        return replace(plain, data=data), replace(boosted, data=data)
    large = replace(configuration(folder, 0), objective=plain.objective)
    return large, replace(large, boosting=boosted.boosting)


def lines(folder: Path, rounds: int, warm_up: int = 2) -> list[Line]:
    """A boosted step ÷ a plain one. `folder` holds regions of 2048 numbers."""
    small = folder / "small"
    small.mkdir(exist_ok=True)
    write_folder(small, features=SMALL_FEATURES)
    made = []
    for name, place, several in (("small", small, 4 * rounds), ("large", folder, rounds)):
        plain, boosted = configurations(place, name)
        prepared = prepare(plain)
        batches = [
            prepared.batches(turn) for turn in range(min(several + warm_up, prepared.batches.per_epoch))
        ]
        steps = {"plain": stepper(prepared, plain), "boosted": stepper(prepare(boosted), boosted)}

        taken = in_turn({kind: on(step, batches) for kind, step in steps.items()}, several, warm_up)
        what = f"boosted step ÷ plain, {prepared.train.feature_size} numbers a region, D = {plain.model.dimension}"
        note = f"plain {milliseconds(taken['plain']):.0f} ms"
        made.append(at_most(what, BAR, taken["boosted"], taken["plain"], note))
    return made
