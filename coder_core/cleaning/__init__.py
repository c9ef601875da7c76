"""Find pairs of the train split whose caption probably belongs to another image, and write them as reviews.

A regression scores the pairs if its evidence is strong enough. Otherwise scorers do, which are ordinary runs, each in
its own process. For a run NAME they are NAME-half and NAME-other-half, trained on complementary halves of the train
images, or NAME-warm-up for small-loss selection. The reviews go to NAME-cleaned.jsonl, or to NAME-weighed.jsonl with
weights (names of a second round end in -2, and so on).
Existing files are reused, so the same command continues after an interruption. Two finished runs of halves can replace
new scorers.

rounds        without_wrong_pairs: what scores the pairs, and in how many rounds
origin        whose scorers and reviews a run uses
scorers       the runs that score pairs: names, settings, training
scores        scorers or regression -> the probability that a pair is wrong
pair_reviews  probabilities -> a file of reviews, with people's
accuracy      cost, precision and recall of the cleaning before a finished run
"""

from coder_core.cleaning.accuracy import Cleaned, read_cleaning
from coder_core.cleaning.origin import Origin
from coder_core.cleaning.pair_reviews import write_reviews
from coder_core.cleaning.rounds import without_wrong_pairs
from coder_core.cleaning.scorers import scorer_runs

__all__ = ["Cleaned", "Origin", "read_cleaning", "scorer_runs", "without_wrong_pairs", "write_reviews"]
