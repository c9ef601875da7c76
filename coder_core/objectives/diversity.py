"""Measures of diversity under their stable names; `diversity_contrastive.py` defines them beside the losses."""

from coder_core.objectives.diversity_contrastive import anchor_diversity as anchor_diversity
from coder_core.objectives.diversity_contrastive import diversity_entropy as diversity_entropy
from coder_core.objectives.diversity_contrastive import diversity_std as diversity_std
from coder_core.objectives.diversity_contrastive import negative_spread as negative_spread
from coder_core.ops.diversity_scaling import Measure as Measure
