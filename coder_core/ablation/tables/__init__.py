"""The papers' ablations, by name, each with the figures its paper reports."""

from coder_core.ablation.tables.boosting import BOOSTING_TABLES
from coder_core.ablation.tables.coder import CODER_TABLES
from coder_core.ablation.tables.sample_weights import WEIGHT_TABLES

TABLES = {table.name: table for table in (*CODER_TABLES, *WEIGHT_TABLES, *BOOSTING_TABLES)}

__all__ = ["BOOSTING_TABLES", "CODER_TABLES", "TABLES", "WEIGHT_TABLES"]
