"""The columns of tables, as columns.toml describes them."""

import tomllib
from pathlib import Path

from app.components.table import Column

_TABLES = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))


def columns_of(table: str) -> dict[str, Column]:
    """The columns of one table: name in its frame → label, format, term of the glossary and suffix."""
    return {name: Column(*fields) for name, fields in _TABLES[table].items()}
