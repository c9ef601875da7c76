"""Answers about runs for the app and notebooks, as NumPy arrays and DataFrames. Loads torch only to encode a query.

from coder_core.api import list_runs, open_run
open_run("checkpoints/coder-demo").diversity("dev").sort_values("diversity").head()
"""

from coder_core.api.diversity import BANK_SIZE, Anchor, LossSettings
from coder_core.api.listing import ORIGINS, RunSummary, SplitSamples, facts, list_runs, numbers_from
from coder_core.api.retrieval.comparison import compare, diversity_changes, rank_correlation
from coder_core.api.retrieval.results import margins, occurrences
from coder_core.api.run import Run, open_run
from coder_core.api.sampling import Sample
from coder_core.console.faults import InputError
from coder_core.data.pictures import decode, jpeg
