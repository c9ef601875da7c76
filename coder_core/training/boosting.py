"""Deep Boosting Learning while training: who the anchor is, how it moves, and the loss. Diao et al. 2024, section III.

The anchor scores the same batch as the model that is trained, the target, but gets no gradient and is never saved as a
model: momentum, it is a moving average of the target (MSS); offline, it is a finished run (OAS).
"""

from __future__ import annotations

import copy
import math
from pathlib import Path

import torch
from torch import Tensor, nn

from coder_core.config import Config
from coder_core.data.batches import Batch
from coder_core.data.words import Vocabulary
from coder_core.faults import Fault, InputError
from coder_core.memory.momentum import cosine_momentum, follow, share_of_start, start_that_leaves
from coder_core.model.coder import Coder
from coder_core.objectives.boosting import absolute_max, absolute_sum, relative_max, relative_sum
from coder_core.objectives.pairs import in_batch_direction
from coder_core.runs.restore import LoadedModel, load_model, load_weights, read_vocabulary
from coder_core.runs.status import read_status
from coder_core.training.gathering import Anchors, Lengths, batch_scores, gather_anchors

MOST_OF_START = 0.05  # share of the random start that may remain in a momentum anchor without a warning


class BoostingAnchor(nn.Module):
    """The branch that sets the margins.

    It reads without dropout, as the authors' program has it: its margins should not be noise. A moving average
    normalises by the batch, for the running statistics are the target's, not its own.

    Args:
        branch: its weights; taken over, not copied.
        steps: of the whole run.
        momentum: share of it that stays at the first step; None for a branch that never moves.
    """

    def __init__(self, branch: Coder, steps: int, momentum: float | None) -> None:
        super().__init__()
        self.branch = branch.requires_grad_(False).eval()
        self.steps, self.momentum = steps, momentum
        if momentum is not None:
            for module in self.branch.modules():
                if isinstance(module, nn.modules.batchnorm._BatchNorm):
                    module.train()

    @property
    def moves(self) -> bool:
        """Whether it has a state of its own to save."""
        return self.momentum is not None

    @torch.no_grad()
    def encode(self, batch: Batch) -> Anchors:
        """The pairs in its instance branch, beside those of all processes, to be scored its own way."""
        lengths = Lengths(batch.region_lengths, batch.word_lengths)
        images = self.branch.encode_images(batch.regions, lengths.images)
        texts = self.branch.encode_texts(batch.words, lengths.texts)
        return gather_anchors(images, texts, batch.image_ids, self.branch.scorer, lengths)

    def follow(self, target: Coder, step: int) -> None:
        """Take in the target as the optimizer left it at this step, counted from 0 (eq. 22)."""
        if self.momentum is not None:
            follow(self.branch, target, cosine_momentum(step, self.steps, self.momentum))


def make_boosting(config: Config, model: Coder, steps: int, anchor: LoadedModel | None) -> BoostingAnchor | None:
    """The anchor a configuration asks for.

    Args:
        config: of the run.
        model: the target at its start, where it is trained.
        steps: of the whole run.
        anchor: what `read_anchor` found.
    """
    if config.boosting.boosting == "none":
        return None
    if anchor is not None:
        return BoostingAnchor(anchor.model.to(next(model.parameters()).device), steps, None)
    return BoostingAnchor(copy.deepcopy(model), steps, config.boosting.boosting_momentum)


def boosting_losses(target: Anchors, anchor: Anchors, config: Config) -> Tensor:
    """The boosting loss of this process's pairs, both directions together, (B,).

    Args:
        target: the pairs under the model.
        anchor: the same pairs under the anchor.
        config: names the form, its margins, and whether other captions of an image are negatives.
    """
    boosting = config.boosting

    def loss(scores: Tensor, anchor_scores: Tensor) -> Tensor:
        known = in_batch_direction(
            scores, target.image_ids, target.all_image_ids, keep_same_image=config.objective.same_image_negatives,
            positive_offset=target.offset,
        )  # fmt: skip
        branches = *known, anchor_scores, anchor_scores.diagonal(target.offset)
        margin, soft = boosting.boosting_margin, boosting.boosting_soft
        if boosting.boosting in ("rs", "rm"):
            relative = relative_sum if boosting.boosting == "rs" else relative_max
            return relative(*branches, margin=margin, soft=soft)
        absolute = absolute_sum if boosting.boosting == "as" else absolute_max
        return absolute(*branches, margin=margin, split=boosting.boosting_split, soft=soft)

    with torch.no_grad():
        anchor_scores = batch_scores(anchor)
    images, texts = (loss(*both) for both in zip(batch_scores(target), anchor_scores, strict=True))
    return images + texts


