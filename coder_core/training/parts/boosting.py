"""Deep Boosting Learning: the branches that set the target's margins, and the losses against them. Diao et al. 2024,
section III-C; also distillation and mutual learning.

The target is the model that is saved. The other branches score the same batch and are never saved as models. The
teacher (the paper's anchor branch) is a moving average of the target (MSS) or a finished run (OAS). In the online
scenario (OSS), earlier branches train together with the target.
"""

from abc import abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from torch import nn

from coder_core.config.schema import Config
from coder_core.console.faults import Fault, InputError
from coder_core.data.batches import Batch
from coder_core.data.words import Vocabulary
from coder_core.model.coder import Coder
from coder_core.model.device import no_grad_autocast
from coder_core.model.run_towers import RunTowers
from coder_core.objectives.memory import cosine_momentum, normalise_by_batch, update_momentum
from coder_core.objectives.pairs import Anchors, Lengths, gather_anchors
from coder_core.objectives.teachers import against_teachers, teacher_loss
from coder_core.ops import parallel
from coder_core.runs.load import LoadedModel, load_model, load_weights, read_vocabulary
from coder_core.runs.record import read_status
from coder_core.training.gradient_caching import encode_in_pieces
from coder_core.training.step import Losses, Part, Step


class Boosting(Part):
    """Part that adds the target's losses against other branches, from the configured epoch on."""

    @abstractmethod
    def encode(self, batch: Batch) -> list[Anchors]:
        """Encode the batch with every other branch and gather the pairs of all processes."""

    def add_losses(self, losses: Losses, step: Step) -> Losses:
        """Add the target's losses against the other branches."""
        if step.epoch < step.config.boosting.boosting_start_epoch:
            return losses
        with step.autocast:
            branches = self.encode(step.batch)
        return self.losses_against(losses, branches, step)

    def losses_against(self, losses: Losses, branches: list[Anchors], step: Step) -> Losses:
        """Add the target's losses against the pairs as encoded by `branches`."""
        return boosted(losses, step.anchors, branches, step.config)


class BoostingTeacher(Boosting):
    """A branch that sets margins and gets no gradient (the paper's anchor branch).

    It encodes without dropout, as in the authors' code, so that margins are free of noise. Batch norm in a moving
    average uses the batch's own statistics, because its running statistics are the target's.

    Args:
        branch: the teacher's model; used, not copied.
        momentum: weight of the old average at the first step; None for a teacher that is never updated.
        precision: of the teacher's forward passes, "float32" or "bfloat16".
    """

    def __init__(
        self,
        branch: Coder,
        steps: int,
        momentum: float | None,
        precision: str = "float32",
        *,
        piece_size: int = 0,
    ) -> None:
        super().__init__()
        self.branch = branch.requires_grad_(False)
        self.branch = self.branch.eval() if momentum is None else normalise_by_batch(self.branch)
        self.steps = steps
        self.momentum = momentum
        self.precision = precision
        self.piece_size = piece_size
        self.state_file = "anchor" if momentum is not None else None

    @torch.no_grad()
    def encode(self, batch: Batch) -> list[Anchors]:
        """Encode the batch with the teacher and gather the pairs of all processes; one element."""
        lengths = Lengths(batch.region_lengths, batch.word_lengths)
        branch = self.branch
        size = self.piece_size
        with no_grad_autocast(self.precision, batch.regions.device):
            images = encode_in_pieces(branch.encode_images, size, batch.regions, lengths.images)
            texts = encode_in_pieces(branch.encode_texts, size, batch.words, lengths.texts)
        return [gather_anchors(images, texts, batch.pair_ids, self.branch.scorer, lengths)]

    def after_step(self, model: Coder, step: int) -> None:
        """Update a moving average with the target's new weights (eq. 22)."""
        if self.momentum is not None:
            update_momentum(self.branch, model, cosine_momentum(step, self.steps, self.momentum))


class OnlineBranches(Boosting):
    """Branches that precede the target, start from other seeds and train in the same step with their own losses.

    One forward pass per branch, with dropout, serves both its own loss and, without gradient, the margins of later
    branches. The models are used, not copied.
    """

    state_file = "anchor"

    def __init__(self, branches: Sequence[Coder], piece_size: int = 0) -> None:
        super().__init__()
        self.piece_size = piece_size
        self.branches = nn.ModuleList(branches).train()

    def encode(self, batch: Batch) -> list[Anchors]:
        """Encode the batch with every branch, with gradient, and gather the pairs of all processes."""
        lengths = Lengths(batch.region_lengths, batch.word_lengths)
        pairs = []
        for branch in self.branches:
            assert isinstance(branch, Coder)
            embedded = encode_in_pieces(
                branch, self.piece_size, batch.regions, batch.region_lengths, batch.words, batch.word_lengths
            )
            images = embedded.images
            texts = embedded.texts
            pairs.append(gather_anchors(images, texts, batch.pair_ids, branch.scorer, lengths))
        return pairs

    def losses_against(self, losses: Losses, branches: list[Anchors], step: Step) -> Losses:
        """Add the target's losses against the other branches, and those branches' own losses."""
        losses = super().losses_against(losses, branches, step)
        return cohort_losses(losses, step.anchors, branches, step.config, step.branch_losses)

    def separate_parameters(self) -> list[dict[str, nn.Parameter]]:
        """Return one group per branch, so that clipping one branch's gradient does not affect another's."""
        return [
            {f"branch-{number} {name}": parameter for name, parameter in branch.named_parameters()}
            for number, branch in enumerate(self.branches, start=1)
        ]


