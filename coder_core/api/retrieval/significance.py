"""Is a gain noise? A paired bootstrap over images, in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from coder_core.api.retrieval.comparison import check_same_samples
from coder_core.evaluation.bootstrap import Difference, Hits, count_hits, differences

if TYPE_CHECKING:
    from coder_core.api.run import Run

DIRECTIONS = {"i2t": "Image → text", "t2i": "Text → image"}


def hits_of(run: Run, split: str) -> Hits:
    """Contribution of every image and its captions to the six recalls."""
    ranks = run.ranks(split)
    return count_hits(ranks["i2t"], ranks["t2i"], run.image_of_text(split))


def gains(first: Run, last: Run, split: str, captions: np.ndarray | None = None) -> dict[str, Difference]:
    """Every recall and R@sum of one run minus those of another, with 95% intervals; keys as in the metrics.

    Args:
        captions: numbers of the captions that count, and with them their images; None for all.

    Raises:
        InputError: the runs were evaluated on different samples.
    """
    check_same_samples(first, last, split)
    return rank_gains(first.ranks(split), last.ranks(split), first.image_of_text(split), captions)


def rank_gains(
    before: Mapping[str, np.ndarray],
    after: Mapping[str, np.ndarray],
    image_of_text: np.ndarray,
    captions: np.ndarray | None = None,
) -> dict[str, Difference]:
    """`gains` from ranks: "i2t" (n,) and "t2i" (m,) from 0; image_of_text (m,), captions (c,) numbers or None."""
    rows = np.arange(len(image_of_text)) if captions is None else np.asarray(captions)
    owner = np.asarray(image_of_text)[rows]
    images = np.isin(np.arange(len(before["i2t"])), owner)
    row, reference = (
        count_hits(np.where(images, ranks["i2t"], -1), np.asarray(ranks["t2i"])[rows], owner)
        for ranks in (after, before)
    )
    return differences(row, reference)


def gain_in_words(
    first: Run, last: Run, split: str, recall: str = "rsum", captions: np.ndarray | None = None
) -> str:
    """A recall ("t2i_r1", …) or R@sum of one run against another with its 95% interval, and whether it may be noise.

    Args:
        captions: see `gains`.

    Raises:
        InputError: the runs were evaluated on different samples.
    """
    return in_words(
        recall, gains(first, last, split, captions)[recall], f"of {last.name}", f"that of {first.name}"
    )


def in_words(recall: str, gain: Difference, row: str, reference: str) -> str:
    """One sentence: "Text → image R@1 of a against that of b: +1.2 (95% interval …), it may be noise: …".

    Args:
        recall: a key of `gains`. row, reference: what is compared, "of a" and "that of b".
    """
    name = "R@sum" if recall == "rsum" else f"{DIRECTIONS[recall[:3]]} R@{recall[5:]}"
    noise = "it may be noise: other images could undo it"
    verdict = "beyond what other images would change" if gain.beyond_noise else noise
    if not gain.low and not gain.high:
        verdict = "no difference"
    how = f"{interval(gain)}, paired bootstrap over images"
    return f"{name} {row} against {reference}: {gain.mean:+.1f} ({how}), {verdict}."


def interval(gain: Difference) -> str:
    """ "95% interval -1.2 to +3.4"."""
    return f"95% interval {gain.low:+.1f} to {gain.high:+.1f}"
