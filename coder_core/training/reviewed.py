"""Apply reviews to the train split (leave pairs out, weight them, add pairs) and store the verdicts with the run."""

import json
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from coder_core.config.data import DataConfig
from coder_core.config.schema import Config
from coder_core.console.faults import Fault, InputError
from coder_core.data.batches import Batch
from coder_core.data.reviews import (
    CLEANING,
    JudgedSplit,
    Pair,
    Review,
    Reviews,
    Verdict,
    image_keys,
    judge_split,
    parse_reviews,
    read_reviews,
    verdicts_fingerprint,
)
from coder_core.data.split import Split
from coder_core.files.sealed import SealedFolder
from coder_core.model.coder import Coder
from coder_core.ops import parallel
from coder_core.training.step import Part

CPU = torch.device("cpu")
FILE = "reviews.json"  # in the folder of a run
FINGERPRINT = "reviews_sha256"  # in the table [about]


@dataclass(frozen=True)
class UsedReviews:
    """Verdicts on all splits of a run's data, warnings about the file, and pair weights from `train --clean-weigh`."""

    verdicts: dict[Pair, Verdict]
    faults: tuple[Fault, ...] = ()
    weights: dict[Pair, str] = field(default_factory=dict)
    cleaned: frozenset[Pair] = frozenset()  # pairs of train that `train --clean` judged, if the file is read

    @property
    def fingerprint(self) -> str:
        return verdicts_fingerprint(self.verdicts, self.weights)

    def to_text(self) -> str:
        """Return the content of the run's own reviews file, without reviewers and notes."""
        rows = [[*pair, verdict] for pair, verdict in self.verdicts.items()]
        weights = [[*pair, weight] for pair, weight in self.weights.items()]
        document = {"fingerprint": self.fingerprint, "verdicts": rows}
        return json.dumps(document | ({"weights": weights} if weights else {}))


@dataclass(frozen=True)
class ReviewedTrain:
    """Train split after the reviews."""

    split: Split  # without the omitted pairs; added pairs come last
    weights: np.ndarray | None = None  # (m,) float32 of its pairs; None if all are equal
    image_groups: np.ndarray | None = None  # (n,) int64, equal for images of one group or that share captions
    faults: tuple[Fault, ...] = ()  # notes on the changes


def named_reviews(config: Config, device: torch.device = CPU) -> UsedReviews:
    """Read the reviews that a new run names. Errors as for `read_reviews`.

    All processes use rank 0's verdicts, broadcast through `device`, because the file may change while they read it.
    """
    reviews = _read(config)
    if parallel.world_size() == 1:
        return reviews
    document = json.loads(parallel.broadcast_text(reviews.to_text(), device))
    verdicts = {(image, caption): verdict for image, caption, verdict in document["verdicts"]}
    return replace(reviews, verdicts=verdicts, weights=_weights(document))


def _weights(document: dict[str, Any]) -> dict[Pair, str]:
    """Return the weights in a document of `UsedReviews`. ValueError, TypeError: they are malformed."""
    weights = {(image, caption): weight for image, caption, weight in document.get("weights", ())}
    if not all(0 <= float(weight) <= 1 for weight in weights.values()):
        raise ValueError("a weight outside [0, 1]")
    return weights


def _read(config: Config) -> UsedReviews:
    reviews = read_reviews(Path(config.data.reviews))
    cleaned = frozenset(reviews.by_reviewer.get(CLEANING, ()))
    return UsedReviews(reviews.verdicts, reviews.faults, reviews.weights, cleaned)


def reviews_of_run(folder: Path, stored: Config, config: Config, about: dict[str, Any]) -> UsedReviews | None:
    """Read the reviews of a continued run from its folder, with a note if their source has changed or is unreadable.
    InputError: the run's own file is damaged, or the configuration now names a file with different verdicts."""
    if bool(stored.data.reviews) != bool(config.data.reviews):
        fact = f"is {config.data.reviews!r}"
        expected = f"{stored.data.reviews!r}, as the run began"
        raise InputError(Fault("--reviews", fact, expected, "start a new run"))
    if not stored.data.reviews:
        return None

    file = str(folder / FILE)
    try:
        document = json.loads(SealedFolder(folder).read(FILE))
        rows = document["verdicts"]
        weights = _weights(document)
        lines = [Review(image, caption, verdict, "unnamed").document() for image, caption, verdict in rows]
    except (ValueError, TypeError, LookupError, RecursionError) as error:
        fault = Fault(file, f"cannot be read: {error}", "the run's own verdicts", "restore the file")
        raise InputError(fault) from None

    used = UsedReviews(parse_reviews("\n".join(map(json.dumps, lines)).encode(), file).verdicts, (), weights)
    if used.fingerprint != about.get(FINGERPRINT):
        raise InputError(Fault(file, "has verdicts that the run did not begin with", fix="restore the file"))

    flag = f"--reviews {config.data.reviews}"
    fix = "leave --reviews out: the run keeps the verdicts it began with; or start a new run"
    try:
        now = _read(config)
    except InputError:
        if config.data.reviews != stored.data.reviews:
            raise
        now = None

    if now is not None and now.fingerprint == used.fingerprint:
        return used
    if config.data.reviews != stored.data.reviews:
        raise InputError(Fault(flag, "has verdicts that the run did not begin with", fix=fix))

    fact = "has new verdicts" if now else "can no longer be read"
    note = Fault(flag, f"{fact}; the run continues with the verdicts it began with", severity="note")
    return replace(used, faults=(note,))


