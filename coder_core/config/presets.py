"""Named configurations. Those of f30k and coco have the values in the CODER paper."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from coder_core.config.schema import Config, with_settings
from coder_core.console.faults import InputError


@dataclass(frozen=True)
class Preset:
    """A configuration and one sentence on its purpose."""

    config: Config
    about: str


ZERO_SHOT = "clip-zero-shot"
DEMO_RUNS = ("demo-baseline", "coder-demo", "demo-weights")


_FILE = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))


def _settings(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return key → value of an entry of presets.toml, on top of those of the sets it names."""
    values = dict[str, Any]()
    for name in entry.get("with", ()):
        values |= _settings(_FILE["settings"][name])
    return values | {key: value for key, value in entry.items() if key not in ("about", "with")}


PRESETS = {
    name: Preset(with_settings(Config(), _settings(entry)), entry["about"])
    for name, entry in _FILE["presets"].items()
}
_TUNED = {
    ("demo", "btr-hardest"): "demo-baseline",
    ("flickr8k", "btr-hardest"): "flickr8k-baseline",
    ("flickr8k", "npairs-hinge"): "flickr8k-npairs",
}


def tuned_for(preset: str, loss: str) -> str:
    """Return the preset of the same data and budget whose other values were chosen for this loss, or the preset itself."""
    return _TUNED.get((preset.removeprefix("coder-"), loss), preset)


def find_preset(name: str) -> Config:
    """Return the configuration of a preset (InputError: there is no such preset)."""
    if name == ZERO_SHOT:
        fix = f"coder-lab embed pictures DATA --model MODEL --name {ZERO_SHOT} evaluates it as it is"
        raise InputError.at(f"preset {name}", "is a model that is not trained", "a preset that trains", fix)
    if name not in PRESETS:
        raise InputError.at(f"preset {name[:60]!r}", "is not known", f"one of {', '.join(PRESETS)}")
    return PRESETS[name].config
