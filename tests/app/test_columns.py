"""The user's columns in the app: filter chips, the opened sample, values that look like markup."""

import numpy as np
import pytest

import coder_core

COUNT = 120
BRANDS = np.array(["Acme", "<b>Bolt</b>", "**Kite**"])


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """A run of a catalog with brands, prices, dates and tags."""
    folder = tmp_path_factory.mktemp("catalog")
    rng = np.random.default_rng(0)
    images = rng.normal(size=(COUNT, 16))
    coder_core.log_split(
        folder / "shop",
        "dev",
        images,
        images + rng.normal(size=(COUNT, 16)),
        captions=[f"a shirt of model {n}" for n in range(COUNT)],
        columns={
            "brand": BRANDS[np.arange(COUNT) % 3],
            "unit price": np.arange(COUNT) / 4,
            "listed": [f"2026-{1 + n % 12:02}-15" for n in range(COUNT)],
            "tags": [["sale"] if n % 2 else ["sale", "new"] for n in range(COUNT)],
            "note": [f"a longer note <script>{n}</script>" for n in range(COUNT)],
        },
    )
    return folder


def chips(app):
    return [block.proto.popover.label for block in app.get("popover")]


def test_chips_say_what_the_slice_keeps(root, opened):
    expression = 'brand in ("Acme", "<b>Bolt</b>") and "unit price" >= 20 and "new" in tags'
    app = opened(root, "slices", slice=expression)
    labels = [label for label in chips(app) if label not in ("Saved views", "Save figures")]
    assert labels[-5:-2] == [
        "brand\\: Acme, \\<b\\>Bolt\\</b\\>",
        "unit price ≥ 20",
        "tags\\: new",
    ]  # no Markdown
    inside = (np.arange(COUNT) % 3 < 2) & (np.arange(COUNT) / 4 >= 20) & (np.arange(COUNT) % 2 == 0)
    assert f"{inside.sum()} of {COUNT} captions on every page" in app.texts()


def test_the_opened_sample_lists_its_values(root, opened):
    shown = opened(root, "retrieval", sample="caption-4").texts()
    assert "<dt>brand</dt><dd>&lt;b&gt;Bolt&lt;/b&gt;</dd>" in shown
    assert "<dt>unit price</dt><dd>1</dd>" in shown
    assert "<dt>listed</dt><dd>2026-05-15</dd>" in shown
    assert "<dt>tags</dt><dd>sale, new</dd>" in shown
    assert "<script>" not in shown
