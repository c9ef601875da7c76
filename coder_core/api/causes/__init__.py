"""Why queries miss: the evidence, the cause of every miss, what would fix the misses, and one sentence for one query."""

from coder_core.api.causes.budget import (
    CAUSES,
    HIT,
    Misses,
    Question,
    causes_of_run,
    error_budget,
    find_causes,
    seed_noise,
)
from coder_core.api.causes.evidence import Evidence, WayEvidence, has_causes, split_evidence, why_no_causes
from coder_core.api.causes.fixes import IN_WORDS, averaged_with, fixes_of_run, gain_sentence, what_would_fix
from coder_core.api.causes.known import Known
from coder_core.api.causes.people import (
    FEWEST_VERDICTS,
    HALF_WIDTH,
    Drawn,
    PeopleRecall,
    draw_for_verdicts,
    recall_with_verdicts,
    values_of_verdicts,
)
from coder_core.api.causes.seeds import differ_in_seed, noise_of_seeds, run_of_another_seed
from coder_core.api.causes.sentences import hubs, why