def apply_reviews(train: Split, reviews: UsedReviews, settings: DataConfig) -> ReviewedTrain:
    """Leave out, weight and add pairs by the settings `wrong_weight`, `vague_weight`, … and `also_matches`.

    A pair of weight 0 is left out, also as a negative. An added pair is a caption that also matches another image; it has
    weight 1, or the caption's if it is vague or a duplicate. If the caption still belongs to its own image too, captions
    of either image are not negatives of the other image.
    """
    judged = judge_split(
        reviews.verdicts, train.image_names, train.captions, train.image_of_text, train.n_images
    )
    keys = image_keys(train.image_names, train.captions, train.image_of_text, train.n_images)
    pairs = [(keys[image], train.captions[row]) for row, image in enumerate(train.image_of_text.tolist())]
    weights = weights_by_verdict(pairs, reviews, settings)
    facts = []
    confident = np.array([pair in reviews.weights for pair in pairs])
    if confident.any():
        facts.append(f"pairs weighted by confidence: {confident.sum():,}")
    for verdict, weight in _verdict_weights(settings).items():
        if count := int(((judged.labels == verdict) & ~confident).sum()):
            done = "left out" if weight == 0 else f"given weight {weight:g}"
            if weight == 1:
                done = "unchanged, because these verdicts have weight 1"
            facts.append(f"pairs {done} ({verdict}): {count:,}")

    matches = judged.matches if settings.also_matches else judged.matches[:0]
    if len(matches):
        facts.append(f"pairs added (also-matches): {len(matches):,}")

    facts += _without_effect(judged, settings)
    facts += [f"verdicts on pairs outside train: {judged.elsewhere:,}"] if judged.elsewhere else []
    done = "; ".join(facts) or "no verdict concerns a pair of train"
    flag = f"--reviews {settings.reviews}"
    faults = (*reviews.faults, Fault(flag, done, severity="note"))
    if missing := len(reviews.cleaned.difference(pairs)):
        fact = f"{missing:,} of {len(reviews.cleaned):,} pairs that --clean judged are not in train: the data has changed"
        fix = "restore the data, or repeat --clean with another --name"
        faults = (*faults, Fault(flag, fact, fix=fix, severity="warning"))

    retained = np.flatnonzero(weights > 0)
    if len(retained) == train.n_texts and not len(matches):
        of_pairs = weights if (weights != 1).any() else None
        return ReviewedTrain(train, of_pairs, train.image_groups, faults)

    rows = np.concatenate([retained, matches[:, 0]])
    split = train.of_texts(rows, np.concatenate([train.image_of_text[retained], matches[:, 1]]))
    of_matches = weights[matches[:, 0]]
    # A doubt about a caption's own pair does not concern an added one; a vague caption is vague for every image.
    inherits = (
        (of_matches > 0) & (judged.labels != "wrong-caption")[matches[:, 0]] & ~confident[matches[:, 0]]
    )
    used = np.concatenate([weights[retained], np.where(inherits, of_matches, 1)])
    of_both = matches[of_matches > 0]  # captions that belong to both images
    groups = _groups(train, of_both) if len(of_both) else train.image_groups
    return ReviewedTrain(split, used if (used != 1).any() else None, groups, faults)


def _without_effect(judged: JudgedSplit, settings: DataConfig) -> list[str]:
    """Say of the verdicts that change nothing why they do not."""
    facts = []
    if judged.already_labels:
        facts.append(f"also-matches without effect, because the pair is a label: {judged.already_labels:,}")
    if len(judged.matches) and not settings.also_matches:
        facts.append(f"also-matches without effect, because of --no-also-matches: {len(judged.matches):,}")
    if confirmed := len(judged.rows("label-right")):
        facts.append(f"pairs unchanged, because their label is right (label-right): {confirmed:,}")
    return facts


def weights_by_verdict(
    pairs: Iterable[Pair], reviews: Reviews | UsedReviews, settings: DataConfig
) -> np.ndarray:
    """Return the float32 weights of train pairs, 0 for those left out: by confidence, or else by the verdict on the pair
    or on its whole image."""
    of_verdict = _verdict_weights(settings)
    verdicts = reviews.verdicts
    labels = ((pair, verdicts.get(pair, verdicts.get((pair[0], ""), "none"))) for pair in pairs)
    weights = [float(reviews.weights.get(pair, of_verdict.get(label, 1))) for pair, label in labels]
    return np.array(weights, np.float32)


def _verdict_weights(settings: DataConfig) -> dict[Verdict, float]:
    weights = settings.wrong_weight, settings.vague_weight, settings.duplicate_weight
    return dict(zip(("wrong-caption", "too-vague", "duplicate"), weights, strict=True))


def _groups(train: Split, matches: np.ndarray) -> np.ndarray:
    """Return (n,) groups: for each image the smallest row among the images connected to it by shared captions or by the
    groups of the data."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    n = train.n_images
    left = train.image_of_text[matches[:, 0]]
    right = matches[:, 1]
    if train.image_groups is not None:
        _, first_row, group = np.unique(train.image_groups, return_index=True, return_inverse=True)
        left = np.concatenate([left, np.arange(n)])
        right = np.concatenate([right, first_row[group]])
    links = coo_array((np.ones(len(left)), (left, right)), shape=(n, n))
    _, groups = connected_components(links, directed=False)
    _, first = np.unique(groups, return_index=True)
    return np.asarray(first[groups], dtype=np.int64)


class ReviewWeights(Part):
    """Weights of reviewed pairs for the instance branch; a part without state."""

    weights: Tensor  # (m,) of all train pairs

    def __init__(self, weights: Tensor) -> None:
        super().__init__()
        self.register_buffer("weights", weights, persistent=False)

    def loss_inputs(self, model: Coder, batch: Batch) -> dict[str, Any]:
        """Return the weights of this step's pairs."""
        return {"review_weights": self.weights[batch.text_ids]}
