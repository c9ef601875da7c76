"""Faults of the data itself: captions of other images, bad pictures, duplicates, captions that say nothing."""

from coder_core.api.data_quality.content import (
    caption_table,
    captions_of,
    finding_table,
    sample_rows,
    split_thumbnail,
    splits_of_data,
    splits_of_run,
    stored_report,
)
from coder_core.api.data_quality.mismatches import (
    DOUBTFUL,
    LIKE_RANDOM,
    VERDICTS,
    cross_fitted,
    mismatches,
    unseen_images,
)
from coder_core.data.captioned.reading import CaptionedSplit
from coder_core.data.content import ContentReport, Finding, content_key

__all__ = [
    "DOUBTFUL",
    "LIKE_RANDOM",
    "VERDICTS",
    "CaptionedSplit",
    "ContentReport",
    "Finding",
    "caption_table",
    "captions_of",
    "content_key",
    "cross_fitted",
    "finding_table",
    "mismatches",
    "sample_rows",
    "split_thumbnail",
    "splits_of_data",
    "splits_of_run",
    "stored_report",
    "unseen_images",
]
