"""Functions from data to Plotly figures, without Streamlit, so that notebooks can call them too."""

from app.charts.colouring import Kinds, Ramp, date_ramp, frequent, kinds, on_ramp, ramp, split_ramp
from app.charts.concepts import cluster_map, concept_graph, concepts_read, side_by_side, word_bars
from app.charts.distributions import (
    density,
    histogram,
    margin_histogram,
    negative_weights,
    recall_by_diversity,
    similarity_curves,
    similarity_histograms,
)
from app.charts.figure import DARK, LIGHT, Ends, Tone, common_ends, plain, run_colour, tone
from app.charts.joint import Map, Marks, joint_map, share_bars
from app.charts.matrices import HeatScale, heat_map, heat_scale, region_bars, regions_over_picture
from app.charts.runs import (
    OCCURRENCE_LABELS,
    RANK_LABELS,
    blend_curve,
    error_budgets,
    occurrence_band,
    occurrence_bands,
    rank_band,
    rank_distribution,
    rank_matrix,
    recall_bars,
    slice_recalls,
    training_curves,
)
from app.charts.values import MOST, hover_texts
