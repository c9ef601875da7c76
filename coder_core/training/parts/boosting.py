"""Deep Boosting Learning while training: who the other branches are and how they move. Diao et al. 2024, section III-C.

They score the same batch as the model that is saved, the target, and are never saved as models: momentum, a moving
average of the target (MSS); offline, a finished run (OAS); online, branches that train beside the target (OSS).
"""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence

import torch
from torch import nn

from coder_core.config.schema import Config
from coder_core.console.faults import Fault
from coder_core.data.batches import Batch
from coder_core.memory.momentum import cosine_momentum, share_of_start, start_that_leaves, update_twin
from coder_core.model.coder import Coder
from coder_core.runs.load import LoadedModel
from coder_core.training.gathering import Anchors, Lengths, gather_anchors
from coder_core.training.precision import twin_autocast, twin_precision

MOST_OF_START = 0.05  # share of the random start that may remain in a momentum anchor without a warning


class BoostingAnchor(nn.Module):
    """The branch that sets the margins.

    It reads without dropout, as the authors' program has it: its margins should not be noise. A moving average
    normalises by the batch, for the running statistics are the target's, not its own.

    Args:
        branch: its weights; taken over, not copied.
        steps: of the whole run.
        momentum: share of it that stays at the first step; None for a branch that never moves.
        precision: of its passes, "float32" or "bfloat16".
    """

    def __init__(self, branch: Coder, steps: int, momentum: float | None, precision: str = "float32") -> None:
        super().__init__()
        self.branch = branch.requires_grad_(False).eval()
        self.steps, self.momentum, self.precision = steps, momentum, precision
        if momentum is not None:
            for module in self.branch.modules():
                if isinstance(module, nn.modules.batchnorm._BatchNorm):
                    module.train()

    @property
    def moves(self) -> bool:
        """Whether it has a state of its own to save."""
        return self.momentum is not None

    @torch.no_grad()
    def encode(self, batch: Batch) -> list[Anchors]:
        """The pairs in its instance branch, beside those of all processes, to be scored its own way; one element."""
        lengths = Lengths(batch.region_lengths, batch.word_lengths)
        with twin_autocast(self.precision, batch.regions.device):
            images = self.branch.encode_images(batch.regions, lengths.images)
            texts = self.branch.encode_texts(batch.words, lengths.texts)
        return [gather_anchors(images, texts, batch.image_ids, self.branch.scorer, lengths)]

    def learned(self) -> list[dict[str, nn.Parameter]]:
        """No parameters: it gets no gradient."""
        return []

    def follow(self, target: Coder, step: int) -> None:
        """Take in the target as the optimizer left it at this step, counted from 0 (eq. 22)."""
        if self.momentum is not None:
            update_twin(self.branch, target, cosine_momentum(step, self.steps, self.momentum))


class OnlineBranches(nn.Module):
    """The branches before the target, from other seeds, which train in the same step by their own loss.

    One forward pass of each serves both its own loss and, without gradient, the margins of those after it. So they read
    with dropout, each with its own.

    Args:
        branches: in order; taken over, not copied.
    """

    moves = True

    def __init__(self, branches: Sequence[Coder]) -> None:
        super().__init__()
        self.branches = nn.ModuleList(branches).train()

    def encode(self, batch: Batch) -> list[Anchors]:
        """The pairs in every branch, with gradient."""
        lengths = Lengths(batch.region_lengths, batch.word_lengths)
        found = []
        for branch in self.branches:
            assert isinstance(branch, Coder)
            embedded = branch(batch.regions, lengths.images, batch.words, lengths.texts)
            found.append(gather_anchors(embedded.images, embedded.texts, batch.image_ids, branch.scorer, lengths))
        return found

    def follow(self, target: Coder, step: int) -> None:
        """Nothing: they learn by gradients."""

    def learned(self) -> list[dict[str, nn.Parameter]]:
        """The parameters of every branch, by names that tell the branch."""
        return [
            {f"branch-{place} {name}": parameter for name, parameter in branch.named_parameters()}
            for place, branch in enumerate(self.branches, start=1)
        ]


Boosting = BoostingAnchor | OnlineBranches


def make_boosting(
    config: Config, model: Coder, steps: int, anchor: LoadedModel | None, branches: Sequence[Coder] = ()
) -> Boosting | None:
    """The other branches that a configuration asks for.

    Args:
        config: of the run.
        model: the target at its start, where it is trained.
        steps: of the whole run.
        anchor: what `read_anchor` found.
        branches: those that train beside the target.
    """
    if config.boosting.boosting == "none":
        return None
    device = next(model.parameters()).device
    if config.boosting.boosting_scenario == "online":
        return OnlineBranches(branches).to(device)
    precision = twin_precision(config.training, device)
    if anchor is not None:
        return BoostingAnchor(anchor.model.to(device), steps, None, precision)
    return BoostingAnchor(copy.deepcopy(model), steps, config.boosting.boosting_momentum, precision)


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
