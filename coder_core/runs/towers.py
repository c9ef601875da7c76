"""The towers that embedded a run, loaded again to embed new texts and pictures; nothing is downloaded."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from coder_core.console.documents import check_values
from coder_core.console.faults import Fault, InputError
from coder_core.towers.dual_encoder import DualEncoder
from coder_core.towers.own import ALLOWED, OwnTowers, is_allowed
from coder_core.towers.towers import OWN, PLAIN_PROMPT, TRANSFORMERS, Towers

KEYS = ("kind", "model", "tower", "revision", "fingerprint", "prompt")


def load_towers(about: Mapping[str, Any], run: str) -> Towers:
    """Load the towers a run notes, on the CPU.

    Towers of a user's own code are imported only where $CODER_TOWERS names them: a run may be a stranger's.

    Args:
        about: the document `towers` of an analysis.
        run: its name, for messages.

    Raises:
        InputError: they are not on this machine, are others now, or may not be imported.
    """
    place = f"the towers of run {run}"
    check_values(about, dict.fromkeys(KEYS, str), place)
    prompt, expected = str(about.get("prompt", PLAIN_PROMPT)), str(about.get("fingerprint", ""))
    if about.get("kind") == TRANSFORMERS and expected:
        model, revision = str(about.get("model", "")), str(about.get("revision", ""))
        return DualEncoder(model, revision=revision, prompt=prompt, expected=expected, place=f"{place}, {model!r:.200}")
    if about.get("kind") == OWN:
        name = str(about.get("tower", ""))
        if not is_allowed(name):
            fix = f"if you trust that code, set {ALLOWED}={name} and start again"
            raise InputError(
                Fault(place, f"are code of its maker, {name!r:.200}, and are not imported by themselves", fix=fix)
            )
        return OwnTowers(name, prompt=prompt, expected=expected)
    raise InputError(Fault(place, f"are of the kind {about.get('kind')!r:.80}", f"{TRANSFORMERS} or {OWN}"))
