"""PVSE's regularisers in a training step. Song & Soleymani 2019."""

from __future__ import annotations

from coder_core.config.checks import SUMMED
from coder_core.config.schema import Config
from coder_core.objectives.several_embeddings import head_diversity, mean_discrepancy
from coder_core.training.losses import Losses
from coder_core.training.parts.part import Part, StepContext
from coder_core.training.prepare import Prepared


class EmbeddingRegularisers(Part):
    """Adds the diversity of the heads and the discrepancy of the modalities.

    The paper averages all its losses over the batch. Beside a loss that is summed over it these are summed too, so
    that a weight means the same.
    """

    def add_losses(self, losses: Losses, step: StepContext) -> Losses:
        """With the regularisers that have a weight."""
        objective, pairs, embedded = step.config.objective, step.anchors, step.embedded
        summed = len(pairs.all_images) if objective.loss in SUMMED else 1
        if (
            objective.weight_heads > 0
            and embedded.image_heads is not None
            and embedded.text_heads is not None
        ):
            alike = head_diversity(embedded.image_heads) + head_diversity(embedded.text_heads)
            losses = losses.plus("heads", alike, objective.weight_heads * summed)
        if objective.weight_mmd > 0:
            apart = mean_discrepancy(pairs.images, pairs.texts, pairs.all_images, pairs.all_texts)
            losses = losses.plus("mmd", apart, objective.weight_mmd * summed)
        return losses


def make_regularisers(config: Config, prepared: Prepared) -> EmbeddingRegularisers | None:
    """The regularisers of a configuration with several embeddings."""
    objective = config.objective
    wanted = config.model.embeddings > 1 and (objective.weight_heads > 0 or objective.weight_mmd > 0)
    return EmbeddingRegularisers() if wanted else None
