"""Sample weights of a step: of complementary samples over the epoch, or from the scores of the batch.

A weight multiplies its pair's loss of the instance branch, in the batch and against the banks, in both directions.
Boosting, the concept branch and the prototypes carry no sample weights, as in the papers.

Under the n-pairs hinge the weights of a batch sum to λ, as eq. 1 has it. Under any other loss they are divided by λ and
multiplied by the batch size: their mean is 1, so the loss keeps its size beside the terms it is added to, and λ only
says how far apart the weights are.
"""

from __future__ import annotations

import torch
from torch import Tensor

from coder_core.config.schema import Config
from coder_core.objectives.batch_weights import batch_weights
from coder_core.training import parallel
from coder_core.training.gathering import Anchors, batch_scores, mean_vectors


def sample_weights(anchors: Anchors, config: Config, neighbour_weights: Tensor | None) -> Tensor | None:
    """(B,) weights of this process's pairs, without gradient; None when all count alike.

    Args:
        anchors: the instance branch's pairs.
        config: of the run.
        neighbour_weights: (B,) the weights of complementary samples, where the configuration asks for those.
    """
    if config.weighting.sample_weights == "none":
        return None
    weights = neighbour_weights if neighbour_weights is not None else _from_the_batch(anchors, config)
    return weights if config.objective.loss == "npairs-hinge" else weights / config.weighting.weight_scale


def with_review_weights(weights: Tensor | None, review_weights: Tensor | None) -> Tensor | None:
    """(B,) both multiplied; the one that is there; None without either."""
    if weights is None or review_weights is None:
        return review_weights if weights is None else weights
    return weights * review_weights


@torch.no_grad()
def _from_the_batch(anchors: Anchors, config: Config) -> Tensor:
    """HAL, MITHUN or AMRANI, over the pairs of all processes as one batch."""
    scores, ids = parallel.gather_rows(batch_scores(anchors)[0].detach()), anchors.all_image_ids
    others = ids[:, None] != ids[None, :]
    single = mean_vectors(anchors)
    weights = batch_weights(
        config.weighting.sample_weights,
        scores,
        single.all_images.detach(),
        single.all_texts.detach(),
        others,
        scale=config.weighting.weight_scale * len(ids),
    )
    return weights[anchors.offset : anchors.offset + len(anchors.image_ids)]
