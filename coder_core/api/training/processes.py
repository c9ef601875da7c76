"""Commands of CODER Lab as processes of their own, for whoever starts and watches them from outside."""

from coder_core.console.processes import Job, JobFolder, module_command
from coder_core.console.progress import JobProgress

__all__ = ["Job", "JobFolder", "JobProgress", "module_command"]
