"""Retrieval results of a run: changes from another run, hubs, margins, guesses and judgments beyond the labels."""

from coder_core.api.retrieval.comparison import (
    OUTCOMES,
    compare,
    config_differences,
    describe_gain,
    diversity_changes,
    gain_in_words,
    gains,
    rank_correlation,
    rank_gains,
    recall_ends,
    same_samples,
)
from coder_core.api.retrieval.judged import (
    graded_evaluations,
    graded_tables,
    judged_recall,
    judged_results,
    judged_values,
    judgement_files,
    judgement_packages,
    log_gain,
    log_ndcg,
    run_judgements,
)
from coder_core.api.retrieval.results import (
    ALIKE,
    LikelyMatches,
    LookAlike,
    corrected_queries,
    count_fitting_images,
    found_by,
    hubness,
    likely_matches,
    look_alike,
    margins,
    occurrences,
    stored_correction,
    text_vectors,
)
from coder_core.api.retrieval.several import SharedAnswers, also_right, several_metrics, shared_answers
from coder_core.data.judgements import Judgements, OtherSplitError
from coder_core.evaluation.bootstrap import Difference
from coder_core.evaluation.metrics import UNLISTED, place_in_words, places
from coder_core.runs.derived.hub_correction import HubCorrection
