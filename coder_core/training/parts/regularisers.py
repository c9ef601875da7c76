"""Regularisers of several embeddings per sample."""

from coder_core.objectives.several_embeddings import head_diversity, mean_discrepancy
from coder_core.objectives.table import LOSSES
from coder_core.training.step import Losses, Part, Step


class EmbeddingRegularisers(Part):
    """PVSE's diversity of the heads and discrepancy of the modalities. Song & Soleymani 2019.

    The paper averages all its losses over the batch. If the main loss is summed over the batch instead, these are
    summed too, so that a weight keeps its meaning.
    """

    def add_losses(self, losses: Losses, step: Step) -> Losses:
        """Add the regularisers that have a weight."""
        objective = step.config.objective
        pairs = step.anchors
        embedded = step.embedded
        summed = len(pairs.all_images) if LOSSES[objective.loss].summed else 1
        images = embedded.image_heads
        texts = embedded.text_heads
        if objective.weight_heads > 0 and images is not None and texts is not None:
            heads = head_diversity(images) + head_diversity(texts)
            losses = losses.plus("heads", heads, objective.weight_heads * summed)
        if objective.weight_mmd > 0:
            discrepancy = mean_discrepancy(pairs.images, pairs.texts, pairs.all_images, pairs.all_texts)
            losses = losses.plus("mmd", discrepancy, objective.weight_mmd * summed)
        return losses