def read_anchor(config: Config, vocabulary: Vocabulary | None, feature_size: int) -> LoadedModel | None:
    """The finished run that is the offline anchor; None for any other configuration.

    Args:
        config: of the run to train.
        vocabulary: of that run; None with BERT.
        feature_size: F of its regions.

    Raises:
        InputError: the anchor is no finished run, is damaged, or reads other numbers than this run's batches hold.
    """
    if config.boosting.boosting == "none" or config.boosting.boosting_scenario != "offline":
        return None
    folder = Path(config.boosting.boosting_anchor)
    place = f"--boosting-anchor {folder}"
    state = (read_status(folder) or {}).get("state")
    if state != "finished":
        found = f"is {state}" if state else "holds no run that was trained here"
        raise InputError(Fault(place, found, "a finished run", "train it to its end first"))
    anchor = load_model(folder)
    found = _reads_otherwise(config, anchor, read_vocabulary(folder, anchor.config), vocabulary, feature_size)
    if found:
        fix = "train the anchor on the same data, with the same text encoder and --word-threshold"
        raise InputError(Fault(place, found, "a run that reads the same images and words", fix))
    return anchor


def _reads_otherwise(
    config: Config, anchor: LoadedModel, known: Vocabulary | None, vocabulary: Vocabulary | None, feature_size: int
) -> str:
    theirs, ours = anchor.config.model, config.model
    if theirs.text_encoder != ours.text_encoder:
        return f"reads captions with {theirs.text_encoder}, this run with {ours.text_encoder}"
    if ours.text_encoder == "bert" and theirs.bert != ours.bert:
        return f"has the word pieces of {theirs.bert}, this run those of {ours.bert}"
    if known is not None and vocabulary is not None and known.words != vocabulary.words:
        return f"knows other words ({len(known):,}) than this run ({len(vocabulary):,})"
    if anchor.feature_size != feature_size:
        return f"reads {anchor.feature_size} numbers a region, this data has {feature_size}"
    return ""


def start_from_anchor(config: Config, model: Coder, anchor: LoadedModel) -> None:
    """Give the target the anchor's weights, where the configuration asks for that.

    Raises:
        InputError: the two are different models.
    """
    if config.boosting.boosting_start != "anchor":
        return
    try:
        load_weights(model, anchor.model.state_dict(), f"--boosting-anchor {config.boosting.boosting_anchor}")
    except InputError as error:
        fix = "give the values of [model] that the anchor was trained with, or --boosting-start scratch"
        different = Fault("--boosting-start", "is anchor, and the anchor is another model", "the same model", fix)
        raise InputError([different, *error.faults]) from None


def random_start_left(config: Config, steps: int) -> list[Fault]:
    """A warning when more than 5% of the random start would still be in a momentum anchor at the run's end."""
    boosting = config.boosting
    if boosting.boosting == "none" or boosting.boosting_scenario != "momentum":
        return []
    left = share_of_start(steps, boosting.boosting_momentum)
    if left <= MOST_OF_START:
        return []
    fitting = math.floor(start_that_leaves(MOST_OF_START, steps) * 1e5) / 1e5
    found = (
        f"is {boosting.boosting_momentum:g}: after {steps:,} steps {left:.0%} of the anchor would be its random start"
    )
    expected = f"at most {fitting:.5g} for {MOST_OF_START:.0%}"
    fix = "an anchor that knows little sets margins that mean little"
    return [Fault("--boosting-momentum", found, expected, fix, severity="warning")]
