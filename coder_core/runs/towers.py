"""The towers behind a run, loaded again for new texts and pictures; nothing is downloaded."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from coder_core.console.faults import InputError
from coder_core.console.plain_files import check_values, read_plain
from coder_core.data.captioned.positions import names_digest, open_packed
from coder_core.files.sealed import check_header
from coder_core.model.towers.checkpoints import ModelChoice
from coder_core.model.towers.dual_encoder import PLAIN_PROMPT, DualEncoder, Towers
from coder_core.model.towers.own import OwnTowers, check_allowed
from coder_core.model.towers.pretrained import OWN, TRANSFORMERS
from coder_core.model.towers.regions import RegionTower, own_regions, transformers_regions
from coder_core.runs.analysis.tables import DOCUMENT_REGIONS, PICTURE_POSITIONS

KEYS = ("kind", "model", "base", "tower", "revision", "fingerprint", "prompt")
NUMBERS = ("grid", "rows", "columns", "size")


def load_towers(about: Mapping[str, Any], run: str) -> Towers:
    """Load the towers of the document `towers` of an analysis, on the CPU; `run` is its name, for messages. Custom
    towers are imported only if $CODER_TOWERS names them, because a run may come from a stranger. InputError: the towers
    are missing on this machine, have changed, or may not be imported."""
    choice = _read_notes(about, f"the towers of run {run}")
    prompt = str(about.get("prompt", PLAIN_PROMPT))
    if about["kind"] == OWN:
        return OwnTowers(choice.name, prompt=prompt, expected=choice.expected)
    return DualEncoder(choice, prompt=prompt)


def load_region_tower(about: Mapping[str, Any], run: str) -> RegionTower:
    """Load the picture tower of the document `regions` of an analysis, on the CPU."""
    place = f"the tower of run {run}"
    check_values(about, dict.fromkeys(NUMBERS, int), place, least=0)
    choice = _read_notes(about, place)
    grid = int(about.get("grid", 0))
    if about["kind"] == OWN:
        tower = own_regions(choice.name, grid=grid, expected=choice.expected)
    else:
        tower = transformers_regions(choice, grid=grid)
    different = [key for key in NUMBERS if tower.about[key] != about.get(key)]
    if different:
        values = ", ".join(f"{key} {tower.about[key]}" for key in different)
        expected = ", ".join(f"{key} {about.get(key)}" for key in different)
        raise InputError.at(place, f"now gives different regions: {values}", expected)
    return tower


def _read_notes(about: Mapping[str, Any], place: str) -> ModelChoice:
    """Return recorded towers as a choice of the same model. InputError: a user's own towers are not allowed."""
    check_values(about, dict.fromkeys(KEYS, str), place)
    expected = str(about.get("fingerprint", ""))
    if about.get("kind") == TRANSFORMERS and expected:
        name = str(about.get("model", ""))
        return ModelChoice(
            name,
            revision=str(about.get("revision", "")),
            base=str(about.get("base", "")),
            source=f"{place}, {name!r:.200}",
            expected=expected,
            fix="restore the model that it was made with",
        )

    if about.get("kind") != OWN:
        raise InputError.at(place, f"unknown kind {about.get('kind')!r:.80}", f"{TRANSFORMERS} or {OWN}")

    name = str(about.get("tower", ""))
    check_allowed(name, place)
    return ModelChoice(name, source=place, expected=expected)


def noted_tower(features: str) -> dict[str, Any]:
    """Return {"regions": about} of the tower that `coder_core.features` recorded beside a file; {} for other files."""
    tower = _beside(features).get("tower")
    return {DOCUMENT_REGIONS: tower} if isinstance(tower, dict) else {}


def noted_pictures(features: str, names: Sequence[str]) -> dict[str, Any]:
    """Return the pictures of a features file of `coder_core.features` as arguments of `write_analysis`: picture_folder,
    or packed and picture_positions. {} for other files, and if the names have changed. `features`: the file
    {split}_ims.npy. `names`: n image names of the split."""
    file = Path(features)
    split = file.name.removesuffix("_ims.npy")
    pictures = _beside(features).get("pictures")
    entry = pictures.get(split) if isinstance(pictures, dict) else None
    if not isinstance(entry, dict) or entry.get("names") != names_digest(names):
        return {}

    if isinstance(entry.get("packed"), dict):
        try:
            packed = file.with_name(f"{split}_positions.npy")
            check_header(packed)
            positions = np.load(packed, allow_pickle=False)
            open_packed(entry["packed"], positions, names, str(file.with_name("tower.json")))
        except (OSError, ValueError, EOFError, InputError):
            return {}
        return {"packed": entry["packed"], PICTURE_POSITIONS: positions}

    folder = entry.get("folder")
    return {"picture_folder": folder} if isinstance(folder, str) and folder and Path(folder).is_dir() else {}


def _beside(features: str) -> dict[str, Any]:
    """Read the description that `coder_core.features` wrote beside a features file; {} for other files."""
    try:
        description = json.loads(read_plain((Path(features).parent / "tower.json").resolve()))
    except (OSError, ValueError, RecursionError, InputError):
        return {}
    return description if isinstance(description, dict) else {}
