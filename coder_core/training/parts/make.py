"""Create the parts of a configuration; short parts are defined here."""

import copy
import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from coder_core.config.checks import SUMMED
from coder_core.config.objective import LARGEST_SCALE
from coder_core.config.schema import Config
from coder_core.data.batches import Batch
from coder_core.model.coder import Coder
from coder_core.model.device import no_grad_autocast, no_grad_precision
from coder_core.objectives.anchors import Keys, gather_anchors
from coder_core.objectives.memory import CoupledBank, momentum_encoder, update_momentum
from coder_core.objectives.several_embeddings import head_diversity, mean_discrepancy
from coder_core.ops import parallel
from coder_core.training.gradient_caching import encode_in_pieces
from coder_core.training.losses import Losses, Scale, concept_dcl
from coder_core.training.optim import SCALE
from coder_core.training.parts.boosting import Boosting, BoostingTeacher, OnlineBranches
from coder_core.training.parts.neighbourhoods import Neighbourhoods
from coder_core.training.parts.prototypes import PrototypeClassification
from coder_core.training.prepare import Prepared
from coder_core.training.step import Part, Step


def make_parts(config: Config, prepared: Prepared, device: torch.device) -> list[Part]:
    """Create the parts of a configuration, on `device`, in the order in which their losses are summed (eq. 8)."""
    objective = config.objective
    bias = objective.logit_bias if objective.loss == "sigmoid" else None
    reviews = prepared.data.review_weights
    regularised = config.model.embeddings > 1 and (objective.weight_heads > 0 or objective.weight_mmd > 0)
    parts = (
        LearnedScale(objective.temperature, bias) if objective.learns_scale else None,
        ReviewWeights(torch.from_numpy(reviews)) if reviews is not None else None,
        make_memory(config, prepared),
        make_neighbourhoods(config, prepared),
        EmbeddingRegularisers() if regularised else None,
        make_boosting(config, prepared),
        ConceptLoss() if config.model.concepts else None,
        make_prototypes(config, prepared),
    )
    return [part.to(device) for part in parts if part is not None]


class LearnedScale(Part):
    """Learned scale of the logits, exp(t), and bias b of the sigmoid loss. CLIP: Radford et al. 2021; SigLIP: Zhai et
    al. 2023.

    Neither has weight decay, and their gradients are clipped separately from the model's. Online branches of boosting
    do not train them. exp(t) starts at 1 / temperature and never exceeds 100.
    """

    state_file = "scale"

    def __init__(self, temperature: float, bias: float | None = None) -> None:
        super().__init__()
        self.log_scale = nn.Parameter(torch.tensor(-math.log(temperature)))
        self.bias = None if bias is None else nn.Parameter(torch.tensor(bias))

    def loss_inputs(self, model: Coder, batch: Batch) -> dict[str, Any]:
        """Return the current scale and bias."""
        return {"scale": Scale(self.log_scale.exp(), self.bias)}

    @torch.no_grad()
    def after_step(self, model: Coder, step: int) -> None:
        """Keep the scale at or below 100."""
        self.log_scale.clamp_(max=math.log(LARGEST_SCALE))

    def separate_parameters(self) -> list[dict[str, nn.Parameter]]:
        """Return t and b."""
        return [{f"{SCALE}{name}": parameter for name, parameter in self.named_parameters()}]

    def report(self) -> dict[str, Any]:
        """Return the scale exp(t) and the bias."""
        fields = {"logit_scale": round(math.exp(self.log_scale.item()), 5)}
        return fields if self.bias is None else fields | {"logit_bias": round(self.bias.item(), 5)}

    def facts(self, fields: Mapping[str, Any]) -> list[str]:
        """Return a text such as: logit scale 12.4, bias -9.81."""
        if "logit_scale" not in fields:
            return []
        bias = f", bias {fields['logit_bias']:.3g}" if "logit_bias" in fields else ""
        return [f"logit scale {fields['logit_scale']:.3g}{bias}"]

    def exports(self) -> dict[str, dict[str, Tensor]]:
        """Return t and b, which are saved with the best model; ranking does not need them."""
        return {"scale": {name: value.detach() for name, value in self.state_dict().items()}}


