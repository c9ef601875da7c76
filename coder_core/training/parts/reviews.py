"""The weights of pairs that people judged."""

from __future__ import annotations

import torch
from torch import Tensor

from coder_core.config.schema import Config
from coder_core.training.parts.part import Part, StepContext
from coder_core.training.prepare import Prepared


class ReviewWeights(Part):
    """Gives the loss of the instance branch the weights of reviewed pairs. It has no state of its own.

    Args:
        weights: (m,) of all train pairs.
    """

    weights: Tensor

    def __init__(self, weights: Tensor) -> None:
        super().__init__()
        self.register_buffer("weights", weights, persistent=False)

    def prepare(self, step: StepContext) -> None:
        """Those of this step's pairs."""
        step.review_weights = self.weights[step.batch.text_ids]


def make_review_weights(config: Config, prepared: Prepared) -> ReviewWeights | None:
    """The weights of a run with reviews that change any."""
    return (
        None if prepared.review_weights is None else ReviewWeights(torch.from_numpy(prepared.review_weights))
    )
