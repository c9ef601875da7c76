"""Prototype-guided classification during training: labels, loss and statistics. CODER section 3.4, eq. 7.

A step labels its pairs by the current centroids, adds the loss, and moves the centroids after the optimizer step.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from coder_core.config.schema import Config
from coder_core.geometry.kmeans import CPU, device_kmeans, faiss_kmeans, first_centroids, nearest_centroid
from coder_core.model.coder import Coder
from coder_core.objectives.prototypes import NO_LABEL, Assignment, PrototypeLoss, pair_vectors
from coder_core.ops import parallel
from coder_core.runs.saves import PROTOTYPES
from coder_core.training.step import EpochEnd, Losses, Part, Step

START_STREAM = 4  # random stream of the classifier's initial weights
RECLUSTER_STREAM = 5  # random stream of a full clustering's random start
ITERATIONS = 10  # of k-means, for each start of a full clustering
MOST_MATCHED_EXACTLY = 2048  # clusters; the Hungarian method takes seconds at this size and is cubic
SUMS = ("pairs", "similarity", "labelled before", "label changed", "image correct", "text correct")


class Pending(NamedTuple):
    """The pairs of a step, of all processes, until the optimizer's step is done."""

    vectors: Tensor  # (B, D)
    text_ids: Tensor  # (B,)
    assigned: Assignment | None = None  # None before the prototypes exist
    sums: Tensor | None = None  # (6,) `SUMS`


