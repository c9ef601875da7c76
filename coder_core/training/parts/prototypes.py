"""Prototype-guided classification while training: labels, loss, and what a person is told. CODER section 3.4, eq. 7.

The order in a step: the pairs get their labels from the centroids as they stood before it, the loss is taken, and only
after the backward pass do the centroids move (`remember`), so that a step that fails leaves them as they were.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from coder_core.config.schema import Config
from coder_core.console.faults import Fault
from coder_core.memory.prototypes import NO_LABEL, Assignment, Prototypes, pair_vectors
from coder_core.memory.reclustering import recluster
from coder_core.objectives.prototype_guided import prototype_guided, prototype_logits
from coder_core.ops import best_columns
from coder_core.training import parallel

PAIRS_A_PROTOTYPE = 15  # of the paper: 145,000 pairs of Flickr30K, 10,000 prototypes
START_STREAM = 4  # of the random numbers the classifier starts from
RECLUSTER_STREAM = 5  # of the random numbers a full clustering starts from
SUMS = ("pairs", "similarity", "labelled before", "label changed", "image right", "text right")


class Pending(NamedTuple):
    """What a step saw and `remember` takes in: the pairs of all processes."""

    vectors: Tensor
    pair_ids: Tensor
    assigned: Assignment | None
    sums: Tensor | None


class PrototypeGuide(nn.Module):
    """The prototypes, the classifier P^C, and the counts of the pass under way. Saved and resumed as a whole.

    Args:
        count: K.
        dimension: D of the instance embeddings and of what is classified.
        pairs: of the train split.
        pass_pairs: pairs a pass sees.
        seed: of the classifier's start.
        temperature: of the logits.
    """

    tally: Tensor

    def __init__(
        self, count: int, dimension: int, pairs: int, pass_pairs: int, *, seed: int = 0, temperature: float = 1.0
    ) -> None:
        super().__init__()
        self.clusters = Prototypes(count, dimension, pairs, pass_pairs)
        self.classifier = nn.Parameter(torch.empty(count, dimension))
        drawn = np.random.SeedSequence((seed, START_STREAM)).generate_state(1)[0]
        bound = 1 / math.sqrt(dimension)  # as nn.Linear starts
        nn.init.uniform_(self.classifier, -bound, bound, generator=torch.Generator().manual_seed(int(drawn)))
        self.register_buffer("tally", torch.zeros(len(SUMS), dtype=torch.float64))
        self.temperature = temperature
        self._pending: Pending | None = None
        self._batch = torch.zeros(len(SUMS), dtype=torch.float64)

    def losses(self, instance: tuple[Tensor, Tensor], classified: tuple[Tensor, Tensor], ids: Tensor) -> Tensor | None:
        """L_PGC of this process's pairs, both modalities, (B,); None until the prototypes exist.

        Args:
            instance: v^I and w^I, (B, D) unit rows, which are clustered.
            classified: v^C and w^C, (B, D), which are classified.
            ids: (B,) which pairs they are.
        """
        own = pair_vectors(*instance)
        vectors, ids = parallel.gather_rows(own), parallel.gather_rows(ids)
        if not self.clusters.ready:
            self._pending = Pending(vectors, ids, None, None)
            return None
        assigned = self.clusters.assign(own)
        classifier = parallel.averaging_gradient(self.classifier)
        # One product for both modalities.
        logits = prototype_logits(torch.cat(classified), classifier, temperature=self.temperature)
        both = assigned.labels.repeat(2)
        per_pair = prototype_guided(logits, both).view(2, -1).sum(0)
        right = (best_columns(logits) == both).float().view(2, -1)
        facts = parallel.gather_rows(torch.stack([assigned.similarities, *right], 1))
        everyone = Assignment(parallel.gather_rows(assigned.labels), facts[:, 0])
        self._pending = Pending(vectors, ids, everyone, self._sums(everyone, ids, facts[:, 1], facts[:, 2]))
        return per_pair

    @torch.no_grad()
    def remember(self) -> None:
        """Move the centroids by the pairs of this step. After backward()."""
        if self._pending is None:
            return
        vectors, ids, assigned, sums = self._pending
        if int(self.clusters.seen) % self.clusters.pass_pairs == 0:
            self.tally.zero_()
        if sums is not None:
            self.tally += sums
            self._batch = sums
        self.clusters.update(vectors, ids, assigned)
        self._pending = None

    def report(self, *, whole_pass: bool) -> dict[str, Any]:
        """Inertia, label changes and accuracies of the last batch or of the pass so far, and the counts; {} before the
        first labels.

        `inertia` is the mean squared distance of a pair to its centroid; `changed` the share of the pairs whose label
        differs from their last one; the accuracies are those of the classifier on the pairs' labels.
        """
        pairs, similarity, before, changed, images, texts = (self.tally if whole_pass else self._batch).tolist()
        if not pairs:
            return {}
        found: dict[str, Any] = self.clusters.counts()._asdict()
        found["inertia"] = round(2 - 2 * similarity / pairs, 6)
        found["image_accuracy"] = round(images / pairs, 6)
        found["text_accuracy"] = round(texts / pairs, 6)
        if before:
            found["changed"] = round(changed / before, 6)
        return found

    def recluster(self, images: np.ndarray, texts: np.ndarray, image_of_text: np.ndarray, *, seed: int) -> float:
        """Cluster all pairs at once and keep the numbers. Returns the share of the pairs that kept their label.

        Args:
            images: (n, D) unit rows of the train split.
            texts: (m, D) unit rows.
            image_of_text: (m,) the image of every caption.
            seed: of the run; the step is mixed in.
        """
        vectors = pair_vectors(torch.from_numpy(images[image_of_text]), torch.from_numpy(texts))
        drawn = np.random.SeedSequence((seed, RECLUSTER_STREAM, int(self.clusters.seen))).generate_state(1)[0]
        centroids = recluster(vectors.numpy(), self.clusters.centroids.cpu().numpy(), seed=int(drawn) % 2**31)
        place = self.clusters.centroids.device
        before = self.clusters.labels.clone()
        self.clusters.replace(torch.from_numpy(centroids).to(place), vectors.to(place))
        known = before != NO_LABEL
        return float((before == self.clusters.labels)[known].double().mean()) if bool(known.any()) else 0.0

    def export(self) -> dict[str, Tensor]:
        """What explains the clusters later and inference never needs: centroids, their members, the classifier."""
        return {
            "centroids": self.clusters.centroids, "members": self.clusters.members,
            "classifier": self.classifier.detach(),
        }  # fmt: skip

    def _sums(self, assigned: Assignment, ids: Tensor, images: Tensor, texts: Tensor) -> Tensor:
        before = self.clusters.labels[ids]
        known = before != NO_LABEL
        changed = known & (before != assigned.labels)
        parts = torch.ones_like(images), assigned.similarities, known, changed, images, texts
        return torch.stack([part.detach().double().sum() for part in parts])


def make_guide(config: Config, pairs: int, pass_pairs: int) -> PrototypeGuide | None:
    """The prototypes a configuration asks for; the classifier's start follows from the seed."""
    if config.memory.prototypes == 0:
        return None
    return PrototypeGuide(
        config.memory.prototypes, config.model.dimension, pairs, pass_pairs, seed=config.training.seed,
        temperature=config.objective.prototype_temperature,
    )  # fmt: skip


def too_many_prototypes(count: int, pairs: int, pass_pairs: int) -> list[Fault]:
    """An error when there are more prototypes than a pass has pairs to seed them from, a warning when most would stand
    for one pair."""
    fits = max(2, pairs // PAIRS_A_PROTOTYPE)
    advice = f"--prototypes {fits:,} fits this data (the paper has one for about {PAIRS_A_PROTOTYPE} pairs)"
    found = f"is {count:,}, and a pass has {pass_pairs:,} image-caption pairs"
    if count > pass_pairs:
        return [Fault("--prototypes", found, f"at most {pass_pairs:,}", advice)]
    if count > pairs // 2:
        return [Fault("--prototypes", found, "several pairs a prototype", advice, severity="warning")]
    return []
