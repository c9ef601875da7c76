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
    """LeakyReLU_0.2(Â X W): (g, g), (g, C), (C, F) -> (g, F); without `activate` Â X W."""
    convolved = (graph @ nodes) @ weight
    return leaky_relu(convolved, SLOPE) if activate else convolved


class ConceptGraphNetwork(nn.Module):
    """Y, one unit row a concept, from its word vector and its neighbours in the graph: (g, F).

    One layer (CODER) is activated; of two (CVSE), `narrow` gives the hidden one F / 2 units and the last one no activation,
    as in CVSE, otherwise both have F units and an activation.
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
        widths = [vectors.shape[1], *[hidden] * (layers - 1), dimension]
        shapes = pairwise(widths)
        self.weights = nn.ParameterList(nn.init.xavier_uniform_(torch.empty(shape)) for shape in shapes)

    def forward(self) -> Tensor:
        """(g, F) unit rows in float32."""
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
    """a_i = softmax_i(λ_s · q W y_iᵀ), v^C = Σ_i a_i y_i, normalised. The sum runs over the g concepts.

    (B, D) pooled queries, not normalised, (g, F) Y, (D, F) W^v or W^w -> (B, F), (B, g). `smoothing`: λ_s > 0, else a
    ValueError (CODER: 10; not the λ of eq. 8). Larger is sharper.
    """
    if not smoothing > 0:
        raise ValueError(f"smoothing must be > 0, got {smoothing}")
    attention = torch.softmax(smoothing * (queries @ weight @ nodes.T), dim=1)
    return ConceptEmbeddings(normalise(attention @ nodes), attention)


class ConceptBranch(nn.Module):
    """One graph network for both modalities, and an attention for each; queries and embeddings have the network's dimension.

    `unit_queries` scales every query to length 1 first. CODER queries with the pooled vector as it is: where region features
    are large, its length alone makes the attention pick one concept, and small word vectors attend to all alike.
    """

    def __init__(
        self, network: ConceptGraphNetwork, *, smoothing: float = 10.0, unit_queries: bool = False
    ) -> None:
        super().__init__()
        self.network = network
        dimension = network.weights[-1].shape[1]
        self.image_weight = nn.Parameter(nn.init.xavier_uniform_(torch.empty(dimension, dimension)))
        self.text_weight = nn.Parameter(nn.init.xavier_uniform_(torch.empty(dimension, dimension)))
        self.smoothing, self.unit_queries = smoothing, unit_queries

    @property
    def count(self) -> int:
        """g."""
        return len(self.network.graph)

    def nodes(self) -> Tensor:
        """(g, D) Y; the same for every query of a step, so computed once."""
        with torch.autocast(self.image_weight.device.type, enabled=False):
            nodes: Tensor = self.network()
            return nodes

    def embed_images(self, queries: Tensor, nodes: Tensor) -> ConceptEmbeddings:
        """(B, D) pooled regions, (g, D) Y -> v^C and its attention, in float32 also under autocast."""
        return self._attend(queries, nodes, self.image_weight)

    def embed_texts(self, queries: Tensor, nodes: Tensor) -> ConceptEmbeddings:
        """(B, D) words pooled for the concepts, (g, D) Y -> w^C and its attention."""
        return self._attend(queries, nodes, self.text_weight)

    def _attend(self, queries: Tensor, nodes: Tensor, weight: Tensor) -> ConceptEmbeddings:
        # λ_s magnifies a half-precision error tenfold.
        with torch.autocast(queries.device.type, enabled=False):
            queries = normalise(queries) if self.unit_queries else full_precision(queries)
            return attend(queries, nodes, weight, smoothing=self.smoothing)
