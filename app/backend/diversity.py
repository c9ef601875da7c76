"""What the Diversity page asks beside `Run.diversity`, `Run.spread` and `Run.anchor`."""

from coder_core.api import BANK_SIZE, Anchor, diversity_changes, rank_correlation

__all__ = ["BANK_SIZE", "Anchor", "diversity_changes", "rank_correlation"]
