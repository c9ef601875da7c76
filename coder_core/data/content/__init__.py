"""Faults of the pictures and captions themselves, in files that can be read: broken or blank pictures, near-duplicates."""

from coder_core.data.content.duplicates import content_words
from coder_core.data.content.report import ContentReport, Finding, cached_report, check_content, content_key

__all__ = ["ContentReport", "Finding", "cached_report", "check_content", "content_key", "content_words"]
