"""Names that `coder_core.objectives` exports; importing them imports torch."""

from coder_core.objectives.batch_weights import density_weights, hub_weights, rank_weights
from coder_core.objectives.boosting import absolute_max, absolute_sum, relative_max, relative_sum
from coder_core.objectives.complementary import combined_weights, within_modality
from coder_core.objectives.contrastive import info_nce, pairwise_sigmoid, projection_matching
from coder_core.objectives.distillation import (
    mutual_learning,
    rank_distillation,
    relational_distillation,
    reversed_self_distillation,
    self_distillation,
)
from coder_core.objectives.diversity_contrastive import (
    CoderLoss,
    anchor_diversity,
    diversity_entropy,
    diversity_std,
)
from coder_core.objectives.memory import CoupledBank, cosine_momentum, momentum_encoder, update_momentum
from coder_core.objectives.modules import (
    BoostingLoss,
    FunctionLoss,
    InfoNCELoss,
    PairLoss,
    SampleWeights,
    ScaledLoss,
    SigmoidLoss,
    TripletLoss,
    make_loss,
)
from coder_core.objectives.neighbour_weights import NeighbourWeights
from coder_core.objectives.pairs import Direction, both_directions, in_batch_direction, same_image_negatives
from coder_core.objectives.prototypes import PrototypeLoss, prototype_guided, prototype_logits
from coder_core.objectives.several_embeddings import head_diversity, mean_discrepancy
from coder_core.objectives.triplet import npairs_hinge, polynomial_hardest, triplet_hardest, triplet_sum
