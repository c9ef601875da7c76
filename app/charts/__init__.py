"""Data → Plotly figure. No Streamlit here; a notebook can call these too."""

from app.charts.clusters import cluster_map, word_bars
from app.charts.colouring import Kinds, Ramp, frequent, kinds, ramp, split_ramp
from app.charts.concepts import concept_graph, concepts_read, side_by_side
from app.charts.diversity import (
    density,
    histogram,
    negative_weights,
    recall_by_diversity,
    similarity_histogram,
)
from app.charts.figure import DARK, LIGHT, Tone, plain, run_colour, tone
from app.charts.heat_maps import region_bars, regions_over_picture
from app.charts.joint import Map, Marks, joint_map
from app.charts.matrices import HeatScale, colour_stops, heat_map, heat_scale
from app.charts.ranks import (
    OCCURRENCE_LABELS,
    RANK_LABELS,
    margin_histogram,
    occurrence_band,
    occurrence_bands,
    rank_band,
    rank_distribution,
    rank_matrix,
)
from app.charts.runs import recall_bars, training_curves
from app.charts.similarities import similarity_curves, similarity_densities
from app.charts.slices import slice_recalls
from app.charts.values import MOST, hover_texts

__all__ = [
    "DARK",
    "LIGHT",
    "MOST",
    "OCCURRENCE_LABELS",
    "RANK_LABELS",
    "HeatScale",
    "Kinds",
    "Map",
    "Marks",
    "Ramp",
    "Tone",
    "cluster_map",
    "colour_stops",
    "concept_graph",
    "concepts_read",
    "density",
    "frequent",
    "heat_map",
    "heat_scale",
    "histogram",
    "hover_texts",
    "joint_map",
    "kinds",
    "margin_histogram",
    "negative_weights",
    "occurrence_band",
    "occurrence_bands",
    "plain",
    "ramp",
    "rank_band",
    "rank_distribution",
    "rank_matrix",
    "recall_bars",
    "recall_by_diversity",
    "region_bars",
    "regions_over_picture",
    "run_colour",
    "side_by_side",
    "similarity_curves",
    "similarity_densities",
    "similarity_histogram",
    "slice_recalls",
    "split_ramp",
    "tone",
    "training_curves",
    "word_bars",
]
