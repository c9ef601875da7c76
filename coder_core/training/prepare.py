"""Prepare a run before its first step: data, words, batches, inputs of the parts, model. Check sizes and schedules against
the data and the length of the run: prototypes, bank, warm-up, towers."""

import copy
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import numpy as np
import torch

from coder_core.config.checks import with_fitting_batch
from coder_core.config.schema import Config
from coder_core.console.faults import Fault, InputError, stop_on_errors
from coder_core.console.output import Progress, named, silent
from coder_core.data.augmentation import make_vague
from coder_core.data.batches import TrainingBatches
from coder_core.data.split import Split, compare_splits, part_images, split_checksums
from coder_core.data.words import Tokens, Vocabulary
from coder_core.demo import DRAWING
from coder_core.evaluation.relevance import equal_text_count, share_texts, text_numbers
from coder_core.geometry.text_space import TextSpace
from coder_core.model.coder import Coder, ModelParts, build_model
from coder_core.model.concepts.knowledge import Concepts, make_concepts
from coder_core.model.device import no_grad_precision
from coder_core.model.reader import CaptionReader, data_folder, initial_word_vectors, make_reader, read_splits
from coder_core.model.run_towers import RunTowers
from coder_core.objectives.diversity_contrastive import CoderLoss
from coder_core.objectives.memory import BATCH_NORMS, share_of_start, start_that_leaves
from coder_core.objectives.modules import PairLoss, ScaledLoss
from coder_core.ops import parallel
from coder_core.runs.derived.neighbours import Neighbourhood, train_neighbourhood
from coder_core.runs.load import LoadedModel
from coder_core.training.gradient_caching import check_pieces
from coder_core.training.parts.boosting import (
    Boosting,
    BoostingTeacher,
    OnlineBranches,
    read_teacher,
    start_from_teacher,
)
from coder_core.training.parts.memory import MomentumMemory
from coder_core.training.parts.neighbourhoods import Neighbourhoods
from coder_core.training.parts.prototypes import PrototypeClassification
from coder_core.training.parts.regularisers import EmbeddingRegularisers
from coder_core.training.parts.scale import LearnedScale
from coder_core.training.reviewed import ReviewedTrain, ReviewWeights, UsedReviews, apply_reviews
from coder_core.training.step import Objective, Part, instance_loss

BRANCH_STREAM = 8  # random stream of the initial weights of boosting's online branches
MOST_TEXTS = 16  # of one image that other images share; its further ones are as if they were different
PAIRS_A_PROTOTYPE = 15  # as in the paper: 145,000 pairs of Flickr30K, 10,000 prototypes
MOST_OF_START = 0.05  # share of random initial weights tolerated in a momentum teacher without a warning


@dataclass(frozen=True)
class Inputs:
    """Inputs of a run besides its configuration. A continued run reads them from its own folder."""

    vocabulary: Vocabulary | None = None  # of a BiGRU run; None: build it from the train captions
    concepts: Concepts | None = None  # of the concept branch; None: find them in the train captions
    text_space: TextSpace | None = None  # None: build it if the configuration needs one
    towers: RunTowers | None = None  # None if the configuration names none
    reviews: UsedReviews | None = None  # None: train without reviews
    pretrained: bool = True  # load BERT's weights and word vectors; False if a saved state replaces them
    download: bool = True  # download missing BERT files; False if another person may have named the model


@dataclass(frozen=True)
class TrainingData:
    """Splits of a run."""

    as_read: Split  # the train split as read from its files
    train: Split  # the train split after reviews, vague captions and `train_part`
    dev: Split | None  # None if the data has none
    checksums: dict[str, str]  # "train_features", "train_captions" and the same for dev → SHA-256 (hex)
    review_weights: np.ndarray | None  # (m,) float32 of the train pairs, or None if all are equal
    # (m,), (m, 2) or (m, 2, K) int64 of the train pairs, see `same_image_negatives`
    pair_ids: np.ndarray | None


