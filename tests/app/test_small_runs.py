"""Pages about splits of one, two or five images, and about runs that answer every query first."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.pages import Opened, texts


@pytest.mark.parametrize("page", ["overview"])
def test_every_page_opens(small_root: Path, opened: Opened, page: str) -> None:
    app = opened(small_root, page, run="demo-baseline", versus="demo", curves=["demo", "concepts"])
    assert "cannot be shown" not in texts(app)
    assert "nan" not in texts(app)
