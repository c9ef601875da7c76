"""How far long work is, as its process writes it."""

from coder_core.runs.files.progress import Progress, read_progress

__all__ = ["Progress", "read_progress"]
