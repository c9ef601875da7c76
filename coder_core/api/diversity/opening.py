"""One anchor of a split, opened."""

from __future__ import annotations

import numpy as np

from coder_core.api.diversity import measure as measuring
from coder_core.api.diversity import table as maths
from coder_core.api.diversity.anchor import Anchor, Loss, negative_weights
from coder_core.api.diversity.measure import How
from coder_core.api.diversity.table import Array, Sides
from coder_core.api.sampling import Part


def open_anchor(s: Sides, number: int, part: Part, how: How, spreads: Array, loss: Loss, epsilon: float) -> Anchor:
    """Everything about one anchor.

    Args:
        s: the whole split. number: the anchor's row in it.
        part: what is looked at. how, spreads: from which its diversities come. loss, epsilon: μ, γ and ε to use.

    An anchor that a sample left out is compared with the sample's candidates, and its diversity is taken relative to
    the largest of the sample (at most 1).
    """
    rows = part.image_rows if how.modality == "image" else part.text_rows
    place = int(np.searchsorted(rows, number))
    position = place if place < len(rows) and rows[place] == number else -1
    draw = measuring.draw_of(part, how)
    candidates = measuring.negatives_of(part, how, position, draw)  # an image may stand there more than once
    own = s.candidate_images == s.anchor_images[number]
    candidates = candidates[~own[candidates]]
    similarities = s.row(number, candidates)
    positives = np.flatnonzero(own)
    spread = float(spreads[position]) if position >= 0 else measuring.spread_of(similarities, how)
    raw = maths.squash(spreads, epsilon)
    mine = float(maths.squash(np.array([spread]), epsilon)[0])
    batch = 0 if draw is None else int(draw.batch_of[max(position, 0)])
    largest = float(raw.max() if draw is None else raw[draw.batch_of == batch].max())
    diversity = min(mine / largest, 1.0)
    effective = loss.temperature * diversity
    return Anchor(
        modality=how.modality, number=number, candidates=candidates, similarities=similarities,
        positives=s.row(number, positives), positive_rows=positives, spread=spread,
        raw=mine, diversity=diversity, temperature=effective,
        plain=negative_weights(similarities, temperature=loss.temperature, gamma=loss.gamma),
        scaled=negative_weights(similarities, temperature=effective, gamma=loss.gamma), loss=loss,
    )  # fmt: skip