@dataclass(frozen=True)
class Words:
    """Vocabulary, caption reader and tokenised captions."""

    vocabulary: Vocabulary | None  # of a BiGRU run, or None
    vectors: torch.Tensor | None  # (words, size) initial word vectors, or None for random ones
    reader: CaptionReader
    train: Tokens  # of the train captions
    dev: Tokens | None


@dataclass(frozen=True)
class Sources:
    """Inputs of the optional parts; None for a configuration without them."""

    concepts: Concepts | None = None  # of the concept branch
    teacher: LoadedModel | None = None  # finished run that sets the margins of boosting
    neighbourhood: Neighbourhood | None = None  # semantic neighbours of the train captions


@dataclass(frozen=True)
class Prepared:
    """A run before its first step."""

    data: TrainingData
    words: Words
    batches: TrainingBatches
    sources: Sources
    model: Coder  # on the CPU, with its initial weights
    branches: tuple[Coder, ...] = ()  # online branches of boosting, in the order in which they train
    inputs: Inputs = field(default_factory=Inputs)
    faults: tuple[Fault, ...] = ()  # warnings and notes


def prepare(config: Config, inputs: Inputs | None = None, progress: Progress = silent) -> Prepared:
    """Read and check the data; build words, batches, the parts' inputs and the model. InputError: the data, the
    teacher or the BERT folder cannot be used."""
    inputs = inputs or Inputs()
    data, faults = _read_data(config, inputs, progress)
    pairs = data.train.n_texts
    words, data, notes = _words(config, data, inputs)
    faults += notes
    config, cut = with_fitting_batch(config, data.train.n_texts, pairs)
    faults += cut
    batches = _make_batches(config, data, words)
    faults += stop_on_errors(check_sizes(config, data.train.n_texts, batches.per_epoch))
    faults += stop_on_errors(check_towers(inputs.towers, words.train, parallel.world_size()))
    sources, notes = _find_sources(config, data, words, inputs, progress)
    model, branches = _build_models(config, data, words, sources, inputs)
    data = replace(data, checksums=data.checksums or _checksums(data, progress))
    return Prepared(data, words, batches, sources, model, branches, inputs, (*faults, *notes))


def _read_data(config: Config, inputs: Inputs, progress: Progress) -> tuple[TrainingData, list[Fault]]:
    """Read the splits, and apply reviews and vague captions to the train split."""
    folder = data_folder(config.data.data, named(progress, DRAWING))
    read = read_splits(config, folder, inputs.towers, ("train", "dev"), to_train=True, progress=progress)
    train = read.splits["train"]
    dev = read.splits.get("dev")
    faults = read.faults
    faults += _check_dev(config, folder, train, dev, read.names)
    reviewed = ReviewedTrain(train, image_groups=train.image_groups)
    if inputs.reviews is not None:
        reviewed = apply_reviews(train, inputs.reviews, config.data)

    faults += reviewed.faults
    used = reviewed.split
    ids, notes = pair_ids(used, train, reviewed.image_groups, config)
    faults += notes
    if config.data.vague_captions > 0:
        captions = make_vague(used.captions, config.data.vague_captions, config.training.seed)
        used = replace(used, captions=captions)

    return TrainingData(train, used, dev, read.checksums, reviewed.weights, ids), faults


def pair_ids(
    train: Split, as_read: Split, image_groups: np.ndarray | None, config: Config
) -> tuple[np.ndarray | None, list[Fault]]:
    """Return the ids of the m train pairs, and notes on the choice.

    The ids are (m,) int64 groups of images or, if equal texts match, those of `text_ids`; None if pairs are negatives of
    each other unless they have the same image.

    Args:
        train: the split after reviews.
        as_read: the split before them. Its equal texts are counted: pairs that reviews add repeat a text by intention.
        image_groups: (n,) int64, equal for images that show the same thing; None without groups.
    """
    by_image = np.arange(train.n_images) if image_groups is None else image_groups
    groups = by_image[train.image_of_text]
    known = as_read.image_groups
    owner = as_read.image_of_text if known is None else known[as_read.image_of_text]
    shared = equal_text_count(as_read.captions, owner)
    if shared == 0:
        return (None if image_groups is None else groups), []

    choice = config.data.equal_texts
    thing = "image" if known is None else "group"
    share = f"{shared:,} of {as_read.n_texts:,} captions have a text that another {thing} has too"
    if config.objective.same_image_negatives or choice == "label":
        fact = f"{share}; these pairs are negatives of each other"
        note = Fault("--equal-texts label", fact, fix="--equal-texts match leaves them out", severity="note")
        return (None if image_groups is None else groups), [note]
    fact = f"{share}; these pairs are not negatives of each other"
    fix = "--equal-texts label makes them negatives"
    note = Fault("--equal-texts match", fact, fix=fix, severity="note")
    return text_ids(groups, train.image_of_text, train.captions), [note]


