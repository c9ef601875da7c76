"""What is wrong with the data itself: captions of other images, bad pictures, duplicates, captions that say nothing."""

from coder_core.api.data_quality.content import (
    caption_table,
    captions_of,
    content_report,
    finding_table,
    sample_rows,
    splits_of_data,
    splits_of_run,
)
from coder_core.api.data_quality.mismatches import DOUBTFUL, LIKE_RANDOM, VERDICTS, mismatches
from coder_core.data.content import ContentReport, Finding

__all__ = [
    "DOUBTFUL", "LIKE_RANDOM", "VERDICTS", "ContentReport", "Finding", "caption_table", "captions_of",
    "content_report", "finding_table", "mismatches", "sample_rows", "splits_of_data", "splits_of_run",
]  # fmt: skip
