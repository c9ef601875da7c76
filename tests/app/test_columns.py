"""The user's columns in the app: filter chips, the opened sample, values that look like markup."""

import numpy as np
import pyarrow.parquet as pq
import pytest

import coder_core
from coder_core.export import main as export

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


def test_tables_show_and_sort_by_columns(root, opened):
    app = opened(root, "retrieval", slice='brand == "Acme"')
    [key] = [key for key in app.keys("multiselect") if key.endswith("-columns")]
    [rows] = app.change(**{key: ["unit price", "listed"]}).rows("unit price")
    found = {row["listed"] for row in rows}
    assert found <= {f"2026-{1 + n % 12:02}-15" for n in range(0, COUNT, 3)}
    assert {float(row["unit price"]) for row in rows} <= {n / 4 for n in range(0, COUNT, 3)}


@pytest.mark.parametrize(
    ("column", "kind"), [("brand", "legend"), ("tags", "legend"), ("unit price", "axis"), ("listed", "axis")]
)
def test_the_map_is_coloured_by_columns(column, kind, root, opened):
    [shown] = opened(root, "joint", map="PCA", colour=column).maps()
    legend = shown["legend"]
    if kind == "axis":
        assert legend["title"] == column
        assert ("2026-" in legend["ticks"][0][1]) == (column == "listed")
    elif column == "brand":
        assert {"Acme", "<b>Bolt</b>", "**Kite**"} <= {*legend["names"]}
    else:
        assert {"sale", "sale, new"} <= {*legend["names"]}


def test_exported_vectors_have_the_columns(root, tmp_path):
    assert export([str(root / "shop"), "--split=dev", "--to", "parquet", str(tmp_path / "vectors")]) == 0
    table = pq.read_table(tmp_path / "vectors" / "captions.parquet").to_pylist()
    assert [row["brand"] for row in table] == BRANDS[np.arange(COUNT) % 3].tolist()
    assert table[4]["tags"] == ["sale", "new"]
    assert table[4]["unit price"] == 1.0
