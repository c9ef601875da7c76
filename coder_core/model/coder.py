"""CODER's model: two encoders, the instance branch and, optionally, the concept branch. CODER section 3.2.

A pooling turns a sample into the vectors that the scorer compares (`…` in shapes): one unit vector, several, or one for
each region or word.
"""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from coder_core.model.concepts.attention import ConceptBranch
from coder_core.model.encoders.bert import BertWords
from coder_core.model.encoders.pooling import PVSEPooling, pool_each
from coder_core.model.towers.tuning import TunedTower
from coder_core.objectives.pairs import CosineScorer, Scorer
from coder_core.ops import normalise


class Embedded(NamedTuple):
    """Embeddings of B pairs in both branches; None if the model has no such part.

    (B, …, D) v^I and w^I and (B, D) v^C and w^C are float32 unit rows; (B, K, D) heads are the residuals that PVSE's
    heads add, not normalised.
    """

    images: Tensor
    texts: Tensor
    concept_images: Tensor | None = None
    concept_texts: Tensor | None = None
    image_heads: Tensor | None = None
    text_heads: Tensor | None = None


class Branches(NamedTuple):
    """Embeddings of B samples of one modality: (B, …, D) and (B, D) unit rows of the branches, (B, g) attention over
    the concepts, and (B, K, D) heads as in `Embedded`."""

    instance: Tensor
    concept: Tensor | None = None
    attention: Tensor | None = None
    heads: Tensor | None = None


class Coder(nn.Module):
    """Two encoders, (B, L, F) features or (B, L) ids, (B,) lengths -> (B, L, D), two poolings to (B, …, D), a scorer of
    pooled pairs (None: the cosine) and, optionally, a concept branch.

    `dropout` applies to regions and words just before pooling. The text query of the concept branch has its own pooling,
    `concept_text_pooling`; the image query shares `image_pooling` (supplement A.2).
    """

    def __init__(
        self,
        regions: nn.Module,
        words: nn.Module,
        image_pooling: nn.Module,
        text_pooling: nn.Module,
        *,
        dimension: int,
        dropout: float = 0.0,
        concepts: ConceptBranch | None = None,
        concept_text_pooling: nn.Module | None = None,
        scorer: Scorer | None = None,
    ) -> None:
        super().__init__()
        if (concepts is None) != (concept_text_pooling is None):
            raise ValueError("concepts and concept_text_pooling come together or not at all")
        self.dimension = dimension
        self.regions = regions
        self.words = words
        self.image_pooling = image_pooling
        self.text_pooling = text_pooling
        self.dropout = nn.Dropout(dropout)
        self.concepts = concepts
        self.concept_text_pooling = concept_text_pooling
        self.scorer = CosineScorer() if scorer is None else scorer

    @property
    def device(self) -> torch.device:
        """Device of the weights."""
        return next(self.parameters()).device

    def checkpoint_activations(self) -> None:
        """Recompute the activations of BERT and of the towers in the backward pass."""
        for encoder in (self.regions, self.words):
            if isinstance(encoder, TunedTower | BertWords):
                encoder.checkpoint_activations()

    def encode_images(self, regions: Tensor, lengths: Tensor) -> Tensor:
        """Encode images in the instance branch: (B, R, F), (B,) lengths -> (B, …, D) float32 unit rows."""
        return self.image_branches(regions, lengths, None).instance

    def encode_texts(self, words: Tensor, lengths: Tensor) -> Tensor:
        """Encode captions in the instance branch: (B, T) ids, (B,) lengths -> (B, …, D) float32 unit rows."""
        return self.text_branches(words, lengths, None).instance

    def concept_nodes(self) -> Tensor | None:
        """Return (g, D) Y, an argument of the two methods below; None without concepts."""
        return None if self.concepts is None else self.concepts.nodes()

    def image_branches(self, regions: Tensor, lengths: Tensor, nodes: Tensor | None) -> Branches:
        """Encode images in both branches: (B, R, F), (B,), Y. The query is the pooled vector before normalisation."""
        features = self.dropout(self.regions(regions, lengths))
        if self.concepts is None or nodes is None:
            return _instance(self.image_pooling, features, lengths)
        pooled = self.image_pooling(features, lengths)
        return Branches(normalise(pooled), *self.concepts.embed_images(pooled, nodes))

    def text_branches(self, words: Tensor, lengths: Tensor, nodes: Tensor | None) -> Branches:
        """Encode captions in both branches: (B, T) ids, (B,), Y."""
        features = self.dropout(self.words(words, lengths))
        if self.concepts is None or self.concept_text_pooling is None or nodes is None:
            return _instance(self.text_pooling, features, lengths)
        pooled, query = pool_each([self.text_pooling, self.concept_text_pooling], features, lengths)
        return Branches(normalise(pooled), *self.concepts.embed_texts(query, nodes))

    def forward(
        self, regions: Tensor, region_lengths: Tensor, words: Tensor, word_lengths: Tensor
    ) -> Embedded:
        """Embed B pairs in both branches; the graph network runs once."""
        nodes = self.concept_nodes()
        images = self.image_branches(regions, region_lengths, nodes)
        texts = self.text_branches(words, word_lengths, nodes)
        return Embedded(
            images=images.instance,
            texts=texts.instance,
            concept_images=images.concept,
            concept_texts=texts.concept,
            image_heads=images.heads,
            text_heads=texts.heads,
        )


def _instance(pooling: nn.Module, features: Tensor, lengths: Tensor) -> Branches:
    if isinstance(pooling, PVSEPooling):
        embeddings, heads = pooling.with_residuals(features, lengths)
        return Branches(normalise(embeddings), heads=heads)
    return Branches(normalise(pooling(features, lengths)))
