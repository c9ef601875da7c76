"""The concept branch of a run: concepts, their graph, and who reads which. CODER section 3.2.2."""

from coder_core.api.concepts.attention import (
    AttentionSummary,
    SharedAttention,
    shared_attention,
    summarise_attention,
)
from coder_core.api.concepts.graph import ConceptGraph, graph_of, neighbourhood, strongest
from coder_core.api.concepts.view import ConceptView

__all__ = [
    "AttentionSummary",
    "ConceptGraph",
    "ConceptView",
    "SharedAttention",
    "graph_of",
    "neighbourhood",
    "shared_attention",
    "strongest",
    "summarise_attention",
]
