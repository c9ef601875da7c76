"""Losses and weights: as modules for any training loop, and as pure functions of the scores of queries and candidates.

    modules, embeddings in, a scalar out (`modules.py`): CoderLoss, TripletLoss, InfoNCELoss, SigmoidLoss, PrototypeLoss,
                                                         BoostingLoss, SampleWeights, NeighbourWeights
    functions, scores in, one value per query out:

    losses of a query                        against a teacher's (Q, C) scores
      triplet_sum, triplet_hardest  BTR        relative_sum, relative_max   boosting: RS, RM
      info_nce                      InfoNCE    absolute_sum, absolute_max   boosting: AS, AM
      diversity_contrastive         CODER DCL  mutual_learning              DML
      npairs_hinge                  n-pairs    rank_distillation            DarkRank
      projection_matching           CMPM       relational_distillation      RKD
      polynomial_hardest            MPL        self_distillation            DINO, and its reverse
      within_modality               THOMAS     of several embeddings
      pairwise_sigmoid              SigLIP       head_diversity, mean_discrepancy   PVSE
      prototype_guided              CODER PGC

    diversity of an anchor          diversity_std (CODER eq. 3), diversity_entropy, anchor_diversity (with a bank)
    weights of a pair               combined_weights (DIV, DIS, COMBINED), hub_weights (HAL), rank_weights (MITHUN),
                                    density_weights (AMRANI)
    negatives of a query            both_directions, in_batch_direction, same_image_negatives, all_except_same_image

Every function takes one direction; arguments of different sizes raise ValueError. Call it for both and add:

>>> images, captions = torch.eye(2), torch.tensor([[0.8, 0.6], [0.0, 1.0]])
>>> out, back = both_directions(images @ captions.T, torch.tensor([0, 1]))
>>> triplet_sum(*out) + triplet_sum(*back)
tensor([0., 0.])
"""

from coder_core.objectives.batch_weights import density_weights, hub_weights, rank_weights
from coder_core.objectives.boosting import absolute_max, absolute_sum, relative_max, relative_sum
from coder_core.objectives.combined_weights import combined_weights
from coder_core.objectives.contrastive import info_nce, pairwise_sigmoid, projection_matching
from coder_core.objectives.distillation import (
    mutual_learning,
    rank_distillation,
    relational_distillation,
    reversed_self_distillation,
    self_distillation,
)
from coder_core.objectives.diversity import anchor_diversity, diversity_entropy, diversity_std
from coder_core.objectives.diversity_contrastive import diversity_contrastive
from coder_core.objectives.memory import CoupledBank, cosine_momentum, momentum_encoder, update_momentum
from coder_core.objectives.modules import (
    BoostingLoss,
    CoderLoss,
    InfoNCELoss,
    PrototypeLoss,
    SampleWeights,
    SigmoidLoss,
    TripletLoss,
)
from coder_core.objectives.neighbour_weights import NeighbourWeights
from coder_core.objectives.pairs import (
    AllExcept,
    Direction,
    all_except_same_image,
    both_directions,
    in_batch_direction,
    same_image_negatives,
)
from coder_core.objectives.prototype_guided import prototype_guided, prototype_logits
from coder_core.objectives.several_embeddings import head_diversity, mean_discrepancy
from coder_core.objectives.triplet import npairs_hinge, polynomial_hardest, triplet_hardest, triplet_sum
from coder_core.objectives.within_modality import within_modality
