"""Compare each evaluation on dev with the one before it and with the model that training started from, query by query.

A query is answered if its best right result is ranked first. Between two evaluations, a query is fixed if only the
later one answers it, and broken if only the earlier one does.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from coder_core.console.faults import InputError
from coder_core.evaluation.bootstrap import Hits, count_hits, recall_differences
from coder_core.evaluation.metrics import Ranks
from coder_core.evaluation.rank_metrics import query_metrics
from coder_core.runs.change import SINCE_LAST, SINCE_START

WAYS = ("i2t", "t2i")
FirstRanks = Mapping[str, np.ndarray]  # "i2t" (n,), "t2i" (m,): ranks of the best right results, 0 is first


@dataclass
class Comparison:
    """What evaluations on dev are compared with: the start and the previous evaluation, each as ranks of all queries.

    Both are part of the training state, so that a run that was resumed reports the same numbers.
    """

    image_of_text: np.ndarray
    start: FirstRanks | None = None
    last: FirstRanks | None = None

    def set_start(self, ranks: Ranks) -> None:
        """Take the ranks of the model before its first step as the start, and as the previous evaluation."""
        self.start = _first_ranks(ranks)
        self.last = self.start

    def changes(self, ranks: Ranks) -> dict[str, Any]:
        """Return fields for the history, `since_last` and `since_start`, as far as there is something to compare with;
        then take these ranks as the previous evaluation.

        Both hold `rsum`, the change of R@sum, and for each direction, as in `i2t_fixed` and `i2t_broken`, numbers of
        queries. `since_start` also holds `low` and `high`, the ends of the 95% interval of `rsum`.
        """
        now = _first_ranks(ranks)
        fields = {}
        if self.last is not None:
            fields[SINCE_LAST] = _change(self.last, now)
        if self.start is not None:
            difference = recall_differences(self._hits(now), self._hits(self.start))["rsum"]
            interval = {"low": difference.low, "high": difference.high}
            fields[SINCE_START] = _change(self.start, now) | interval
        self.last = now
        return fields

    def _hits(self, ranks: FirstRanks) -> Hits:
        return count_hits(ranks["i2t"], ranks["t2i"], self.image_of_text)

    def tensors(self) -> dict[str, Tensor]:
        """Return the ranks as tensors of a save, empty before the first evaluation."""
        kept = {"start": self.start, "last": self.last}
        return {
            f"{name}.{way}": torch.from_numpy(ranks[way].astype(np.int32))
            for name, ranks in kept.items()
            if ranks is not None
            for way in WAYS
        }

    def load(self, tensors: Mapping[str, Tensor], file: str) -> None:
        """Restore what `tensors` returned; nothing if a run of an earlier version saved none. InputError: the numbers
        of queries are not those of dev."""
        self.start = self._of_save("start", tensors, file)
        self.last = self._of_save("last", tensors, file)

    def _of_save(self, name: str, tensors: Mapping[str, Tensor], file: str) -> FirstRanks | None:
        found = {way: tensors[f"{name}.{way}"] for way in WAYS if f"{name}.{way}" in tensors}
        if len(found) < len(WAYS):
            return None
        images = int(self.image_of_text.max()) + 1
        texts = len(self.image_of_text)
        if len(found["i2t"]) < images or len(found["t2i"]) != texts:
            problem = f"has ranks of {len(found['i2t']):,} images and {len(found['t2i']):,} captions"
            raise InputError.at(file, problem, f"those of dev, with {texts:,} captions")
        return {way: ranks.numpy().astype(np.int64) for way, ranks in found.items()}


def _first_ranks(ranks: Ranks) -> FirstRanks:
    """Return the ranks of the best right result of every query."""
    return {"i2t": np.asarray(ranks.i2t.first), "t2i": np.asarray(ranks.t2i.first)}


def fixed_and_broken(before: FirstRanks, now: FirstRanks) -> dict[str, float]:
    """Return, for each direction, how many queries only the later ranks answer first, and only the earlier ones.

    >>> before = {"i2t": np.array([0, 4]), "t2i": np.array([1, 0, 3])}
    >>> now = {"i2t": np.array([0, 0]), "t2i": np.array([0, 2, 3])}
    >>> fixed_and_broken(before, now)
    {'i2t_fixed': 1, 'i2t_broken': 0, 't2i_fixed': 1, 't2i_broken': 1}
    """
    counts: dict[str, float] = {}
    for way in WAYS:
        was_right = before[way] == 0
        is_right = now[way] == 0
        counts[f"{way}_fixed"] = int(np.sum(is_right & ~was_right))
        counts[f"{way}_broken"] = int(np.sum(was_right & ~is_right))
    return counts


def _change(before: FirstRanks, now: FirstRanks) -> dict[str, float]:
    return {"rsum": _rsum(now) - _rsum(before)} | fixed_and_broken(before, now)


def _rsum(ranks: FirstRanks) -> float:
    return query_metrics(ranks["i2t"], ranks["t2i"])["rsum"]
