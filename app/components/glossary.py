"""Terms a newcomer needs, explained in glossary.toml; used as tooltips."""

import tomllib
from pathlib import Path

TERMS: dict[str, str] = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))


def tip(term: str) -> str:
    """The explanation of a term.

    Raises:
        KeyError: the glossary does not have it.
    """
    return TERMS[term]
