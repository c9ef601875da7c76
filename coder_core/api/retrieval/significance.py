"""Is a gain noise? A paired bootstrap over images, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coder_core.api.retrieval.comparison import check_same_samples
from coder_core.evaluation.bootstrap import Hits, count_hits, difference

if TYPE_CHECKING:
    from coder_core.api.run import Run


def hits_of(run: Run, split: str) -> Hits:
    """What every image and its captions add to the six recalls."""
    ranks = run.ranks(split)
    return count_hits(ranks["i2t"], ranks["t2i"], run.image_of_text(split))


def gain_in_words(first: Run, last: Run, split: str) -> str:
    """R@sum of one run against another with its 95% interval, and whether other images could undo it.

    Raises:
        InputError: the runs were evaluated on different samples.
    """
    check_same_samples(first, last, split)
    gain = difference([hits_of(last, split)], [hits_of(first, split)])
    noise = "it may be noise: other images could undo it"
    verdict = "beyond what other images would change" if gain.beyond_noise else noise
    interval = f"95% interval {gain.low:+.1f} to {gain.high:+.1f}, paired bootstrap over images"
    return f"R@sum of {last.name} against that of {first.name}: {gain.mean:+.1f} ({interval}), {verdict}."
