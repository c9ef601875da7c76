"""The concept branch: graph convolution over the concepts (Kipf & Welling 2017; CODER supplement A.2, eq. 13) and
attention of a query over them (CODER eq. 2, supplement eq. 14)."""

from itertools import pairwise
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import leaky_relu

from coder_core.ops import full_precision, normalise

SLOPE = 0.2  # of LeakyReLU below zero (ML-GCN, CVSE)


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
