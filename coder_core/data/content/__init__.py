"""Faults of the pictures and captions themselves, in files that can be read.

duplicates   near-duplicate pictures and captions, within and across splits; how much a caption says
report       broken, tiny and blank pictures and all duplicates of a data set, kept in the cache
"""

from coder_core.data.content.duplicates import content_words
from coder_core.data.content.report import ContentReport, Finding, cached_report, check_content, content_key

__all__ = ["ContentReport", "Finding", "cached_report", "check_content", "content_key", "content_words"]
