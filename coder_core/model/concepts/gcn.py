"""Graph convolution over the concepts. Kipf & Welling 2017; CODER supplement A.2, eq. 13."""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn.functional import leaky_relu

from coder_core.ops import normalise

SLOPE = 0.2  # of LeakyReLU below zero (ML-GCN, CVSE)


def graph_convolution(graph: Tensor, nodes: Tensor, weight: Tensor, *, activate: bool = True) -> Tensor:
    """LeakyReLU_0.2(Â X W).

    Args:
        graph: (g, g) Â.
        nodes: (g, C) X.
        weight: (C, F) W.
        activate: False leaves LeakyReLU out.

    Returns:
        (g, F).
    """
    convolved = (graph @ nodes) @ weight
    return leaky_relu(convolved, SLOPE) if activate else convolved


class ConceptGraphNetwork(nn.Module):
    """Y, one unit row a concept, from its word vector and its neighbours in the graph.

    Args:
        graph: (g, g) Â; fixed.
        vectors: (g, C) word vectors of the concepts; fixed.
        dimension: F, of Y.
        layers: 1 (CODER) or 2 (CVSE).
        narrow: of two layers, the hidden one has F / 2 units and the last one no activation, as in CVSE; otherwise F
            units, and an activation after each. One layer is activated either way.
    """

    graph: Tensor
    vectors: Tensor

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
        self.weights = nn.ParameterList(
            nn.init.xavier_uniform_(torch.empty(a, b)) for a, b in pairwise(widths)
        )

    def forward(self) -> Tensor:
        """(g, F) unit rows in float32."""
        nodes = self.vectors
        for layer, weight in enumerate(self.weights, start=1):
            last = layer == len(self.weights)
            nodes = graph_convolution(self.graph, nodes, weight, activate=not (self.narrow and last))
        return normalise(nodes)