class ReviewWeights(Part):
    """Weights of reviewed pairs for the instance branch; a part without state."""

    weights: Tensor  # (m,) of all train pairs

    def __init__(self, weights: Tensor) -> None:
        super().__init__()
        self.register_buffer("weights", weights, persistent=False)

    def loss_inputs(self, model: Coder, batch: Batch) -> dict[str, Any]:
        """Return the weights of this step's pairs."""
        return {"review_weights": self.weights[batch.text_ids]}


class ConceptLoss(Part):
    """Loss of the concept branch, L_DCL^C (CODER section 3.3); a part without state."""

    def add_losses(self, losses: Losses, step: Step) -> Losses:
        """Add L_DCL^C, even at weight 0: DistributedDataParallel waits for a gradient of every parameter."""
        embedded = step.embedded
        objective = step.config.objective
        assert embedded.concept_images is not None
        assert embedded.concept_texts is not None
        anchors = gather_anchors(embedded.concept_images, embedded.concept_texts, step.batch.image_groups)
        return losses.plus("dcl-concept", concept_dcl(anchors, objective), objective.weight_concept)


class EmbeddingRegularisers(Part):
    """PVSE's diversity of the heads and discrepancy of the modalities. Song & Soleymani 2019.

    The paper averages all its losses over the batch. If the main loss is summed over the batch instead, these are
    summed too, so that a weight keeps its meaning.
    """

    def add_losses(self, losses: Losses, step: Step) -> Losses:
        """Add the regularisers that have a weight."""
        objective = step.config.objective
        pairs = step.anchors
        embedded = step.embedded
        summed = len(pairs.all_images) if objective.loss in SUMMED else 1
        images = embedded.image_heads
        texts = embedded.text_heads
        if objective.weight_heads > 0 and images is not None and texts is not None:
            heads = head_diversity(images) + head_diversity(texts)
            losses = losses.plus("heads", heads, objective.weight_heads * summed)
        if objective.weight_mmd > 0:
            discrepancy = mean_discrepancy(pairs.images, pairs.texts, pairs.all_images, pairs.all_texts)
            losses = losses.plus("mmd", discrepancy, objective.weight_mmd * summed)
        return losses


class MomentumMemory(Part):
    """Momentum encoder, initially a copy of `model`, and bank: keys are encoded before the loss and enqueued after the
    step. `precision` of the encoder's forward passes: "float32" or "bfloat16"."""

    state_file = "memory"

    def __init__(self, config: Config, model: Coder, precision: str = "float32") -> None:
        super().__init__()
        self.precision = precision
        self.piece_size = config.training.piece_size
        self.momentum = config.memory.momentum
        self.twin = momentum_encoder(model, dropout=config.memory.twin_dropout)  # saved states use this name
        self.bank = CoupledBank(config.memory.bank_size, config.model.dimension)
        self._pending: tuple[Tensor, ...] | None = None

    def loss_inputs(self, model: Coder, batch: Batch) -> dict[str, Any]:
        """Update the momentum encoder and return this step's keys with the bank."""
        return {"keys": Keys(*self.encode_keys(model, batch), self.bank)}

    @torch.no_grad()
    def encode_keys(self, model: Coder, batch: Batch) -> tuple[Tensor, Tensor]:
        """Update the momentum encoder, then encode this process's pairs: (B, D) image and text keys. Only the instance
        branch has keys (eq. 6), although the update also covers the concept branch."""
        update_momentum(self.twin, model, self.momentum)
        twin = self.twin
        size = self.piece_size
        with no_grad_autocast(self.precision, batch.regions.device):
            images = encode_in_pieces(twin.encode_images, size, batch.regions, batch.region_lengths)
            texts = encode_in_pieces(twin.encode_texts, size, batch.words, batch.word_lengths)
        self._pending = tuple(map(parallel.gather_rows, (images, texts, batch.image_groups)))
        return images, texts

    def after_step(self, model: Coder, step: int) -> None:
        """Enqueue the keys of all processes. This must follow backward(), which reads the slots they overwrite."""
        if self._pending is not None:
            self.bank.enqueue(*self._pending)
            self._pending = None

    def report(self) -> dict[str, Any]:
        """Return the number of filled slots of the bank."""
        return {"bank_filled": self.bank.count}


def make_memory(config: Config, prepared: Prepared) -> MomentumMemory | None:
    """Create the memory; None without a bank."""
    if config.memory.bank_size == 0:
        return None
    precision = no_grad_precision(config.training, next(prepared.model.parameters()).device)
    return MomentumMemory(config, prepared.model, precision)


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
