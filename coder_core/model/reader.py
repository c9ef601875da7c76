"""Read data for a configuration: its splits, as region features or pictures, and captions as numbers, words of the run's
vocabulary for a BiGRU or word pieces for BERT and text towers."""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from coder_core.config.model import TowersConfig
from coder_core.config.schema import Config
from coder_core.console.faults import Fault, InputError, stop_on_errors
from coder_core.console.output import Progress, named, silent
from coder_core.data.augmentation import exchange_captions
from coder_core.data.dataset import available_splits, read_split
from coder_core.data.lines import LONGEST_CAPTION_WORDS
from coder_core.data.split import Split, captions_checksum, with_groups
from coder_core.data.words import (
    SPECIAL_WORDS,
    UNKNOWN,
    Tokens,
    Vocabulary,
    learn_word_vectors,
    read_word_vectors,
    tokenise,
)
from coder_core.demo import DEMO_FOLDER, make_demo
from coder_core.model.encoders.bert import load_tokeniser
from coder_core.model.run_towers import RunTowers
from coder_core.model.towers.halves import ImageHalf, OwnTokeniser, TextHalf
from coder_core.model.towers.pretrained import Tokeniser
from coder_core.ops import parallel

RANDOM_STREAM = 3  # random stream for words that a GloVe file lacks
OPTIONAL = ("dev",)
DEMO = "demo"
CACHE_MARGIN = 1.15  # of the shorter side of cached pictures to that of the tower's input
TRAIN = "train"
CARD = "demo.json"  # in a folder of finished demo data


@dataclass(frozen=True)
class CaptionReader:
    """Conversion of captions to flat arrays of ids."""

    encode: Callable[[Sequence[str]], Tokens]  # captions → ids
    size: int  # number of distinct ids
    fixed_ends: bool  # a caption's first and last id must not be dropped ([CLS] and [SEP])
    # text → its distinct words that are known, and those that are unknown
    known_and_unknown: Callable[[str], tuple[list[str], list[str]]]
    # text → the word or word piece of each of its ids; "" for [CLS] and [SEP]
    words: Callable[[str], list[str]]


def make_reader(
    config: Config, vocabulary: Vocabulary | None, *, download: bool = True, tower: TextHalf | None = None
) -> CaptionReader:
    """Create the reader of a configuration. `vocabulary`: needed for a BiGRU. `download`: fetch BERT's tokenizer if it
    is missing. `tower`: the run's text tower, if it has one. ValueError: a BiGRU without a vocabulary."""
    if tower is not None:
        return piece_reader(tower.tokenise)
    if config.model.text_encoder == "bert":
        return piece_reader(load_tokeniser(config.model.bert, download=download))
    if vocabulary is None:
        raise ValueError("a BiGRU needs a vocabulary")

    def words(text: str) -> list[str]:
        return tokenise(text)[:LONGEST_CAPTION_WORDS] or [SPECIAL_WORDS[UNKNOWN]]

    return CaptionReader(vocabulary.encode, len(vocabulary), False, vocabulary.known_and_unknown, words)


def piece_reader(pieces: Tokeniser | OwnTokeniser) -> CaptionReader:
    """Create a reader by the word pieces of a text tower or of BERT, including special ones at a caption's ends."""

    def encode(captions: Sequence[str]) -> Tokens:
        ids = pieces(captions)
        offsets = np.cumsum([0, *map(len, ids)], dtype=np.int64)
        return Tokens(np.fromiter((piece for row in ids for piece in row), np.int32, offsets[-1]), offsets)

    def known_and_unknown(text: str) -> tuple[list[str], list[str]]:
        words = list(dict.fromkeys(tokenise(text)))
        unknown = pieces.unknown(words)
        return [word for word in words if word not in unknown], unknown

    return CaptionReader(encode, len(pieces), True, known_and_unknown, pieces.pieces)


def initial_word_vectors(
    config: Config, vocabulary: Vocabulary, train_captions: Sequence[str]
) -> tuple[Tensor | None, list[Fault]]:
    """Return initial word vectors, learned from the captions or from a GloVe file (None: random), and warnings and
    notes. Words missing from the file get random vectors with the standard deviation of the others."""
    source = config.data.word_vectors
    size = config.model.word_size
    seed = config.training.seed
    if source == "random":
        return None, []
    if source == "learned":
        return torch.from_numpy(learn_word_vectors(train_captions, vocabulary, dimension=size, seed=seed)), []
    glove = read_word_vectors(source, vocabulary.words, counts=vocabulary.counts, dimension=size)
    matrix = glove.matrix.copy()
    missing = ~glove.covered
    if glove.covered.any():
        random = np.random.default_rng((seed, RANDOM_STREAM))
        matrix[missing] = random.normal(0, matrix[glove.covered].std(), (int(missing.sum()), size))
    matrix[0] = 0
    return torch.from_numpy(matrix), glove.faults