def text_ids(groups: np.ndarray, image_of_text: np.ndarray, captions: Sequence[str]) -> np.ndarray:
    """Return ids of m pairs (`same_image_negatives`) by which a pair is no negative of the pairs of its group, nor of those
    whose text its image has, too: (m, 2) groups and numbers of texts or, if an image has several texts and others share
    them, (m, 2, K), for the image its group and its texts, and for the caption its group and its text, repeated.

    >>> text_ids(np.array([0, 0, 1]), np.array([0, 0, 1]), ["a shoe", "red", "red"]).tolist()
    [[[0, 0, 1], [0, 0, 0]], [[0, 1, 1], [0, 1, 1]], [[1, 1, 1], [1, 1, 1]]]

    Args:
        groups: (m,) int64, the group of every pair's image.
        image_of_text: (m,) int64.
        captions: the m texts.
    """
    texts = text_numbers(captions)

    # every (image, text) whose text other images have, too, sorted by image; and its place among those of its image
    shared = share_texts(captions, image_of_text)
    owned = np.unique(np.stack([image_of_text[shared], texts[shared]], 1), axis=0)
    owner, shared_text = owned.T
    place = np.arange(len(owner)) - np.searchsorted(owner, owner)

    # one row per image: its shared texts, then -1
    columns = min(place.max(initial=0) + 1, MOST_TEXTS)
    texts_of_image = np.full((image_of_text.max() + 1, columns), -1)
    kept = place < columns
    texts_of_image[owner[kept], place[kept]] = shared_text[kept]

    # one row per pair: the shared texts of its image, then its own text
    others = texts_of_image[image_of_text]
    others = np.where(others < 0, texts[:, None], others)
    of_images = np.column_stack([groups, texts, others])
    of_captions = np.column_stack([groups, texts, np.broadcast_to(texts[:, None], others.shape)])
    if np.array_equal(of_images, of_captions):
        return of_captions[:, :2]
    return np.stack([of_images, of_captions], 1)


def _check_dev(
    config: Config, folder: Path, train: Split, dev: Split | None, names: Sequence[str]
) -> list[Fault]:
    """Compare dev with train; warn if dev is missing. InputError: the configuration needs dev, or more images in it."""
    if config.training.choose_on == "half" and (dev is None or dev.n_images < 2):
        count = "no dev split" if dev is None else "1 dev image"
        raise InputError(Fault("--choose-on half", f"the data has {count}", "at least 2 images in dev"))
    if dev is not None:
        return stop_on_errors(compare_splits([train, dev]))
    if config.training.schedule == "plateau":
        expected = "a dev split, because the schedule depends on its R@sum"
        raise InputError(Fault("--schedule plateau", "the data has no dev split", expected))
    problem = f"has no dev split (only {', '.join(names)})"
    return [Fault(str(folder), problem, fix="the last step is kept as the best", severity="warning")]


def _words(config: Config, data: TrainingData, inputs: Inputs) -> tuple[Words, TrainingData, list[Fault]]:
    """Build the vocabulary from all train captions, then keep the configured share of the images."""
    vocabulary = inputs.vocabulary
    vectors = None
    notes: list[Fault] = []
    if config.has_vocabulary:
        captions = data.train.captions
        vocabulary = vocabulary or Vocabulary.build(captions, threshold=config.data.word_threshold)
        if inputs.pretrained:
            vectors, notes = initial_word_vectors(config, vocabulary, captions)
    if config.data.train_part < 1:
        data = _share_of_images(config, data)
    tower = inputs.towers.text if inputs.towers is not None else None
    reader = make_reader(config, vocabulary, download=inputs.download, tower=tower)
    dev = reader.encode(data.dev.captions) if data.dev is not None else None
    return Words(vocabulary, vectors, reader, reader.encode(data.train.captions), dev), data, notes


