"""Read and check the data and build words, batches and model, before the first step of a run."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import compress
from pathlib import Path

import numpy as np
import torch

from coder_core.config.schema import Config
from coder_core.console.faults import Fault, InputError, stop_on_errors
from coder_core.data.batches import TrainingBatches
from coder_core.data.checksums import split_checksums
from coder_core.data.dataset import Split, compare_splits, fingerprint, part_images
from coder_core.data.vague import make_vague
from coder_core.data.words import Tokens, Vocabulary
from coder_core.demo import DEMO_FOLDER, make_demo
from coder_core.geometry.text_space import TextSpace
from coder_core.model.build import build_model
from coder_core.model.coder import Coder
from coder_core.model.concept_branch import make_concepts
from coder_core.model.concepts.knowledge import Concepts
from coder_core.model.reader import CaptionReader, initial_word_vectors, make_reader
from coder_core.model.run_towers import RunTowers
from coder_core.model.splits import read_splits
from coder_core.runs.derived.neighbours import Neighbourhood, train_neighbourhood
from coder_core.runs.load import LoadedModel
from coder_core.training import parallel
from coder_core.training.offline_teacher import read_teacher, start_from_teacher
from coder_core.training.pieces import check_pieces
from coder_core.training.reviewed import UsedReviews, apply_reviews
from coder_core.training.size_checks import check_sizes, check_towers

Progress = Callable[[str, int, int], None]

BRANCH_STREAM = 8  # of the random numbers that an online branch of boosting starts from
DEMO = "demo"
CARD = "demo.json"  # stands in a folder of finished demo data


@dataclass(frozen=True)
class Prepared:
    """What training reads and what it trains.

    Args:
        train: the train split.
        dev: the dev split, or None when the data has none.
        dev_tokens: its captions as numbers.
        reader: of captions.
        vocabulary: of a BiGRU run.
        batches: the stream of training batches.
        model: on the CPU, at its start.
        fingerprint: of a sample of the train split, as runs of version 0.1 have it.
        checksums: "train_features", "train_captions" and the same of dev -> sha256 (hex) of all of them.
        faults: warnings and notes about all of it.
        concepts: of the concept branch, or None.
        teacher: the finished run whose margins boosting surpasses, or None.
        neighbourhood: the train captions' semantic neighbours, or None.
        branches: those that train before the model in the same step, in order.
        towers: that read its pictures or captions, or None.
        reviews: that it trains with, or None.
        review_weights: (m,) float32 of the train pairs, or None where all count alike.
    """

    train: Split
    dev: Split | None
    dev_tokens: Tokens | None
    reader: CaptionReader
    vocabulary: Vocabulary | None
    batches: TrainingBatches
    model: Coder
    fingerprint: str
    checksums: dict[str, str]
    faults: list[Fault]
    concepts: Concepts | None = None
    teacher: LoadedModel | None = None
    neighbourhood: Neighbourhood | None = None
    branches: tuple[Coder, ...] = ()
    towers: RunTowers | None = None
    reviews: UsedReviews | None = None
    review_weights: np.ndarray | None = None


def data_folder(name: str, progress: Callable[[int, int], None] | None = None) -> Path:
    """The folder of a data set; "demo" is made on first use, in .cache/demo or where $CODER_DEMO says."""
    if not name:
        raise InputError(
            Fault(
                "--data",
                "is empty",
                "a folder, or demo",
                "name the folder of {split}_ims.npy and {split}_caps.txt",
            )
        )
    if name != DEMO:
        return Path(name)
    custom = os.environ.get("CODER_DEMO")
    folder = Path(custom or DEMO_FOLDER)
    if custom and (folder / CARD).is_file():
        return folder  # made beforehand, perhaps of another size
    if parallel.rank() == 0:
        make_demo(folder, progress=progress)
    parallel.barrier()
    return folder


def prepare(
    config: Config,
    vocabulary: Vocabulary | None = None,
    progress: Progress | None = None,
    concepts: Concepts | None = None,
    text_space: TextSpace | None = None,
    *,
    pretrained: bool = True,
    download: bool = True,
    towers: RunTowers | None = None,
    reviews: UsedReviews | None = None,
) -> Prepared:
    """Read and check the data, build words, batches and model.

    Args:
        config: of the run.
        vocabulary: of a run that is continued; built from the train captions when None.
        progress: called with what is being made, how much is done and how much there is.
        concepts: of a run that is continued; taken from the train captions when None and the configuration has them.
        text_space: of a run that is continued; made when None and the configuration needs it.
        pretrained: load BERT's weights; False when those of a state follow.
        download: what this machine lacks of BERT; False when somebody else may have named it.
        towers: of a configuration that names some.
        reviews: to train with.

    Raises:
        InputError: the data or the BERT folder cannot be used.
    """
    folder = data_folder(
        config.data.data, partial(progress, "drawing the demo pictures") if progress else None
    )
    read = read_splits(config, folder, towers, ("train", "dev"), progress=progress)
    train, dev, names = read.splits["train"], read.splits.get("dev"), read.names
    faults = read.faults
    if dev is not None:
        faults += stop_on_errors(compare_splits([train, dev]))
    if dev is None:
        text = f"has no dev split (only {', '.join(names)})"
        faults.append(Fault(str(folder), text, fix="the last step is kept as the best", severity="warning"))
    if config.training.choose_on == "half" and (dev is None or dev.n_images < 2):
        count = "no dev split" if dev is None else "1 dev image"
        raise InputError(Fault("--choose-on half", f"the data has {count}", "at least 2 images in dev"))
    if config.training.schedule == "plateau" and dev is None:
        raise InputError(
            Fault("--schedule plateau", "the data has no dev split", "dev, whose R@sum may stand still")
        )
    as_read = train
    reviewed = apply_reviews(train, reviews, config.data)
    train = reviewed.split
    faults += reviewed.faults
    if config.data.vague_captions > 0:
        vague = make_vague(train.captions, config.data.vague_captions, config.training.seed)
        train = replace(train, captions=vague)
    vectors = None
    if config.has_vocabulary and vocabulary is None:
        vocabulary = Vocabulary.build(train.captions, threshold=config.data.word_threshold)
        vectors, about_vectors = initial_word_vectors(config, vocabulary, train.captions)
        faults += about_vectors
    weights = reviewed.weights
    if config.data.train_part < 1:
        train, weights = _part_of(train, weights, config)
    text_tower = towers.text if towers is not None else None
    reader = make_reader(config, vocabulary, download=download, tower=text_tower)
    batches = TrainingBatches(
        train,
        reader.encode(train.captions),
        batch_size=config.training.batch_size,
        seed=config.training.seed,
        drop_regions=config.data.drop_regions,
        drop_words=config.data.drop_words,
        fixed_ends=reader.fixed_ends,
        part=parallel.rank(),
        parts=parallel.world_size(),
        augment=config.towers.augment,
        image_groups=reviewed.image_groups,
    )
    faults += stop_on_errors(check_sizes(config, train.n_texts, batches.per_epoch))
    faults += stop_on_errors(check_towers(towers, batches.tokens, parallel.world_size()))
    if config.model.concepts > 0 and concepts is None:
        concepts, about_concepts = make_concepts(
            config, train.captions, progress=partial(progress, "finding concepts") if progress else None
        )
        faults += about_concepts
    teacher = read_teacher(config, vocabulary, train.feature_size, towers)
    neighbourhood = _find_neighbours(config, train, text_space, progress)
    faults += neighbourhood.faults if neighbourhood is not None else []
    build = partial(
        build_model,
        config.model,
        feature_size=train.feature_size,
        words=reader.size,
        vectors=vectors,
        checkpointing=config.training.gradient_checkpointing,
        pretrained=pretrained,
        download=download,
        towers=towers,
    )
    branches = _branches(config, build)
    torch.manual_seed(config.training.seed)
    model = build(concepts=concepts)
    if teacher is not None:
        start_from_teacher(config, model, teacher)
    stop_on_errors(check_pieces(model, config.training.piece_size))
    dev_tokens = reader.encode(dev.captions) if dev else None
    checksums = read.checksums or _checksums([as_read, dev] if dev else [as_read], progress)
    return Prepared(
        train,
        dev,
        dev_tokens,
        reader,
        vocabulary if config.has_vocabulary else None,
        batches,
        model,
        fingerprint(as_read),
        checksums,
        faults,
        concepts,
        teacher,
        neighbourhood,
        branches,
        towers,
        reviews,
        weights,
    )


def _part_of(train: Split, weights: np.ndarray | None, config: Config) -> tuple[Split, np.ndarray | None]:
    """The captions of a part of the images, and their weights."""
    data = config.data
    images = part_images(train.n_images, data.train_part, config.training.seed, other=data.other_part)
    stays = np.isin(train.image_of_text, images)
    if not stays.any():
        fact = f"leaves no caption of {train.n_images:,} images to learn from"
        raise InputError(Fault(f"--train-part {data.train_part:g}", fact, fix="choose another share"))
    captions = list(compress(train.captions, stays.tolist()))
    part = replace(train, captions=captions, image_of_text=train.image_of_text[stays], caption_ids=None)
    return part, None if weights is None else weights[stays]


def _checksums(splits: Sequence[Split], progress: Progress | None) -> dict[str, str]:
    """Checksums of the data. The first process reads the features, the others its cache."""
    if parallel.rank() != 0:
        parallel.barrier()
    checksums = {
        f"{split.name}_{part}": checksum
        for split in splits
        for part, checksum in split_checksums(
            split, partial(progress, f"checksum of {split.name}") if progress else None
        ).items()
    }
    if parallel.rank() == 0:
        parallel.barrier()
    return checksums


def _branches(config: Config, build: Callable[[], Coder]) -> tuple[Coder, ...]:
    """The branches that train before the target, each from a seed of its own; the instance branch alone."""
    if config.boosting.boosting == "none" or config.boosting.boosting_scenario != "online":
        return ()
    branches = []
    for number in range(1, config.boosting.boosting_branches):
        seed = np.random.SeedSequence((config.training.seed, BRANCH_STREAM, number)).generate_state(
            1, np.uint64
        )[0]
        torch.manual_seed(int(seed) % 2**63)
        branches.append(build())
    return tuple(branches)


def _find_neighbours(
    config: Config, train: Split, text_space: TextSpace | None, progress: Progress | None
) -> Neighbourhood | None:
    """The neighbours of weights and within-modality losses. The first process searches, the others read its cache."""
    if not config.weighting.reads_neighbours:
        return None
    if parallel.rank() != 0:
        parallel.barrier()
    neighbourhood = train_neighbourhood(
        config, train.captions, train.image_of_text, space=text_space, progress=progress
    )
    if parallel.rank() == 0:
        parallel.barrier()
    return neighbourhood
