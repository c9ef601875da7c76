"""What docs/app.md says a page has: the words in italics at the beginning of its points."""

from __future__ import annotations

import re

from tests.support.pages import PROJECT

_SECTION = re.compile(r"^## (?P<name>[^\n—]+?) —.*?$(?P<text>.*?)(?=^## )", re.MULTILINE | re.DOTALL)
_POINT = re.compile(r"^- \*([^*]+)\*", re.MULTILINE)


def promises(page: str) -> list[str]:
    """The names of sections and controls that the document lists for a page, "joint" for example, in lower case."""
    text = (PROJECT / "docs" / "app.md").read_text(encoding="utf-8")
    sections = {match["name"].lower().split()[0]: match["text"] for match in _SECTION.finditer(text)}
    return [
        name.lower()
        for point in _POINT.findall(sections[page])
        for name in " ".join(point.split()).split(" / ")
    ]