def _share_of_images(config: Config, data: TrainingData) -> TrainingData:
    """Keep only the captions of the configured share of the train images."""
    train = data.train
    share = config.data.train_part
    images = part_images(train.n_images, share, config.training.seed, other=config.data.other_part)
    in_share = np.isin(train.image_of_text, images)
    if not in_share.any():
        fact = f"selects only images without captions, out of {train.n_images:,} train images"
        raise InputError(Fault(f"--train-part {share:g}", fact, fix="choose another share"))
    weights = None if data.review_weights is None else data.review_weights[in_share]
    ids = None if data.pair_ids is None else data.pair_ids[in_share]
    return replace(data, train=train.of_texts(np.flatnonzero(in_share)), review_weights=weights, pair_ids=ids)


def _make_batches(config: Config, data: TrainingData, words: Words) -> TrainingBatches:
    training = config.training
    return TrainingBatches(
        data.train,
        words.train,
        pair_ids=data.pair_ids,
        batch_size=training.batch_size,
        seed=training.seed,
        drop_regions=config.data.drop_regions,
        drop_words=config.data.drop_words,
        fixed_ends=words.reader.fixed_ends,
        augment=config.towers.augment,
        part=parallel.rank(),
        parts=parallel.world_size(),
    )


def _find_sources(
    config: Config, data: TrainingData, words: Words, inputs: Inputs, progress: Progress
) -> tuple[Sources, list[Fault]]:
    """Find the concepts, load the teacher and search for neighbours."""
    concepts = inputs.concepts
    notes = list[Fault]()
    if config.model.concepts > 0 and concepts is None:
        watch = named(progress, "finding concepts")
        concepts, notes = make_concepts(config, data.train.captions, progress=watch)

    teacher = None
    if config.boosting.offline:
        teacher = read_teacher(config, words.vocabulary, data.train.feature_size, inputs.towers)
    if not config.weighting.reads_neighbours:
        return Sources(concepts, teacher), notes

    captions = data.train.captions
    owner = data.train.image_of_text
    space = inputs.text_space
    with parallel.first_process_first():
        neighbourhood = train_neighbourhood(config, captions, owner, space=space, progress=progress)

    return Sources(concepts, teacher, neighbourhood), [*notes, *neighbourhood.faults]


def _build_models(
    config: Config, data: TrainingData, words: Words, sources: Sources, inputs: Inputs
) -> tuple[Coder, tuple[Coder, ...]]:
    """Build the model from the run's seed, and boosting's online branches, without concepts, each from its own seed."""
    parts = ModelParts(
        feature_size=data.train.feature_size,
        words=words.reader.size,
        vectors=words.vectors,
        towers=inputs.towers,
    )
    build = partial(build_model, config.model, pretrained=inputs.pretrained, download=inputs.download)
    branches = []
    if config.boosting.online:
        for number in range(1, config.boosting.boosting_branches):
            sequence = np.random.SeedSequence((config.training.seed, BRANCH_STREAM, number))
            torch.manual_seed(int(sequence.generate_state(1, np.uint64)[0]) % 2**63)
            branches.append(build(parts))

    torch.manual_seed(config.training.seed)
    model = build(replace(parts, concepts=sources.concepts))
    if config.training.gradient_checkpointing:
        for coder in (model, *branches):
            coder.checkpoint_activations()
    if sources.teacher is not None:
        start_from_teacher(config, model, sources.teacher)
    if config.training.piece_size:
        stop_on_errors(check_pieces(model, config.training.piece_size))

    return model, tuple(branches)


