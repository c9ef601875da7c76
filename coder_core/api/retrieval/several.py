"""Several right answers: metrics by group and by equal texts, and why a result counts as right. Needs no torch."""

from typing import NamedTuple

import numpy as np

from coder_core.api.run import Run
from coder_core.api.sides import Direction
from coder_core.evaluation.relevance import share_texts
from coder_core.runs.derived.widened import read_widened

MANY = 0.01  # share of the captions from which equal texts are reported


class SharedAnswers(NamedTuple):
    """How often one answer is not the only right one."""

    groups: int  # groups of more than one image; 0 without groups
    texts: int  # captions whose text an image of another group has too, if they are more than 1%; else 0


def shared_answers(run: Run, split: str) -> SharedAnswers:
    """Count the groups of several images and the captions that repeat across groups; none in a search log, where judges
    decide."""
    analysis = run.analysis(split)
    if analysis.judged is not None:
        return SharedAnswers(0, 0)
    owner = np.asarray(analysis.image_of_text)
    groups = 0
    if analysis.image_groups is not None:
        _, sizes = np.unique(analysis.image_groups, return_counts=True)
        groups = int((sizes > 1).sum())
        owner = np.asarray(analysis.image_groups)[owner]
    shared = int(share_texts(analysis.captions, owner).sum())
    return SharedAnswers(groups, shared if shared > MANY * analysis.n_texts else 0)


def several_metrics(run: Run, split: str) -> dict[str, dict[str, float]]:
    """Return "group", "equal texts" or both → the metrics that `evaluate` stored. InputError: a result is damaged."""
    return read_widened(run.path, split, run.analysis(split))


def also_right(run: Run, split: str, direction: Direction, query: int) -> dict[int, str]:
    """Return candidate → "same group" or "same text" for the candidates of a query, other than its own, that show the
    same thing or share its text: "same text" is a caption equal to one of the image's own, or an image with a caption
    equal to the query. Empty for a search log."""
    analysis = run.analysis(split)
    if analysis.judged is not None:
        return {}

    owner = np.asarray(analysis.image_of_text)
    captions = analysis.captions
    own_images = np.array([owner[query] if direction == "t2i" else query])
    own_captions = [query] if direction == "t2i" else np.flatnonzero(owner == query).tolist()
    own_texts = {captions[row].strip() for row in own_captions}
    alike = np.array([row for row, text in enumerate(captions) if text.strip() in own_texts], np.int64)
    found = dict.fromkeys((owner[alike] if direction == "t2i" else alike).tolist(), "same text")
    groups = analysis.image_groups
    if groups is not None:
        images = np.flatnonzero(groups == groups[own_images[0]])
        sisters = images if direction == "t2i" else np.flatnonzero(np.isin(owner, images))
        found |= dict.fromkeys(sisters.tolist(), "same group")

    own = own_images if direction == "t2i" else np.flatnonzero(owner == query)
    return {candidate: why for candidate, why in found.items() if candidate not in own}
