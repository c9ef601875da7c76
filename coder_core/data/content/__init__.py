"""Checks of the content of pictures and captions: broken, tiny and blank pictures, and near-duplicates."""

from coder_core.data.content.duplicates import content_words
from coder_core.data.content.report import ContentReport, Finding, cached_report, check_content, content_key

__all__ = ["ContentReport", "Finding", "cached_report", "check_content", "content_key", "content_words"]
