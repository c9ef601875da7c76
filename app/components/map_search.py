"""The search on a map, also while a word is typed."""

import numpy as np

from app.ask import RunSummary, ask, joint_space


def points_of_split(run: RunSummary, split: str, query: str) -> np.ndarray:
    """Return the points of a split that match a search, ascending, images first."""
    return ask(joint_space.searched_texts, run, split).points(query)
