"""The map of a joint space, drawn with WebGL: up to two aligned maps of a million points."""

from pathlib import Path

LIBRARY = Path(__file__).with_name("bundle") / "regl-scatterplot.js"
