"""The index of a map with many points, which a worker fills after they are drawn: it finds each point below the pointer."""

import numpy as np
import pytest

from tests.app import test_map_browser
from tests.app.test_map_browser import SPACE, write_many

IMAGES = 33_000  # with one caption each; up to 65,536 points are indexed before they are drawn
ASKED = 200

# What the library's index finds in small squares around some places, for each of them
FOUND = f"""(asked) => {{
  const {{ plot, x, y }} = {SPACE}.panels[0]
  const index = plot.get("spatialIndex")
  const count = x.length
  const points = new Uint32Array(index, 8, count)
  const places = new Float32Array(index, 8 * Math.ceil(1 + count / 2))
  const within = (right, up, [lowX, lowY, highX, highY]) => right >= lowX && right <= highX && up >= lowY && up <= highY
  const range = (lowX, lowY, highX, highY) => {{
    const found = []
    const parts = [[0, count - 1, 0]]
    while (parts.length) {{
      const [first, last, axis] = parts.pop()
      const inside = (i) => within(places[2 * i], places[2 * i + 1], [lowX, lowY, highX, highY])
      if (last - first <= 64) {{
        for (let i = first; i <= last; i++) if (inside(i)) found.push(points[i])
        continue
      }}
      const middle = (first + last) >> 1
      if (inside(middle)) found.push(points[middle])
      if ((axis ? lowY : lowX) <= places[2 * middle + axis]) parts.push([first, middle - 1, 1 - axis])
      if ((axis ? highY : highX) >= places[2 * middle + axis]) parts.push([middle + 1, last, 1 - axis])
    }}
    return found.sort((a, b) => a - b)
  }}
  const near = (point) => [x[point] - 0.01, y[point] - 0.01, x[point] + 0.01, y[point] + 0.01]
  const every = (square) => [...x.keys()].filter((i) => within(x[i], y[i], square))
  return asked.map((point) => [range(...near(point)), every(near(point))])
}}"""


@pytest.fixture
def visit(map_visit):
    return map_visit


def test_many_points_are_drawn_first_and_indexed_by_a_worker(visit, move, tmp_path, monkeypatch):
    monkeypatch.setattr(test_map_browser, "MANY", IMAGES)
    write_many(tmp_path / "runs")
    move(tmp_path)
    visit.open("joint?run=many&map=PCA", charts=False)
    visit.page.wait_for_selector(".cl-map-stage[data-index=filled]")
    asked = np.random.default_rng(0).choice(2 * IMAGES, ASKED, replace=False).tolist()
    for point, (found, every) in zip(asked, visit.page.evaluate(FOUND, asked), strict=True):
        assert point in found
        assert found == every
    x, y = visit.page.evaluate(f"{SPACE}.panels[0].place({asked[0]})")
    box = visit.page.locator(".cl-map-stage").bounding_box()
    visit.page.mouse.move(box["x"] + x, box["y"] + y)
    visit.page.locator(".cl-map-tip").get_by_text("number").wait_for()
