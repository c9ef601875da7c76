"""Create the objective of a configuration: its loss and the optional parts that it needs."""

import copy

import torch

from coder_core.config.schema import Config
from coder_core.model.device import no_grad_precision
from coder_core.objectives.diversity_contrastive import CoderLoss
from coder_core.objectives.modules import PairLoss, ScaledLoss
from coder_core.training.parts.boosting import Boosting, BoostingTeacher, OnlineBranches
from coder_core.training.parts.memory import MomentumMemory
from coder_core.training.parts.neighbourhoods import Neighbourhoods
from coder_core.training.parts.prototypes import PrototypeClassification
from coder_core.training.parts.regularisers import EmbeddingRegularisers
from coder_core.training.parts.scale import LearnedScale
from coder_core.training.prepare import Prepared
from coder_core.training.reviewed import ReviewWeights
from coder_core.training.step import Objective, Part, instance_loss


def make_objective(config: Config, prepared: Prepared, device: torch.device) -> Objective:
    """Create the loss and the parts of a configuration, on `device`."""
    loss = instance_loss(config).to(device)
    parts = [part.to(device) for part in make_parts(config, prepared, loss)]
    return Objective(config, parts, loss)


def make_parts(config: Config, prepared: Prepared, loss: PairLoss) -> list[Part]:
    """Create the parts of a configuration, in the order in which their losses are summed (eq. 8)."""
    objective = config.objective
    reviews = prepared.data.review_weights
    parts: list[Part | None] = []
    if objective.learns_scale and isinstance(loss, ScaledLoss):
        parts.append(LearnedScale(loss))
    if reviews is not None:
        parts.append(ReviewWeights(torch.from_numpy(reviews)))
    parts.append(make_memory(config, prepared, loss))
    parts.append(make_neighbourhoods(config, prepared))
    if config.model.embeddings > 1 and (objective.weight_heads > 0 or objective.weight_mmd > 0):
        parts.append(EmbeddingRegularisers())
    parts.append(make_boosting(config, prepared))
    parts.append(make_prototypes(config, prepared))
    return [part for part in parts if part is not None]


def make_memory(config: Config, prepared: Prepared, loss: PairLoss) -> MomentumMemory | None:
    """Create the momentum encoder of a loss with a bank; None without a bank."""
    if not isinstance(loss, CoderLoss) or loss.bank is None:
        return None
    precision = no_grad_precision(config.training, next(prepared.model.parameters()).device)
    return MomentumMemory(config, prepared.model, loss.bank, precision)


def make_neighbourhoods(config: Config, prepared: Prepared) -> Neighbourhoods | None:
    """Create the neighbourhoods; None if the configuration needs no neighbours."""
    neighbourhood = prepared.sources.neighbourhood
    train = prepared.data.train
    if neighbourhood is None:
        return None
    return Neighbourhoods(config, neighbourhood.neighbours, train.image_of_text, train.n_images)


def make_boosting(config: Config, prepared: Prepared) -> Boosting | None:
    """Create the other branches of boosting; None without boosting. A moving average starts as a copy of the model."""
    boosting = config.boosting
    piece_size = config.training.piece_size
    teacher = prepared.sources.teacher
    if boosting.boosting == "none":
        return None
    if boosting.online:
        return OnlineBranches(prepared.branches, piece_size)
    steps = config.training.steps(prepared.batches.per_epoch)
    precision = no_grad_precision(config.training, next(prepared.model.parameters()).device)
    if teacher is not None:
        return BoostingTeacher(teacher.model, steps, None, precision, piece_size=piece_size)
    average = copy.deepcopy(prepared.model)
    return BoostingTeacher(average, steps, boosting.boosting_momentum, precision, piece_size=piece_size)


def make_prototypes(config: Config, prepared: Prepared) -> PrototypeClassification | None:
    """Create the prototypes; None without any. The seed determines the classifier's initial weights."""
    if config.memory.prototypes == 0:
        return None
    pass_pairs = prepared.batches.per_epoch * config.training.batch_size
    return PrototypeClassification(config, prepared.data.train.image_of_text, pass_pairs)