class PrototypeClassification(PrototypeLoss, Part):
    """Prototypes and their loss L_PGC, which classifies every pair as its prototype. `image_of_text`: (m,) image of
    every train caption. `pass_pairs`: pairs per pass over the train split. `pair_ids`: (m,), (m, K) or (m, 2, K) ids of
    the pairs, see `same_image_negatives`; None: all other prototypes are negatives."""

    state_file = PROTOTYPES

    tally: Tensor

    def __init__(
        self, config: Config, image_of_text: np.ndarray, pass_pairs: int, pair_ids: np.ndarray | None = None
    ) -> None:
        self.seed = config.training.seed
        start = np.random.SeedSequence((self.seed, START_STREAM)).generate_state(1)[0]
        super().__init__(
            config.memory.prototypes,
            config.model.dimension,
            len(image_of_text),
            pass_pairs=pass_pairs,
            temperature=config.objective.prototype_temperature,
            image_ids=None if pair_ids is None else torch.from_numpy(pair_ids),
            generator=torch.Generator().manual_seed(int(start)),
        )
        self.image_of_text = image_of_text
        self.recluster_every = config.memory.prototype_recluster
        self.register_buffer("tally", torch.zeros(len(SUMS), dtype=torch.float64))
        self._pending: Pending | None = None  # from `add_losses` to `after_step`
        self._batch = torch.zeros(len(SUMS), dtype=torch.float64)

    def add_losses(self, losses: Losses, step: Step) -> Losses:
        """Add L_PGC of the concept branch, or of the instance branch for a model without concepts."""
        embedded = step.embedded
        images = embedded.images
        texts = embedded.texts
        local = pair_vectors(images, texts)
        if embedded.concept_images is not None and embedded.concept_texts is not None:
            images = embedded.concept_images
            texts = embedded.concept_texts
        per_pair = self.classification_losses(local, images, texts, step.batch.text_ids)
        if per_pair is None:
            return losses
        return losses.plus("pgc", per_pair, step.config.objective.weight_prototypes)

    def classification_losses(
        self, local: Tensor, images: Tensor, texts: Tensor, text_ids: Tensor
    ) -> Tensor | None:
        """Return (B,) L_PGC of this process's pairs, summed over both modalities; None until the prototypes exist.

        Args:
            local: (B, D) unit rows of the pairs, from v^I and w^I, which are clustered.
            images, texts: v^C and w^C, (B, D), which are classified.
            text_ids: (B,) numbers of the pairs.
        """
        own_ids = text_ids
        vectors = parallel.gather_rows(local)
        text_ids = parallel.gather_rows(own_ids)
        if not self.clusters.ready:
            self._pending = Pending(vectors, text_ids)
            return None
        classified = self.classify(local, images, texts, own_ids)
        of_images, of_texts = classified.correct
        similarities = classified.assigned.similarities
        facts = parallel.gather_rows(torch.stack([similarities, of_images, of_texts], 1))
        everyone = Assignment(parallel.gather_rows(classified.assigned.labels), facts[:, 0])
        sums = self._sums(everyone, text_ids, facts[:, 1], facts[:, 2])
        self._pending = Pending(vectors, text_ids, everyone, sums)
        return classified.per_pair

    @torch.no_grad()
    def after_step(self, model: Coder, step: int) -> None:
        """Move the centroids by the pairs of this step."""
        if self._pending is None:
            return
        pending = self._pending
        if self.clusters.pairs_seen % self.clusters.pass_pairs == 0:
            self.tally.zero_()
        if pending.sums is not None:
            self.tally += pending.sums
            self._batch = pending.sums
        self.clusters.update(pending.vectors, pending.text_ids, pending.assigned)
        self._pending = None

    def joint_parameters(self) -> dict[str, nn.Parameter]:
        """Return the classifier P^C."""
        return {"prototypes.classifier": self.classifier}

    def report(self) -> dict[str, Any]:
        """Return the statistics of the last batch, once there are labels."""
        statistics = self.statistics(self._batch)
        return {"prototypes": statistics} if statistics else {}

    def facts(self, fields: Mapping[str, Any]) -> list[str]:
        """Return the statistics in words."""
        return [prototypes_in_words(fields["prototypes"])] if "prototypes" in fields else []

    def statistics(self, sums: Tensor) -> dict[str, Any]:
        """Return member counts, inertia, label changes and accuracies; {} before the first labels.

        `inertia` is the mean squared distance of a pair to its centroid, `changed` the share of labelled pairs whose
        label changed; accuracies compare the classifier with the labels. `sums`: (6,) of a batch or the pass (`SUMS`).
        """
        pairs, similarity, before, changed, images, texts = sums.tolist()
        if not pairs:
            return {}
        values = {"inertia": 2 - 2 * similarity / pairs, "image_accuracy": images / pairs}
        values |= {"text_accuracy": texts / pairs} | ({"changed": changed / before} if before else {})
        return self.clusters.counts()._asdict() | {name: round(value, 6) for name, value in values.items()}

    def end_epoch(self, end: EpochEnd) -> dict[str, Any]:
        """Return the statistics of the pass; if due, recluster all pairs on rank 0."""
        statistics = self.statistics(self.tally)
        every = self.recluster_every
        if every and end.epoch % every == 0 and self.clusters.ready and not end.last:
            if parallel.rank() == 0:
                embedded = end.embed_train()
                share = self.recluster(embedded.images, embedded.texts)
                if statistics:  # after the first pass there were no labels to keep
                    statistics["kept"] = share
            parallel.broadcast(self.clusters.buffers())
        return {"prototypes": statistics} if statistics else {}

    def recluster(self, images: np.ndarray, texts: np.ndarray) -> float:
        """Recluster all pairs, keeping the old numbering; return the share of labelled pairs that kept their label.
        `images`: (n, D) unit rows of the train split. `texts`: (m, D) unit rows."""
        vectors = pair_vectors(torch.from_numpy(images[self.image_of_text]), torch.from_numpy(texts))
        sequence = np.random.SeedSequence((self.seed, RECLUSTER_STREAM, int(self.clusters.seen)))
        seed = sequence.generate_state(1)[0]
        device = self.clusters.centroids.device
        old = self.clusters.centroids.cpu().numpy()
        centroids = recluster(vectors.numpy(), old, seed=int(seed) % 2**31, device=str(device))
        before = self.clusters.labels.clone()
        self.clusters.replace(torch.from_numpy(centroids).to(device), vectors.to(device))
        labelled = before != NO_LABEL
        same = (before == self.clusters.labels)[labelled].double()
        return float(same.mean()) if len(same) else 0.0

    def exports(self) -> dict[str, dict[str, Tensor]]:
        """Return centroids, member counts and classifier, to inspect the clusters; inference does not need them."""
        if not self.clusters.ready:
            return {}
        tensors = {"centroids": self.clusters.centroids, "members": self.clusters.members}
        return {PROTOTYPES: tensors | {"classifier": self.classifier.detach()}}

    def _sums(self, assigned: Assignment, text_ids: Tensor, images: Tensor, texts: Tensor) -> Tensor:
        before = self.clusters.labels[text_ids]
        labelled = before != NO_LABEL
        changed = labelled & (before != assigned.labels)
        terms = torch.ones_like(images), assigned.similarities, labelled, changed, images, texts
        return torch.stack([term.detach().double().sum() for term in terms])


