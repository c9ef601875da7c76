"""Prepare a run before its first step: data, words, batches, inputs of the parts, model."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import numpy as np
import torch

from coder_core.config.schema import Config
from coder_core.console.faults import Fault, InputError, stop_on_errors
from coder_core.console.progress import Progress, named, silent
from coder_core.data.augmentation import make_vague
from coder_core.data.batches import TrainingBatches
from coder_core.data.split import Split, compare_splits, part_images, split_checksums
from coder_core.data.words import Tokens, Vocabulary
from coder_core.demo import DRAWING
from coder_core.geometry.text_space import TextSpace
from coder_core.model.build import ModelParts, build_model
from coder_core.model.coder import Coder
from coder_core.model.concept_branch import make_concepts
from coder_core.model.concepts.knowledge import Concepts
from coder_core.model.reader import CaptionReader, initial_word_vectors, make_reader
from coder_core.model.run_towers import RunTowers
from coder_core.model.splits import data_folder, read_splits
from coder_core.ops import parallel
from coder_core.runs.derived.neighbours import Neighbourhood, train_neighbourhood
from coder_core.runs.load import LoadedModel
from coder_core.training.gradient_caching import check_pieces
from coder_core.training.parts.boosting import read_teacher, start_from_teacher
from coder_core.training.reviewed import UsedReviews, apply_reviews
from coder_core.training.size_checks import check_sizes, check_towers, with_fitting_batch

BRANCH_STREAM = 8  # random stream of the initial weights of boosting's online branches


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
    image_groups: np.ndarray | None  # (n,) groups of images that share captions, or None


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
    read = read_splits(config, folder, inputs.towers, ("train", "dev"), progress=progress)
    train = read.splits["train"]
    dev = read.splits.get("dev")
    faults = read.faults
    faults += _check_dev(config, folder, train, dev, read.names)
    reviewed = apply_reviews(train, inputs.reviews, config.data)
    faults += reviewed.faults
    used = reviewed.split
    if config.data.vague_captions > 0:
        captions = make_vague(used.captions, config.data.vague_captions, config.training.seed)
        used = replace(used, captions=captions)
    return TrainingData(train, used, dev, read.checksums, reviewed.weights, reviewed.image_groups), faults


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
    return replace(data, train=train.of_texts(np.flatnonzero(in_share)), review_weights=weights)


def _make_batches(config: Config, data: TrainingData, words: Words) -> TrainingBatches:
    training = config.training
    return TrainingBatches(
        data.train,
        words.train,
        image_groups=data.image_groups,
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
    stop_on_errors(check_pieces(model, config.training.piece_size))
    return model, tuple(branches)


def _checksums(data: TrainingData, progress: Progress) -> dict[str, str]:
    checksums: dict[str, str] = {}
    with parallel.first_process_first():
        for split in filter(None, (data.as_read, data.dev)):
            of_split = split_checksums(split, named(progress, f"checksum of {split.name}"))
            checksums |= {f"{split.name}_{part}": checksum for part, checksum in of_split.items()}
    return checksums