def boosted(losses: Losses, target: Anchors, teachers: Sequence[Anchors], config: Config) -> Losses:
    """Add the loss against the teachers, always summed over the batch, regardless of the main loss."""
    if not teachers:
        return losses
    boosting = config.boosting
    same_image = config.objective.same_image_negatives
    loss = teacher_loss(
        boosting.boosting,
        margin=boosting.boosting_margin,
        soft=boosting.boosting_soft,
        split=boosting.boosting_split,
        temperature=boosting.boosting_temperature,
        teacher_temperature=boosting.boosting_teacher_temperature,
    )
    per_pair = against_teachers(target, teachers, loss, keep_same_image=same_image)
    pairs = len(per_pair) * parallel.world_size()  # several processes average their gradients
    return losses.plus(f"boosting-{boosting.boosting}", per_pair, boosting.boosting_weight * pairs)


def cohort_losses(
    losses: Losses, target: Anchors, earlier: list[Anchors], config: Config, raw: Callable[[Anchors], Losses]
) -> Losses:
    """Add the losses of the earlier branches, which train in the same step (OSS), to those of the target. Each branch
    has the `raw` loss and a loss against its teachers: all earlier branches, or all others in mutual learning."""
    for number, branch in enumerate(earlier):
        teachers = list(earlier[:number])
        if config.boosting.boosting == "dml":
            teachers += [*earlier[number + 1 :], target]
        losses = losses.plus_branch(f"branch-{number + 1}", boosted(raw(branch), branch, teachers, config))
    return losses


def read_teacher(
    config: Config, vocabulary: Vocabulary | None, feature_size: int, towers: RunTowers | None = None
) -> LoadedModel:
    """Load the finished run that is the offline teacher. InputError: not a finished run, damaged, or with a different
    vocabulary, text encoder, feature size or towers than this run."""
    folder = Path(config.boosting.boosting_teacher)
    flag = f"--boosting-teacher {folder}"
    state = (read_status(folder) or {}).get("state")
    if state != "finished":
        message = f"is {state}" if state else "is not a run that was trained here"
        raise InputError(Fault(flag, message, "a finished run", "finish training it first"))

    teacher = load_model(folder)
    words = read_vocabulary(folder, teacher.config)
    difference = _difference(config, teacher, words, vocabulary, feature_size)
    sides = [of_run.read_alike() if of_run else () for of_run in (teacher.towers, towers)]
    if not difference and sides[0] != sides[1]:
        difference = "has different towers from this run, or pools them differently"
    if difference:
        fix = "train the teacher on the same data, with the same text encoder and --word-threshold"
        raise InputError(Fault(flag, difference, "a run that reads the same images and words", fix))

    return teacher


def _difference(
    config: Config,
    teacher: LoadedModel,
    teacher_words: Vocabulary | None,
    words: Vocabulary | None,
    feature_size: int,
) -> str:
    of_teacher = teacher.config.model
    of_run = config.model
    if of_teacher.text_encoder != of_run.text_encoder:
        return f"reads captions with {of_teacher.text_encoder}, but this run reads them with {of_run.text_encoder}"
    if of_run.text_encoder == "bert" and of_teacher.bert != of_run.bert:
        return f"uses the tokenizer of {of_teacher.bert}, but this run uses that of {of_run.bert}"
    if teacher_words is not None and words is not None and teacher_words.words != words.words:
        return f"has a vocabulary of {len(teacher_words):,} words, but this run has a different one of {len(words):,}"
    if teacher.feature_size != feature_size:
        return f"reads features of size {teacher.feature_size}, but this data has size {feature_size}"
    return ""


def start_from_teacher(config: Config, model: Coder, teacher: LoadedModel) -> None:
    """Copy the teacher's weights into the target if `boosting_start` is "teacher". InputError: the two models have
    different settings."""
    if config.boosting.boosting_start != "teacher":
        return
    fact = "is teacher, but the teacher's weights do not fit this run's model"
    fix = "give the [model] settings of the teacher's config.toml, or --boosting-start scratch"
    different = Fault("--boosting-start", fact, "the same model settings in both", fix)
    flag = f"--boosting-teacher {config.boosting.boosting_teacher}"
    before = teacher.config.model.region_norm
    now = config.model.region_norm
    if before != now:  # the shapes would fit, but the weights would mean something else
        raise InputError([different, Fault(flag, f"has --region-norm {before}, but this run has {now}")])
    try:
        load_weights(model, teacher.model.state_dict(), flag)
    except InputError as error:
        raise InputError([different, *error.faults]) from None