def prototypes_in_words(report: Mapping[str, Any]) -> str:
    """Return a text such as: 981 prototypes used, 3 dead, largest 120 · inertia 0.612 · accuracy 8% image, 9% text."""
    text = f"{report['used']:,} prototypes used, {report['dead']:,} dead, largest {report['largest']:,}"
    text += f" · inertia {report['inertia']:.3f}"
    text += f" · {report['changed']:.0%} relabelled" if "changed" in report else ""
    text += f" · accuracy {report['image_accuracy']:.0%} image, {report['text_accuracy']:.0%} text"
    if "kept" in report:
        text += f" · reclustered, {report['kept']:.0%} kept their number"
    return text


def recluster(vectors: np.ndarray, centroids: np.ndarray, *, seed: int, device: str = CPU) -> np.ndarray:
    """Return (K, D) centroids of a full k-means, numbered like the old: the better of a random and the old start."""
    vectors = np.ascontiguousarray(vectors, dtype=np.float32)
    candidates = [_clustered(vectors, start, len(centroids), seed, device) for start in (None, centroids)]
    best = max(candidates, key=lambda means: mean_cosine(vectors, means, device))
    before = nearest_centroid(vectors, centroids, device)
    after = nearest_centroid(vectors, best, device)
    return best[match_clusters(before, after, len(centroids))]


def _clustered(
    vectors: np.ndarray, start: np.ndarray | None, count: int, seed: int, device: str
) -> np.ndarray:
    """Return (K, D) centroids of k-means from some centroids, or from random pairs."""
    if device != CPU:
        start = first_centroids(vectors, count, seed=seed) if start is None else start
        return device_kmeans(vectors, start, ITERATIONS, device)
    model = faiss_kmeans(vectors, count, iterations=ITERATIONS, seed=seed)
    model.train(vectors, init_centroids=start)
    return np.asarray(model.centroids, dtype=np.float32)


def mean_cosine(vectors: np.ndarray, centroids: np.ndarray, device: str = CPU) -> float:
    """Return the mean cosine between pairs and their nearest centroids."""
    nearest = centroids[nearest_centroid(vectors, centroids, device)]
    return float(np.einsum("nd,nd->n", vectors, nearest).mean())


def match_clusters(before: np.ndarray, after: np.ndarray, count: int) -> np.ndarray:
    """Match new clusters to old numbers so that as many pairs as possible keep their number.

    `before` and `after` are the (pairs,) labels under the K old and new centroids. Up to 2,048 clusters the matching is
    optimal (Hungarian method); above that it is greedy, most shared pairs first. Return a permutation, (K,) int64: new
    cluster result[k] gets the old number k.
    """
    shared, times = np.unique(before.astype(np.int64) * count + after, return_counts=True)
    old, new = np.divmod(shared, count)
    if count <= MOST_MATCHED_EXACTLY:
        from scipy.optimize import linear_sum_assignment

        overlap = np.zeros((count, count), dtype=np.float32)
        overlap[old, new] = times
        return linear_sum_assignment(overlap, maximize=True)[1].astype(np.int64)
    new_of_old = np.full(count, -1, dtype=np.int64)
    is_free = np.ones(count, dtype=bool)
    for row in np.argsort(-times, kind="stable"):
        if new_of_old[old[row]] < 0 and is_free[new[row]]:
            new_of_old[old[row]] = new[row]
            is_free[new[row]] = False
    new_of_old[new_of_old < 0] = np.flatnonzero(is_free)
    return new_of_old