def _checksums(data: TrainingData, progress: Progress) -> dict[str, str]:
    checksums: dict[str, str] = {}
    with parallel.first_process_first():
        for split in filter(None, (data.as_read, data.dev)):
            of_split = split_checksums(split, named(progress, f"checksum of {split.name}"))
            checksums |= {f"{split.name}_{part}": checksum for part, checksum in of_split.items()}
    return checksums


def check_sizes(config: Config, pairs: int, steps_per_epoch: int) -> list[Fault]:
    """Check the sizes of bank and prototypes, and the teacher's momentum, for a run on `pairs` training captions."""
    faults = []
    if config.memory.bank_size > pairs:
        message = f"is {config.memory.bank_size:,}, more than the {pairs:,} training captions"
        fix = "lower it, because the bank would contain stale duplicates"
        faults.append(Fault("--bank-size", message, fix=fix, severity="warning"))
    if config.memory.prototypes:
        pass_pairs = steps_per_epoch * config.training.batch_size
        faults += check_prototypes(config.memory.prototypes, pairs, pass_pairs)
    return faults + check_teacher_momentum(config, config.training.steps(steps_per_epoch))


def check_towers(towers: RunTowers | None, tokens: Tokens, processes: int) -> list[Fault]:
    """Return an error if batch norm would train in several processes, a note if a tower may truncate train captions."""
    if towers is None:
        return []

    faults = []
    tuning = towers.config
    sides = (("image", towers.image, tuning.image_tuning), ("text", towers.text, tuning.text_tuning))
    for side, half, how in sides:
        normalised = half is not None and any(isinstance(part, BATCH_NORMS) for part in half.module.modules())
        if normalised and how == "full" and processes > 1:
            problem = f"has batch normalisation, but each of {processes} processes sees only part of a batch"
            fix = "train in one process or by lora, or give the tower group or layer normalisation"
            expected = "results that do not depend on the number of processes"
            faults.append(Fault(f"--{side}-tower", problem, expected, fix))

    longest = towers.text.about.get("longest", 0) if towers.text is not None else 0
    full = int((tokens.lengths >= longest).sum()) if longest else 0
    if full:
        problem = f"{full:,} captions fill the {longest} tokens of the text tower; longer captions are cut"
        faults.append(Fault("train captions", problem, severity="note"))

    return faults


def check_prototypes(count: int, pairs: int, pass_pairs: int) -> list[Fault]:
    """Return an error if a pass has too few pairs to seed the prototypes, a warning for fewer than two pairs each."""
    fits = max(2, pairs // PAIRS_A_PROTOTYPE)
    fix = f"--prototypes {fits:,} fits this data (the paper has one for about {PAIRS_A_PROTOTYPE} pairs)"
    message = f"is {count:,}, but an epoch has {pass_pairs:,} image-caption pairs"
    if count > pass_pairs:
        return [Fault("--prototypes", message, f"at most {pass_pairs:,}", fix)]
    if count > pairs // 2:
        return [Fault("--prototypes", message, "several pairs per prototype", fix, severity="warning")]
    return []


def check_teacher_momentum(config: Config, steps: int) -> list[Fault]:
    """Return a warning if more than 5% of its random initial weights would remain in a momentum teacher at the end."""
    boosting = config.boosting
    if boosting.boosting == "none" or boosting.boosting_scenario != "momentum":
        return []
    left = share_of_start(steps, boosting.boosting_momentum)
    if left <= MOST_OF_START:
        return []
    fitting = math.floor(start_that_leaves(MOST_OF_START, steps) * 1e5) / 1e5
    message = f"is {boosting.boosting_momentum:g}: after {steps:,} steps the teacher is {left:.0%} random"
    expected = f"at most {fitting:.5g} for {MOST_OF_START:.0%}"
    fix = "lower it, because an untrained teacher gives meaningless margins"
    return [Fault("--boosting-momentum", message, expected, fix, severity="warning")]


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
    if prepared.data.pair_ids is not None:
        loss.bank.set_columns(prepared.data.pair_ids.shape[1:])
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
    data = prepared.data
    return PrototypeClassification(config, data.train.image_of_text, pass_pairs, data.pair_ids)
