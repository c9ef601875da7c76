"""CODER's model: two encoders, the instance branch and, optionally, the concept branch. CODER section 3.2.

A pooling turns a sample into the vectors that the scorer compares (`…` in shapes): one unit vector, several, or one for
each region or word. The concept branch is a graph convolution over the concepts (Kipf & Welling 2017; CODER supplement
A.2, eq. 13) and attention of a query over them (CODER eq. 2, supplement eq. 14).
"""

from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import leaky_relu

from coder_core.config.model import ModelConfig, Pooling
from coder_core.model.concepts.knowledge import Concepts
from coder_core.model.encoders.bert import BertWords
from coder_core.model.encoders.local import (
    GeneralisedPooling,
    KeepAll,
    MaxPooling,
    MeanPooling,
    PooledByTower,
    PVSEPooling,
    RegionEncoder,
    pool_each,
)
from coder_core.model.encoders.recurrent import RecurrentWords, word_vectors
from coder_core.model.run_towers import RunTowers
from coder_core.model.scoring import InteractionScorer, PVSEScorer
from coder_core.model.towers.tuning import TunedTower
from coder_core.objectives.pairs import CosineScorer, Scorer
from coder_core.ops import full_precision, normalise

SLOPE = 0.2  # of LeakyReLU below zero (ML-GCN, CVSE)
POOLINGS: dict[Pooling, type[nn.Module]] = {
    "gpo": GeneralisedPooling,
    "mean": MeanPooling,
    "max": MaxPooling,
    "tower": PooledByTower,
}


def graph_convolution(graph: Tensor, nodes: Tensor, weight: Tensor, *, activate: bool = True) -> Tensor:
    """Compute LeakyReLU_0.2(Â X W), or Â X W without `activate`: (g, g), (g, C), (C, F) -> (g, F)."""
    convolved = (graph @ nodes) @ weight
    return leaky_relu(convolved, SLOPE) if activate else convolved


class ConceptGraphNetwork(nn.Module):
    """Graph network that computes Y, (g, F): one unit row per concept, from the word vectors and the concept graph.

    A single layer (CODER) has an activation. With two (CVSE) and `narrow`, the hidden layer has F / 2 units and the last
    one no activation, as in CVSE; without `narrow` both have F units and an activation.
    """

    graph: Tensor  # (g, g) Â; fixed
    vectors: Tensor  # (g, C) word vectors of the concepts; fixed

    def __init__(
        self, graph: Tensor, vectors: Tensor, dimension: int, *, layers: int = 1, narrow: bool = True
    ) -> None:
        super().__init__()
        # Both come from the run's own files, so saves leave them out.
        self.register_buffer("graph", graph, persistent=False)
        self.register_buffer("vectors", vectors, persistent=False)
        self.narrow = narrow and layers > 1
        hidden = dimension // 2 if self.narrow else dimension
        shapes = pairwise([vectors.shape[1], *[hidden] * (layers - 1), dimension])
        self.weights = nn.ParameterList(nn.init.xavier_uniform_(torch.empty(shape)) for shape in shapes)

    def forward(self) -> Tensor:
        """Return Y, (g, F) unit rows in float32."""
        nodes = self.vectors
        for layer, weight in enumerate(self.weights, start=1):
            is_last = layer == len(self.weights)
            nodes = graph_convolution(self.graph, nodes, weight, activate=not (self.narrow and is_last))
        return normalise(nodes)


class ConceptEmbeddings(NamedTuple):
    """Queries as weighted sums of concepts."""

    embeddings: Tensor  # (B, F) unit rows: v^C or w^C
    attention: Tensor  # (B, g), each row sums to 1


def attend(queries: Tensor, nodes: Tensor, weight: Tensor, *, smoothing: float = 10.0) -> ConceptEmbeddings:
    """Compute a_i = softmax_i(λ_s · q W y_iᵀ) and v^C = Σ_i a_i y_i, normalised; the sum is over the g concepts.

    (B, D) pooled queries, not normalised, (g, F) Y, (D, F) W^v or W^w -> (B, F), (B, g). `smoothing`: λ_s > 0, 10 in
    CODER (not the λ of eq. 8); a larger value is sharper. ValueError: it is not positive.
    """
    if not smoothing > 0:
        raise ValueError(f"smoothing must be > 0, got {smoothing}")
    attention = torch.softmax(smoothing * (queries @ weight @ nodes.T), dim=1)
    return ConceptEmbeddings(normalise(attention @ nodes), attention)


