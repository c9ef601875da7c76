"""Training as the app starts it: possible settings and arguments, jobs, and the sample weights of a run."""

from coder_core.config.presets import DEMO_RUNS
from coder_core.console.output import JobProgress
from coder_core.console.processes import Job, JobFolder, module_command
from coder_core.demo import DRAWING
