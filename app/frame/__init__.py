"""The frame around pages: navigation, sidebar, saved views, the server and its guard. `PAGES`: from pages.toml."""

import tomllib
from pathlib import Path
from typing import Any

PAGES: dict[str, dict[str, Any]] = tomllib.loads(Path(__file__).with_name("pages.toml").read_text("utf-8"))
