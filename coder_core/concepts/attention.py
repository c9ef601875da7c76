"""A query reads the concepts: attention over Y and the concept-level embedding. CODER eq. 2, supplement eq. 14."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from coder_core.concepts.gcn import ConceptGraphNetwork
from coder_core.ops import full_precision, normalise


class Reading(NamedTuple):
    """What queries found in the concepts."""

    embeddings: Tensor
    """(B, F) unit rows: v^C or w^C."""
    attention: Tensor
    """(B, g), each row sums to 1."""


def attend(queries: Tensor, nodes: Tensor, weight: Tensor, *, smoothing: float = 10.0) -> Reading:
    """a_i = softmax_i(λ_s · q W y_iᵀ), v^C = Σ_i a_i y_i, normalised. The sum runs over the g concepts.

    Args:
        queries: (B, D) pooled vectors, not normalised.
        nodes: (g, F) Y, unit rows.
        weight: (D, F) W^v or W^w.
        smoothing: λ_s > 0 (CODER: 10; not the λ of eq. 8). Larger is sharper.

    Raises:
        ValueError: smoothing is not positive.
    """
    if not smoothing > 0:
        raise ValueError(f"smoothing must be > 0, got {smoothing}")
    attention = torch.softmax(smoothing * (queries @ weight @ nodes.T), dim=1)
    return Reading(normalise(attention @ nodes), attention)


class ConceptBranch(nn.Module):
    """Concepts for both modalities: one graph network, one attention each.

    Args:
        graph: (g, g) Â.
        vectors: (g, C) word vectors of the concepts.
        dimension: D of the queries and of the embeddings.
        layers: of the graph network.
        smoothing: of the attention.
        unit_queries: bring every query to length 1 first. CODER reads with the pooled vector as it is; where the region
            features are large, its length alone then picks one concept, and a caption of small word vectors reads all.
    """

    def __init__(
        self, graph: Tensor, vectors: Tensor, dimension: int, *, layers: int = 1, smoothing: float = 10.0,
        unit_queries: bool = False,
    ) -> None:  # fmt: skip
        super().__init__()
        self.network = ConceptGraphNetwork(graph, vectors, dimension, layers=layers)
        self.image_weight = nn.Parameter(nn.init.xavier_uniform_(torch.empty(dimension, dimension)))
        self.text_weight = nn.Parameter(nn.init.xavier_uniform_(torch.empty(dimension, dimension)))
        self.smoothing = smoothing
        self.unit_queries = unit_queries

    @property
    def count(self) -> int:
        """g."""
        return len(self.network.graph)

    def nodes(self) -> Tensor:
        """(g, D) Y; the same for every query of a step, so computed once."""
        with torch.autocast(self.image_weight.device.type, enabled=False):
            found: Tensor = self.network()
            return found

    def read_images(self, queries: Tensor, nodes: Tensor) -> Reading:
        """(B, D) pooled regions, (g, D) Y -> v^C and its attention, in float32 also under autocast."""
        return self._read(queries, nodes, self.image_weight)

    def read_texts(self, queries: Tensor, nodes: Tensor) -> Reading:
        """(B, D) words pooled for the concepts, (g, D) Y -> w^C and its attention."""
        return self._read(queries, nodes, self.text_weight)

    def _read(self, queries: Tensor, nodes: Tensor, weight: Tensor) -> Reading:
        with torch.autocast(queries.device.type, enabled=False):  # λ_s magnifies a half-precision error tenfold
            queries = normalise(queries) if self.unit_queries else full_precision(queries)
            return attend(queries, nodes, weight, smoothing=self.smoothing)
