"""How diversity is taken: of which anchors, by which measure, over which candidates."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from coder_core.api.diversity import table as maths
from coder_core.api.diversity.table import Array, Candidates, Draw, Measure, Modality
from coder_core.api.sampling import Part

BANK_SIZE = 4_096  # CODER's bank on Flickr30K, section 4.2


@dataclass(frozen=True)
class How:
    """The choices behind a table of diversities.

    Args:
        modality: of the anchors. function: "std" (eq. 3) or "entropy" (supplement eq. 16).
        candidates: "split", all negatives; "batch", those of one random batch; "bank", a random bank of pairs.
        batch_size: pairs in a batch. bank_size: pairs in the bank. seed: of either draw.
        temperature: of the softmax inside entropy.
    """

    modality: Modality = "text"
    function: Measure = "std"
    candidates: Candidates = "split"
    batch_size: int = 128
    bank_size: int = BANK_SIZE
    seed: int = 0
    temperature: float = 1.0

    @property
    def key(self) -> tuple[object, ...]:
        """Only what changes the spread."""
        drawn = {"split": (), "batch": (self.batch_size, self.seed), "bank": (self.bank_size, self.seed)}
        heat = self.temperature if self.function == "entropy" else None
        return self.modality, self.function, self.candidates, *drawn[self.candidates], heat


def draw_of(part: Part, how: How) -> Draw | None:
    """The random batches of "batch"; None for the others."""
    if how.candidates != "batch":
        return None
    return maths.draw_batches(len(part.images), part.owner, how.modality, batch_size=how.batch_size, seed=how.seed)


def bank_of(part: Part, how: How) -> maths.Sides:
    """Anchors against a bank of random pairs, as the coupled queues hold them: an image stands there once a pair."""
    pairs = maths.draw_bank(len(part.texts), size=how.bank_size, seed=how.seed)
    return part.sides(how.modality).among(pairs if how.modality == "image" else part.owner[pairs])


def spread(part: Part, how: How) -> Array:
    """(Q,) standard deviation, or entropy in bits, of every anchor's similarities to its negatives."""
    draw = draw_of(part, how)
    if draw is not None:
        return maths.spread_in_batches(
            part.images, part.texts, draw, how.modality, how.function, temperature=how.temperature,
            scores=part.scores,
        )  # fmt: skip
    sides = bank_of(part, how) if how.candidates == "bank" else part.sides(how.modality)
    if how.function == "std":
        return maths.std_over_split(sides)
    return maths.entropy_over_split(sides, how.temperature)


def negatives_of(part: Part, how: How, position: int, draw: Draw | None) -> Array:
    """Rows, in the split, of the candidates one anchor is compared with; its own are among them.

    Args:
        position: of the anchor in the part; −1 when a sample left it out: it is then judged in the first batch.
    """
    images = how.modality == "image"
    if draw is not None:
        pairs = draw.batches[draw.batch_of[position] if position >= 0 else 0]
        return part.text_rows[draw.pair_text[pairs]] if images else part.image_rows[draw.pair_image[pairs]]
    if how.candidates == "bank":
        pairs = maths.draw_bank(len(part.texts), size=how.bank_size, seed=how.seed)
        return part.text_rows[pairs] if images else part.image_rows[part.owner[pairs]]
    return part.text_rows if images else part.image_rows


def spread_of(scores: Array, how: How) -> float:
    """The spread of one anchor's similarities to its negatives."""
    if not len(scores):
        return 0.0
    return float(maths.masked_spread(scores[None], np.ones((1, len(scores)), bool), how.function, how.temperature)[0])