@dataclass(frozen=True)
class Splits:
    """Splits that were read."""

    splits: dict[str, Split]  # by name
    names: list[str]  # of all splits of the data
    faults: list[Fault]  # warnings and notes
    # "train_features", "train_captions" … → checksum, if reading the splits computed them; otherwise {}
    checksums: dict[str, str] = field(default_factory=dict)


def data_folder(name: str, progress: Progress = silent) -> Path:
    """Return the folder of a data set; "demo" is drawn on first use, in .cache/demo or the folder $CODER_DEMO."""
    if not name:
        fix = "name the folder of {split}_ims.npy and {split}_caps.txt"
        raise InputError(Fault("--data", "is empty", "a folder, or demo", fix))
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


def read_splits(
    config: Config,
    folder: Path,
    towers: RunTowers | None,
    names: Sequence[str],
    *,
    to_train: bool = False,
    progress: Progress = silent,
) -> Splits:
    """Read splits of a data set for the model of a configuration, applying `wrong_captions` to train. Among several
    names, dev may be missing. `to_train`: for training, which reads the pictures of train from a cache if the
    configuration says so. `progress` covers checking the pictures. InputError: the data cannot be used."""
    pictures = config.data.pictures or None
    if towers is None or towers.image is None:
        splits = {}
        for name in names:
            if len(names) == 1 or name not in OPTIONAL or {"dev", "val"} & set(available_splits(folder)):
                splits[name] = _with_exchanged(read_split(folder, name, pictures=pictures), config)
        splits = with_groups(splits, config.data)
        faults = [fault for split in splits.values() for fault in split.faults]
        return Splits(splits, available_splits(folder), faults)
    # Imported only for pictures: they load pyarrow and torch's data loaders.
    from coder_core.data.captioned.checking import PicturePreparation, read_picture_split
    from coder_core.data.captioned.decoding import usual_workers
    from coder_core.data.captioned.reading import read_captioned

    data = read_captioned(folder, config.data, pictures=pictures, only=names[0] if len(names) == 1 else "")
    result = Splits({}, [split.name for split in data.splits], stop_on_errors(data.faults))
    workers = config.towers.workers
    if workers < 0:
        workers = usual_workers(config.training.device)
    tower = towers.image
    preparation = PicturePreparation(
        tower.prepare, tower.local_features, tower.counts, workers, tower.prepare_pixels
    )
    size_of_train = cached_size(config.towers, tower) if to_train else 0
    for name in names:
        if len(names) > 1 and name in OPTIONAL and name not in result.names:
            continue
        split, checksums = read_picture_split(
            data,
            name,
            preparation,
            skip_broken=config.data.skip_broken,
            progress=named(progress, f"checking the pictures of {name}"),
            cached_size=size_of_train if name == TRAIN else 0,
        )
        result.splits[name] = split = _with_exchanged(split, config)
        result.faults.extend(split.faults)
        if split.name == TRAIN:
            checksums |= {"captions": captions_checksum(split.captions, split.image_of_text)}
        result.checksums.update({f"{split.name}_{part}": sha for part, sha in checksums.items()})
    return result


def cached_size(towers: TowersConfig, tower: ImageHalf) -> int:
    """Return the pixels of the shorter side of cached pictures; 0 if none are cached. InputError: the input of the
    tower has no sides from which the size could follow."""
    size = towers.cache_pictures
    if size >= 0:
        return size
    shape = tower.about["shape"]
    if len(shape) != 3:
        problem = f"follows from the sides of the tower's input, which has the shape {tuple(shape)}"
        raise InputError.at("--cache-pictures", problem, "a size", "give one: --cache-pictures 512")
    return round(CACHE_MARGIN * min(shape[1:]))


def _with_exchanged(split: Split, config: Config) -> Split:
    """Return the train split with the share `wrong_captions` exchanged or left out; return other splits unchanged."""
    share = config.data.wrong_captions
    if split.name != TRAIN or share == 0:
        return split
    rows = exchange_captions(split.image_of_text, share, config.training.seed)
    used = np.arange(split.n_texts)
    done = "exchanged among images"
    if config.data.omit_wrong:
        rows = rows[rows == used]
        done = "left out"
        used = rows
    fact = f"captions of {split.name} {done}: {round(share * split.n_texts):,} of {split.n_texts:,}"
    note = Fault(f"--wrong-captions {share:g}", fact, severity="note")
    return replace(split.of_texts(rows, split.image_of_text[used]), faults=[*split.faults, note])
