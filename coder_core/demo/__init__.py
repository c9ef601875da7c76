"""The built-in data set: rendered scenes and captions from exact to vague, in the precomp layout."""

from coder_core.demo.making import DEMO_FOLDER, DRAWING, make_demo, vagueness

__all__ = ["DEMO_FOLDER", "DRAWING", "make_demo", "vagueness"]
