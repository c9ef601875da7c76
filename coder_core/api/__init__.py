"""Everything the app and a notebook may ask about runs. NumPy and DataFrames out; torch only to encode a query.

from coder_core.api import compare, list_runs, open_run
run = open_run("checkpoints/demo")
run.diversity("dev").sort_values("diversity").head()
"""

from coder_core.api.concepts.view import ConceptView
from coder_core.api.diversity.anchor import Anchor, Loss
from coder_core.api.diversity.negatives import BANK_SIZE
from coder_core.api.listing import METRICS, RunSummary, facts, list_runs
from coder_core.api.pictures import decode, jpeg
from coder_core.api.retrieval.comparison import (
    OUTCOMES,
    compare,
    config_differences,
    diversity_changes,
    rank_correlation,
    same_samples,
)
from coder_core.api.retrieval.hubs import Hubness, found_by, hubness, occurrences
from coder_core.api.retrieval.look_alike import LookAlike
from coder_core.api.retrieval.margins import margins
from coder_core.api.run import Run, open_run
from coder_core.api.sampling import Sample
from coder_core.api.similarity.batch import choose_batch
from coder_core.api.similarity.matrices import matrix_table, scaled_matrix, scaled_pair
from coder_core.console.faults import InputError

__all__ = [
    "BANK_SIZE", "METRICS", "OUTCOMES", "Anchor", "ConceptView", "Hubness", "InputError", "LookAlike", "Loss", "Run",
    "RunSummary",
    "Sample", "choose_batch", "compare", "config_differences", "decode", "diversity_changes",
    "facts", "found_by", "hubness", "jpeg", "list_runs", "margins", "matrix_table", "occurrences", "open_run",
    "rank_correlation", "same_samples", "scaled_matrix", "scaled_pair",
]  # fmt: skip
