"""Losses and weights: as modules for any training loop, and as pure functions of the scores of queries and candidates.

    modules, embeddings in, a scalar out (`modules.py`): CoderLoss, TripletLoss, InfoNCELoss, SigmoidLoss, PrototypeLoss,
                                                         BoostingLoss, SampleWeights, NeighbourWeights;
                                                         FunctionLoss and ScaledLoss turn a function into a module
    the losses of `--loss` (`table.py`):                 LOSSES, register_loss, make_loss
    functions, scores in, one value per query out:

    losses of a query                        against a teacher's (Q, C) scores
      triplet_sum, triplet_hardest  BTR        relative_sum, relative_max   boosting: RS, RM
      info_nce                      InfoNCE    absolute_sum, absolute_max   boosting: AS, AM
      diversity_contrastive ¹       CODER DCL  mutual_learning              DML
      npairs_hinge                  n-pairs    rank_distillation            DarkRank
      projection_matching           CMPM       relational_distillation      RKD
      polynomial_hardest            MPL        self_distillation            DINO, and its reverse
      within_modality               THOMAS     of several embeddings
      pairwise_sigmoid              SigLIP       head_diversity, mean_discrepancy   PVSE
      prototype_guided              CODER PGC

    diversity of an anchor          diversity_std (CODER eq. 3), diversity_entropy, anchor_diversity (with a bank)
    weights of a pair               combined_weights (DIV, DIS, COMBINED), hub_weights (HAL), rank_weights (MITHUN),
                                    density_weights (AMRANI)
    negatives of a query            both_directions, in_batch_direction, same_image_negatives

    ¹ in the module of the same name: from coder_core.objectives.diversity_contrastive import diversity_contrastive

Every function takes one direction; arguments of different sizes raise ValueError. Call it for both and add:

>>> from coder_core.objectives import both_directions, triplet_sum
>>> images, captions = torch.eye(2), torch.tensor([[0.8, 0.6], [0.0, 1.0]])
>>> out, back = both_directions(images @ captions.T, torch.tensor([0, 1]))
>>> triplet_sum(*out) + triplet_sum(*back)
tensor([0., 0.])

Importing the package does not import torch; its names do, when they are first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from coder_core.objectives.table import LOSSES, register_loss

if TYPE_CHECKING:
    from coder_core.objectives.public import *  # noqa: F403


def __getattr__(name: str) -> Any:
    if name.startswith("_"):
        raise AttributeError(name)
    return getattr(import_module("coder_core.objectives.public"), name)
