"""Prototype-guided classification: on-line clusters of the pairs, and their classifier. CODER section 3.4, eq. 7.

Image-caption pairs are clustered by v^I + w^I, normalised. The paper specifies only K, this vector and the word
"on-line"; docs/equations.md 1.6 lists our decisions. K exceeds the batch, so centroids persist from step to step, and a
prototype keeps its number: row k of the classifier belongs to prototype k.

    L_PGC = L_cls(softmax(P^C v^C), Z) + L_cls(softmax(P^C w^C), Z)

L_cls is the cross-entropy; Z is the prototype of the PAIR, the same label for its image and its caption. P^C (K, F) is
learned, with one row per prototype and no bias, and shared by the two modalities. It is not used after training.

The other prototypes are the negatives of a pair. If several pairs show one thing (a product) or have equal texts, the
prototypes of those pairs are left out of the pair's softmax, so that such pairs do not push each other away.
"""

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from coder_core.objectives.modules import without_autocast
from coder_core.objectives.pairs import LEFT_OUT, check_numbers, check_width, pairs_of
from coder_core.ops import SHORTEST_VECTOR, best_columns, full_precision, lengths, normalise, parallel

NO_LABEL = -1
PAIRS_PER_RESEED = 8  # at most one in eight pairs of a batch becomes a new centroid in one step
ROWS_AT_ONCE = 1024
LEAST_WEIGHT = 1e-6  # of the old direction in a mean, which keeps it if the members cancel out


class Assignment(NamedTuple):
    """The prototypes of a batch's pairs."""

    labels: Tensor  # (B,) int64
    similarities: Tensor  # (B,) cosine to that centroid


class PrototypeCounts(NamedTuple):
    """Counts of prototypes. The members of a prototype are the pairs with its label."""

    used: int  # prototypes with a member
    dead: int  # prototypes without a member for a whole pass
    largest: int  # members of the largest prototype
    reseeded: int  # dead prototypes moved to a pair so far


def pair_vectors(images: Tensor, texts: Tensor) -> Tensor:
    """Return v^I + w^I normalised, (B, D) unit rows, without gradient.

    >>> pair_vectors(torch.tensor([[1.0, 0.0]]), torch.tensor([[1.0, 0.0]]))
    tensor([[1., 0.]])
    """
    return normalise(images.detach() + texts.detach())