class ConceptBranch(nn.Module):
    """One graph network for both modalities and an attention for each; queries and embeddings have the network's size.

    `unit_queries` first normalises every query. CODER uses the pooled vector as it is, so its length sets the sharpness:
    large region features make the attention pick a single concept, small word vectors spread it evenly over all.
    """

    def __init__(
        self, network: ConceptGraphNetwork, *, smoothing: float = 10.0, unit_queries: bool = False
    ) -> None:
        super().__init__()
        self.network = network
        dimension = network.weights[-1].shape[1]
        self.image_weight = nn.Parameter(nn.init.xavier_uniform_(torch.empty(dimension, dimension)))
        self.text_weight = nn.Parameter(nn.init.xavier_uniform_(torch.empty(dimension, dimension)))
        self.smoothing = smoothing
        self.unit_queries = unit_queries

    @property
    def count(self) -> int:
        """Number of concepts, g."""
        return len(self.network.graph)

    def nodes(self) -> Tensor:
        """Return (g, D) Y; the same for every query of a step, so compute it once."""
        with torch.autocast(self.image_weight.device.type, enabled=False):
            return self.network()

    def embed_images(self, queries: Tensor, nodes: Tensor) -> ConceptEmbeddings:
        """Embed (B, D) pooled regions given (g, D) Y: v^C and its attention, in float32 even under autocast."""
        return self._attend(queries, nodes, self.image_weight)

    def embed_texts(self, queries: Tensor, nodes: Tensor) -> ConceptEmbeddings:
        """Embed (B, D) words pooled for the concepts given (g, D) Y: w^C and its attention, in float32 as above."""
        return self._attend(queries, nodes, self.text_weight)

    def _attend(self, queries: Tensor, nodes: Tensor, weight: Tensor) -> ConceptEmbeddings:
        # λ_s magnifies a half-precision error tenfold.
        with torch.autocast(queries.device.type, enabled=False):
            queries = normalise(queries) if self.unit_queries else full_precision(queries)
            return attend(queries, nodes, weight, smoothing=self.smoothing)


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


@dataclass(frozen=True)
class ModelParts:
    """What the data and the run contribute to a model besides its configuration."""

    feature_size: int  # numbers of a region
    words: int  # size of the vocabulary
    vectors: Tensor | None = None  # (words, word_size) initial word vectors; None: random
    concepts: Concepts | None = None  # None: no concept branch
    towers: RunTowers | None = None  # replace the encoders of their sides


def build_model(
    config: ModelConfig, parts: ModelParts, *, pretrained: bool = True, download: bool = True
) -> Coder:
    """Build the model of a configuration.

    `pretrained`: load BERT's weights; False if those of a save replace them anyway. `download`: allow transformers to
    download a BERT that is not on this machine.
    """
    dimension = config.dimension
    image: nn.Module | None = None
    text: nn.Module | None = None
    if parts.towers is not None:
        image = parts.towers.encoder("image", dimension)
        text = parts.towers.encoder("text", dimension)

    if text is None and config.text_encoder == "bert":
        text = BertWords(
            config.bert, dimension, frozen=config.freeze_bert, pretrained=pretrained, download=download
        )
    elif text is None:
        vectors = word_vectors(parts.words, config.word_size, parts.vectors)
        text = RecurrentWords(vectors, dimension, layers=config.text_layers, dropout=config.word_dropout)

    if image is None:
        image = RegionEncoder(
            parts.feature_size,
            dimension,
            layers=config.image_layers,
            dropout=config.image_dropout,
            rms=config.region_norm == "rms",
            one_mask=config.image_dropout_mask == "image",
        )

    image_pooling = _pooling(config, config.image_pooling)
    text_pooling = _pooling(config, config.text_pooling)
    # Built after the instance branch, whose initial weights then equal those of a model without concepts.
    branch = None if parts.concepts is None else _concept_branch(config, parts.concepts)
    return Coder(
        image,
        text,
        image_pooling,
        text_pooling,
        dimension=dimension,
        dropout=config.embedding_dropout,
        concepts=branch,
        concept_text_pooling=None if branch is None else POOLINGS[config.text_pooling](),
        scorer=_scorer(config),
    )


def _concept_branch(config: ModelConfig, concepts: Concepts) -> ConceptBranch:
    graph = concepts.graph(
        threshold=config.concept_threshold, rescaled=config.concept_rescale, norm=config.concept_graph
    )
    network = ConceptGraphNetwork(
        torch.from_numpy(graph),
        torch.from_numpy(concepts.vectors),
        config.dimension,
        layers=config.gcn_layers,
        narrow=config.gcn_form == "cvse",
    )
    unit_queries = config.concept_query == "unit"
    return ConceptBranch(network, smoothing=config.concept_smoothing, unit_queries=unit_queries)


def _pooling(config: ModelConfig, name: Pooling) -> nn.Module:
    if config.scorer == "interaction":
        return KeepAll()
    of_each = POOLINGS[name]()
    count = config.embeddings
    return of_each if count == 1 else PVSEPooling(of_each, config.dimension, count)


def _scorer(config: ModelConfig) -> Scorer:
    if config.scorer == "interaction":
        size = config.interaction_size
        sharpness = config.interaction_sharpness
        return InteractionScorer(config.dimension, size=size, sharpness=sharpness)
    return CosineScorer() if config.embeddings == 1 else PVSEScorer()
