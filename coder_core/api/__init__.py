"""Everything the app and a notebook may ask about runs. NumPy and DataFrames out; torch only to encode a query.

from coder_core.api import compare, list_runs, open_run
run = open_run("checkpoints/demo")
run.diversity("dev").sort_values("diversity").head()
"""

from coder_core.api.anchors import Anchor, Loss
from coder_core.api.comparison import OUTCOMES, config_differences
from coder_core.api.listing import METRICS, RunSummary, facts, list_runs
from coder_core.api.run import Run, compare, open_run
from coder_core.faults import InputError

__all__ = [
    "METRICS", "OUTCOMES", "Anchor", "InputError", "Loss", "Run", "RunSummary", "compare", "config_differences",
    "facts", "list_runs", "open_run",
]  # fmt: skip
