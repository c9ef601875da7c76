"""Data → Plotly figure. No Streamlit here; a notebook can call these too."""

from app.charts.diversity import density, found_by_diversity, histogram, negative_weights, similarity_histogram
from app.charts.figure import DARK, LIGHT, Tone, plain, run_colour, tone
from app.charts.matrices import heat_limits, heat_map
from app.charts.ranks import rank_band, rank_distribution, rank_matrix
from app.charts.runs import recall_bars, training_curves

__all__ = [
    "DARK",
    "LIGHT",
    "Tone",
    "density",
    "found_by_diversity",
    "heat_limits",
    "heat_map",
    "histogram",
    "negative_weights",
    "plain",
    "rank_band",
    "rank_distribution",
    "rank_matrix",
    "recall_bars",
    "run_colour",
    "similarity_histogram",
    "tone",
    "training_curves",
]