class Prototypes(nn.Module):
    """K centroids and the counts of their members. Buffers only.

    1. The last K pairs of the first pass become the centroids. A pass has a random order, so they are a uniform sample.
    2. After that, every batch is assigned to its nearest centroids and moves them: a centroid is the direction of the
       running mean of its members. Weights in it decay by a factor e per pass, because the embeddings keep changing.
    3. A prototype is dead if it has had no member for a whole pass. Dead prototypes move to pairs of the batch: the
       first to the least typical member of the largest prototype, the next to that of the second largest, and so on.

    ValueError: K is below 2 or above `pass_pairs`.

    Args:
        count: K.
        dimension: D.
        pairs: image-caption pairs of the train split; their ids are 0 … pairs - 1.
        pass_pairs: pairs per pass (whole batches only).
    """

    centroids: Tensor
    resultants: Tensor
    weights: Tensor
    idle: Tensor
    members: Tensor
    labels: Tensor
    seen: Tensor
    reseeded: Tensor

    def __init__(self, count: int, dimension: int, pairs: int, pass_pairs: int) -> None:
        super().__init__()
        if not 2 <= count <= pass_pairs <= pairs:
            raise ValueError(f"{count} prototypes need 2 ≤ K ≤ {pass_pairs} pairs a pass ≤ {pairs} pairs")
        self.count = count
        self.pass_pairs = pass_pairs
        self.register_buffer("centroids", torch.zeros(count, dimension))
        self.register_buffer("resultants", torch.zeros(count))  # length of the running mean, from 0 to 1
        self.register_buffer("weights", torch.zeros(count))  # members in the running mean
        self.register_buffer("idle", torch.zeros(count, dtype=torch.int64))  # pairs since the last member
        self.register_buffer("members", torch.zeros(count, dtype=torch.int64))
        self.register_buffer("labels", torch.full((pairs,), NO_LABEL, dtype=torch.int64))
        self.register_buffer("seen", torch.zeros((), dtype=torch.int64))
        self.register_buffer("reseeded", torch.zeros((), dtype=torch.int64))
        self._seen_on_host: int | None = None  # `seen`, without waiting for a GPU; None: read the buffer

    @property
    def ready(self) -> bool:
        """True after the first pass, when the centroids exist."""
        return self.pairs_seen >= self.pass_pairs

    @property
    def pairs_seen(self) -> int:
        """Number of pairs that `update` has seen, over all passes."""
        if self._seen_on_host is None:
            self._seen_on_host = int(self.seen)
        return self._seen_on_host

    def _see(self, pairs: int) -> None:
        self._seen_on_host = self.pairs_seen + pairs
        self.seen += pairs

    def _load_from_state_dict(self, *arguments: Any) -> None:
        self._seen_on_host = None
        super()._load_from_state_dict(*arguments)

    @torch.no_grad()
    def assign(self, vectors: Tensor) -> Assignment:
        """Find the nearest centroid of every row of (B, D) unit `vectors`."""
        similarities = vectors @ self.centroids.T
        labels = best_columns(similarities)
        return Assignment(labels, similarities.gather(1, labels[:, None]).squeeze(1))

    @torch.no_grad()
    def update(self, vectors: Tensor, pair_ids: Tensor, assigned: Assignment | None = None) -> None:
        """Update from a batch, identically on every process: collect seeds in the first pass, then move the means.

        Args:
            vectors: (B, D) unit rows of the pairs of all processes, in the order of the batch.
            pair_ids: (B,).
            assigned: result of `assign` before this step; None computes it.
        """
        if not self.ready:
            self._seed(vectors)
            return
        assigned = self.assign(vectors) if assigned is None else assigned
        counts_once = _first_equal(pair_ids) == torch.arange(len(pair_ids), device=pair_ids.device)

        old_labels = self.labels[pair_ids]
        had_label = (old_labels != NO_LABEL) & counts_once  # a sampler may repeat a pair in a batch
        self.labels[pair_ids] = assigned.labels
        self.members.index_add_(0, old_labels.clamp_min(0), -had_label.long())
        self.members.index_add_(0, self.labels[pair_ids], counts_once.long())

        self.idle += len(vectors)
        self.idle[assigned.labels] = 0
        self._move(vectors, assigned.labels)
        self._reseed(vectors, assigned)
        self._see(len(vectors))

    @torch.no_grad()
    def replace(self, centroids: Tensor, vectors: Tensor) -> None:
        """Replace the centroids by those of a clustering of all pairs, numbered like the old ones
        (`recluster`). `centroids`: (K, D) unit rows. `vectors`: (pairs, D) unit rows in the order of the
        pairs' ids."""
        self.centroids.copy_(centroids)
        self.labels.copy_(torch.cat([self.assign(part).labels for part in vectors.split(ROWS_AT_ONCE)]))
        self.members.copy_(torch.bincount(self.labels, minlength=self.count))
        sums = torch.zeros_like(self.centroids).index_add_(0, self.labels, vectors)
        self.weights.copy_(self.members)
        self.resultants.copy_(lengths(sums) / self.weights.clamp_min(1))
        self.idle.zero_()

    def counts(self) -> PrototypeCounts:
        """Return the counts of used, dead and reseeded prototypes and the size of the largest."""
        used = int((self.members > 0).sum())
        dead = int(self._dead().sum())
        return PrototypeCounts(used, dead, int(self.members.max()), int(self.reseeded))

    def _seed(self, vectors: Tensor) -> None:
        first = self.pairs_seen - self.pass_pairs + self.count
        slots = torch.arange(len(vectors), device=vectors.device) + first
        is_seed = (slots >= 0) & (slots < self.count)
        self._start(slots[is_seed], vectors[is_seed])
        self._see(len(vectors))

    def _start(self, numbers: Tensor, vectors: Tensor) -> None:
        """Place each of the prototypes at a single pair."""
        self.centroids[numbers] = vectors
        self.resultants[numbers] = 1.0
        self.weights[numbers] = 1.0

    def _move(self, vectors: Tensor, labels: Tensor) -> None:
        """Move every centroid to the direction of the running mean of its members. Row i of the sums belongs to the
        prototype of pair i; those of the first pair of each prototype are used, so that no size depends on values, for
        which the program would wait for a GPU."""
        row = _first_equal(labels)
        self.weights *= max(0.0, 1.0 - len(vectors) / self.pass_pairs)
        weights = self.weights[labels]
        old_length = weights * self.resultants[labels] + LEAST_WEIGHT
        sums = _add_rows(self.centroids.index_select(0, labels).mul_(old_length[:, None]), row, vectors)
        weights.index_add_(0, row, torch.ones_like(row, dtype=weights.dtype))
        length = torch.linalg.vector_norm(sums, dim=1)
        means = sums.div_(length.clamp_min(SHORTEST_VECTOR)[:, None])
        self.centroids.index_copy_(0, labels, means[row])
        self.resultants[labels] = (length / weights)[row]
        self.weights[labels] = weights[row]

    def _dead(self) -> Tensor:
        return (self.members == 0) & (self.idle >= self.pass_pairs)

    def _reseed(self, vectors: Tensor, assigned: Assignment) -> None:
        dead = self._dead().nonzero().flatten()
        if len(dead) == 0:
            return
        members = self.members[assigned.labels]
        order = torch.argsort(assigned.similarities, stable=True)  # the least typical pair first
        order = order[torch.argsort(members[order], descending=True, stable=True)]  # of the largest prototype
        order = order[members[order] > 1]
        labels = assigned.labels[order]
        is_first = ~(labels[:, None] == labels).tril(-1).any(1)
        rows = order[is_first][: max(1, len(vectors) // PAIRS_PER_RESEED)]
        count = min(len(dead), len(rows))
        self._start(dead[:count], vectors[rows[:count]])
        self.idle[dead[:count]] = 0
        self.reseeded += count


def _first_equal(numbers: Tensor) -> Tensor:
    """Return (B,) int64: the first position with the same number as each of (B,) `numbers`."""
    return (numbers[:, None] == numbers).byte().argmax(1)


def _add_rows(sums: Tensor, row: Tensor, vectors: Tensor) -> Tensor:
    """Add vectors[i] to sums[row[i]], (B, D) `vectors` and (R, D) `sums`, in the same order on every process."""
    if sums.device.type == "cpu":
        return sums.index_add_(0, row, vectors)
    # On a GPU index_add has no fixed order, so the processes' last bits would drift apart; a matrix product has one.
    membership = torch.zeros(len(sums), len(vectors), device=sums.device, dtype=sums.dtype)
    membership[row, torch.arange(len(row), device=row.device)] = 1.0
    return sums.addmm_(membership, vectors)


def prototype_logits(vectors: Tensor, classifier: Tensor, *, temperature: float = 1.0) -> Tensor:
    """Compute P^C v for every row: (B, F) vectors, (K, F) classifier -> (B, K).

    Args:
        vectors: (B, F) unit rows.
        classifier: (K, F).
        temperature: divides the logits; eq. 7 has none (1). Unit vectors and a classifier with small initial weights
            give nearly equal probabilities at first; a smaller temperature separates them sooner.

    Raises:
        ValueError: temperature is not positive.

    >>> prototype_logits(torch.tensor([[1.0, 0.0]]), torch.tensor([[2.0, 5.0], [0.0, 5.0]]))
    tensor([[2., 0.]])
    """
    if not temperature > 0:
        raise ValueError(f"temperature must be > 0, got {temperature}")
    # There are far fewer vectors than classifier rows, so dividing them touches about a hundredth of the memory.
    return (full_precision(vectors) / temperature) @ full_precision(classifier).mT


def prototype_guided(logits: Tensor, labels: Tensor) -> Tensor:
    """Compute the cross-entropy of one modality's logits with the pairs' prototypes. CODER eq. 7.

    Args:
        logits: (B, K) from `prototype_logits`.
        labels: (B,) int64 prototype of every pair.

    Returns:
        (B,) losses; add those of both modalities.

    Raises:
        ValueError: a label is not a row of the classifier.

    >>> prototype_guided(torch.tensor([[2.0, 0.0]]), torch.tensor([1]))
    tensor([2.1269])
    """
    count = logits.shape[1]
    if len(labels) and not 0 <= int(labels.min()) <= int(labels.max()) < count:
        raise ValueError(f"labels run from 0 to {count - 1}, got {int(labels.min())} … {int(labels.max())}")
    return _cross_entropy(logits, labels)


def _cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    return torch.nn.functional.cross_entropy(full_precision(logits), labels, reduction="none")


class Partners(nn.Module):
    """The pairs of a split that are not negatives of each other, by their ids. Buffers only, not saved.

    >>> rows, others = Partners(torch.tensor([[5, 0], [5, 1], [6, 1]])).of(torch.tensor([0, 1]))
    >>> sorted(set(zip(rows.tolist(), others.tolist())))
    [(0, 0), (0, 1), (1, 0), (1, 1), (1, 2)]

    Args:
        ids: (pairs,), (pairs, K) or (pairs, 2, K), see `same_image_negatives`; each pair is a partner of itself, too.
    """

    order: Tensor
    first: Tensor
    sizes: Tensor

    def __init__(self, ids: Tensor) -> None:
        super().__init__()
        columns = ids.view(len(ids), -1, 1) if ids.ndim < 3 else ids.mT
        sides = [(columns[..., 0], columns[..., -1])]  # of an image, and of a caption, (pairs, K) each
        if ids.ndim == 3:
            sides.append((columns[..., 1], columns[..., 0]))

        orders = []
        firsts = []
        sizes = []
        for asking, asked in sides:
            for ids_of_pairs, ids_of_others in zip(asking.T.contiguous(), asked.T.contiguous(), strict=True):
                ascending, order = ids_of_others.sort(stable=True)
                first = torch.searchsorted(ascending, ids_of_pairs)
                orders.append(order)
                firsts.append(first)
                sizes.append(torch.searchsorted(ascending, ids_of_pairs, right=True) - first)

        # (columns, pairs): pairs sorted by id; first of a pair's partners among these; number of partners
        self.register_buffer("order", torch.stack(orders), persistent=False)
        self.register_buffer("first", torch.stack(firsts), persistent=False)
        self.register_buffer("sizes", torch.stack(sizes), persistent=False)

    def of(self, pair_ids: Tensor) -> tuple[Tensor, Tensor]:
        """Return the rows of (B,) `pair_ids` and their partners' ids, (P,) each."""
        rows = []
        partners = []
        for order, first, sizes in zip(self.order, self.first, self.sizes, strict=True):
            counts = sizes[pair_ids]
            row = torch.arange(len(pair_ids), device=pair_ids.device).repeat_interleave(counts)
            before = counts.cumsum(0) - counts
            within = torch.arange(len(row), device=pair_ids.device) - before[row]
            rows.append(row)
            partners.append(order[first[pair_ids][row] + within])
        return torch.cat(rows), torch.cat(partners)


class Classified(NamedTuple):
    """The classification of this process's pairs."""

    per_pair: Tensor  # (B,) L_PGC, summed over both modalities
    assigned: Assignment  # of the pairs
    correct: (
        Tensor  # (2, B) float, 1 where the classifier names the pair's prototype: of images, then of captions
    )


class PrototypeLoss(nn.Module):
    """Prototype-guided classification (CODER eq. 7): on-line k-means over all pairs, and a classifier of its clusters.

    The loss is 0 until the first pass over the pairs has initialised the centroids.

    Args:
        count: K; 10,000 in the paper, for the 145,000 pairs of Flickr30K.
        dimension: D.
        pairs: number of pairs in the training split, over all processes.
        pass_pairs: number of pairs per epoch, if it drops the last batch; None: all.
        temperature: of the classification; eq. 7 has none (1).
        image_ids: (pairs,), (pairs, K) or (pairs, 2, K) ids of all pairs, see `same_image_negatives`: prototypes that hold
            a pair that is no negative of a pair are left out of its softmax. None: all other prototypes are negatives.
    """

    def __init__(
        self,
        count: int,
        dimension: int,
        pairs: int,
        *,
        pass_pairs: int | None = None,
        temperature: float = 1.0,
        image_ids: Tensor | None = None,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        if image_ids is not None and len(image_ids) != pairs:
            raise ValueError(f"there are {len(image_ids)} image_ids: give one for each of the {pairs} pairs")
        self.temperature = temperature
        self.partners = None if image_ids is None else Partners(image_ids)
        self.clusters = Prototypes(count, dimension, pairs, pass_pairs or pairs)
        self.classifier = nn.Parameter(torch.empty(count, dimension))
        bound = 1 / math.sqrt(dimension)  # as nn.Linear initialises its weights
        nn.init.uniform_(self.classifier, -bound, bound, generator=generator)

    @without_autocast
    def forward(self, image_embeddings: Tensor, text_embeddings: Tensor, pair_ids: Tensor) -> Tensor:
        """Return the pairs' mean loss, (), summed over both modalities. `pair_ids`: (B,) pair numbers, from 0."""
        anchors = pairs_of(image_embeddings, text_embeddings, pair_ids)
        check_width(anchors.images, self.classifier.shape[1])
        check_numbers("pair_ids", anchors.image_ids, 0, len(self.clusters.labels))
        local = pair_vectors(anchors.images, anchors.texts).to(self.clusters.centroids.dtype)
        samples = torch.cat([anchors.images, anchors.texts])
        # zero, but with a gradient for every parameter from the start
        loss = 0.0 * prototype_logits(samples, self.classifier.to(samples.dtype)).sum()
        if self.clusters.ready:
            classified = self.classify(local, anchors.images, anchors.texts, anchors.image_ids)
            loss = classified.per_pair.mean()
        if self.training:
            self.clusters.update(parallel.gather_rows(local), anchors.all_image_ids)
        return loss

    def classify(self, vectors: Tensor, images: Tensor, texts: Tensor, pair_ids: Tensor) -> Classified:
        """Classify pairs once the centroids exist.

        Args:
            vectors: (B, D) of the pairs (`pair_vectors`), which determine their prototypes.
            images, texts: (B, D) unit rows to classify.
            pair_ids: (B,) numbers of the pairs.
        """
        assigned = self.clusters.assign(vectors)
        # One matrix product for both modalities.
        samples = torch.cat([images, texts])
        logits = prototype_logits(samples, self.classifier.to(samples.dtype), temperature=self.temperature)
        labels = assigned.labels.repeat(2)
        if self.partners is not None:
            left_out = self._of_partners(self.partners, pair_ids, assigned.labels)
            logits = torch.where(left_out.repeat(2, 1), LEFT_OUT, logits)
        per_pair = _cross_entropy(logits, labels).view(2, -1).sum(0)
        correct = (best_columns(logits) == labels).float().view(2, -1)
        return Classified(per_pair, assigned, correct)

    def _of_partners(self, partners: Partners, pair_ids: Tensor, labels: Tensor) -> Tensor:
        """Return (B, K) bool: prototypes of the pairs' partners, except the pairs' own, the (B,) `labels`."""
        rows, others = partners.of(pair_ids)
        of_others = self.clusters.labels[others]
        known = of_others != NO_LABEL
        left_out = torch.zeros(len(pair_ids), self.clusters.count, dtype=torch.bool, device=labels.device)
        left_out[rows[known], of_others[known]] = True
        return left_out.scatter(1, labels[:, None], False)
