"""Batches of image-caption pairs: draw the pairs, leave out regions and words, pad.

All randomness of a step is derived from (seed, step), so a run resumed at any step sees the same batches without saved
state. With several processes, each takes its slice of the same global batch.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import KW_ONLY, dataclass
from itertools import chain, islice

import numpy as np
import torch
from torch import Tensor

from coder_core.console.faults import Fault, InputError
from coder_core.data.augmentation import Augment, draw_changes
from coder_core.data.features import FeatureRows, UnreadableRowsError
from coder_core.data.split import Split
from coder_core.data.words import Tokens
from coder_core.ops.vectors import to_device

# random streams: the first per epoch, the others per step
ORDER = 0
LEFT_OUT = 1
AUGMENTED = 9
DECODED_AT_ONCE = 128  # pictures per worker, so that waiting pictures do not grow with the batch size


@dataclass(frozen=True)
class Batch:
    """B pairs. Padded words are 0; `regions` beyond `region_lengths` are zero. If an image tower encodes the pictures
    themselves, `regions` are their pixels and `region_lengths` the numbers of local features that the tower returns."""

    regions: Tensor  # (B, R, F) float32, or (B, 3, H, W) float32
    region_lengths: Tensor  # (B,) int64
    words: Tensor  # (B, T) int64
    word_lengths: Tensor  # (B,) int64
    image_ids: Tensor  # (B,) int64: images of the split
    text_ids: Tensor  # (B,) int64: captions of the split
    pair_ids: Tensor  # (B,), (B, K) or (B, 2, K) int64: which pairs are not negatives of each other

    def to(self, device: torch.device) -> Batch:
        """Copy the batch to a device; on the CPU, return it as it is."""
        if device.type == "cpu":
            return self
        return Batch(*(to_device(value, device) for value in vars(self).values()))


class RegionRows:
    """Regions of a split as float32 batches; all-zero regions do not count towards the lengths."""

    def __init__(self, split: Split) -> None:
        self.regions = split.regions
        self.size = split.feature_size
        self._features = FeatureRows(split.features).features  # (n, R, F)
        self._file = split.file

    def gather(self, image_ids: np.ndarray, regions: np.ndarray) -> tuple[Tensor, Tensor]:
        """Gather regions (B, k) of images (B,): (B, k, F) float32 and (B,) lengths; all-zero regions go to the end.
        UnreadableRowsError: another program has shortened the file of features."""
        if self._file is not None:
            self._file.check_size()
        values = self._features[np.repeat(image_ids, regions.shape[1]), regions.ravel()]
        if values.dtype != np.float16:  # PyTorch converts float16 faster
            values = values.astype(np.float32, copy=False)
        return _zero_regions_last(torch.from_numpy(values).float().view(*regions.shape, self.size))


def _zero_regions_last(regions: Tensor) -> tuple[Tensor, Tensor]:
    """Move all-zero regions behind the others and leave them out of the lengths (at least one region stays)."""
    lengths = torch.full((len(regions),), regions.shape[1])
    candidates = regions[..., 0] == 0  # cheap: only these can be all zero
    if bool(candidates.any()):
        zero = torch.zeros_like(candidates)
        zero[candidates] = ~regions[candidates].any(dim=-1)
        if bool(zero.any()):
            order = torch.argsort(zero.to(torch.uint8), dim=1, stable=True)
            regions = regions.gather(1, order.unsqueeze(-1).expand_as(regions))
            lengths = (lengths - zero.sum(1)).clamp_min(1)
    return regions, lengths


def pad_words(
    tokens: Tokens, text_ids: np.ndarray, positions: list[np.ndarray] | None = None
) -> tuple[Tensor, Tensor]:
    """Pad the words of captions with 0: (B, T) int64 and (B,) lengths. positions: of the words to keep in each."""
    captions = [tokens.ids[tokens.offsets[j] : tokens.offsets[j + 1]] for j in text_ids]
    if positions is not None:
        captions = [words[kept] for words, kept in zip(captions, positions, strict=True)]
    lengths = np.array([len(words) for words in captions])
    padded = np.zeros((len(captions), lengths.max()), dtype=np.int64)
    padded[np.arange(padded.shape[1]) < lengths[:, None]] = np.concatenate(captions)
    return torch.from_numpy(padded), torch.from_numpy(lengths)


@dataclass(eq=False)
class TrainingBatches:
    """An endless, reproducible stream of training batches. InputError: the split has fewer captions than a batch, or
    the batch does not divide among the processes."""

    split: Split  # the train split
    tokens: Tokens  # its captions as numbers
    _: KW_ONLY
    batch_size: int  # pairs in a global batch
    seed: int  # the run's random seed
    # mean share of regions left out. Every batch draws its share uniformly from 0 to twice the mean, so that
    # some batches have nearly whole images; every image draws its own regions.
    drop_regions: float = 0.0
    drop_words: float = 0.0  # share of words left out of a caption; at least one stays
    fixed_ends: bool = False  # never leave out a caption's first and last piece (BERT's [CLS] and [SEP])
    part: int = 0  # this process's slice of every batch, from 0 to parts - 1
    parts: int = 1
    augment: Augment = "none"  # random changes to the pictures in every step, if an image tower encodes them
    # (m,), (m, K) or (m, 2, K) ids of every pair, for `Batch.pair_ids`; None: the number of its image
    pair_ids: np.ndarray | None = None

    def __post_init__(self) -> None:
        count = self.split.n_texts
        size = self.batch_size
        if count < size:
            expected = f"at most the {count} captions of {self.split.name}"
            fix = f"add --batch-size {max(1, count // 4)}"
            raise InputError.at("--batch-size", f"is {size}", expected, fix)
        if size % self.parts:
            expected = f"a multiple of the number of processes, {self.parts}"
            raise InputError.at("--batch-size", f"is {size}", expected, "change one of them")

        self.rows = RegionRows(self.split)
        self._lengths = self.tokens.lengths
        pairs = size // self.parts
        self._slice = slice(self.part * pairs, (self.part + 1) * pairs)  # of every batch
        self._blocks = -(-pairs // DECODED_AT_ONCE)
        self.per_epoch = count // size  # an incomplete last batch is left out
        self._order: tuple[int, np.ndarray] | None = None

    def _texts(self, step: int) -> np.ndarray:
        """Return the captions of the global batch of a step."""
        epoch, batch = divmod(step, self.per_epoch)
        if self._order is None or self._order[0] != epoch:
            order = np.random.default_rng((self.seed, ORDER, epoch)).permutation(self.split.n_texts)
            self._order = (epoch, order)
        return self._order[1][batch * self.batch_size : (batch + 1) * self.batch_size]

    def __call__(self, step: int, decoded: tuple[Tensor, Tensor] | None = None) -> Batch:
        """Return this process's slice of batch `step`, counted from 0 over all epochs. decoded: its pictures and their
        lengths, if workers have decoded them."""
        text_ids = self._texts(step)
        part = self._slice
        image_ids = self.split.image_of_text[text_ids]
        random = np.random.default_rng((self.seed, LEFT_OUT, step))
        if self.split.pictures is None:
            decoded = self.rows.gather(image_ids[part], self._kept_regions(random)[part])

        values, region_lengths = decoded or self._pictures(step, part)
        word_lengths = self._lengths[text_ids]
        chance = random.random((self.batch_size, int(word_lengths.max())), dtype=np.float32)
        kept_words = self._kept_words(chance[part], word_lengths[part]) if self.drop_words > 0 else None
        words, lengths = pad_words(self.tokens, text_ids[part], kept_words)
        pair_ids = image_ids if self.pair_ids is None else self.pair_ids[text_ids]
        return Batch(
            regions=values,
            region_lengths=region_lengths,
            words=words,
            word_lengths=lengths,
            image_ids=torch.from_numpy(image_ids[part]),
            text_ids=torch.from_numpy(text_ids[part]),
            pair_ids=torch.from_numpy(pair_ids[part]),
        )

    def _kept_regions(self, random: np.random.Generator) -> np.ndarray:
        """Draw the regions to keep of every image of the global batch: (batch_size, k), ascending."""
        regions = self.rows.regions
        left_out = round(random.uniform(0, 2 * self.drop_regions) * regions) if regions > 1 else 0
        order = np.argsort(random.random((self.batch_size, regions), dtype=np.float32), axis=1)
        return np.sort(order[:, : max(1, regions - left_out)], axis=1)

    def _pictures(self, step: int, rows: slice) -> tuple[Tensor, Tensor]:
        """Decode the pictures in these rows of the global batch, with random changes if `augment` asks for them."""
        assert self.split.pictures is not None
        text_ids = self._texts(step)
        changes = None
        if self.augment != "none":
            captions = [self.split.captions[text] for text in text_ids]
            random = (self.seed, AUGMENTED, step)
            changes = draw_changes(self.augment, captions, np.random.default_rng(random))[rows]
        return self.split.pictures.gather(self.split.image_of_text[text_ids[rows]], changes)

    def _kept_words(self, chance: np.ndarray, lengths: np.ndarray) -> list[np.ndarray]:
        retained = chance >= self.drop_words
        likeliest = (chance - (np.arange(chance.shape[1]) >= lengths[:, None])).argmax(1)
        retained[np.arange(len(retained)), likeliest] = True
        if self.fixed_ends:
            retained[:, 0] = True
            retained[np.arange(len(retained)), lengths - 1] = True
        return [np.flatnonzero(row[:length]) for row, length in zip(retained, lengths, strict=True)]

    def stream(self, start: int, stop: int) -> Iterator[Batch]:
        """Yield batches start … stop-1, each prepared by a thread while the previous one is in use; worker processes,
        if any, decode the pictures ahead. UnreadableRowsError: data can no longer be read."""
        batches: Iterator[Batch] = map(self, range(start, stop))
        pictures = self.split.pictures
        if pictures is not None and pictures.workers > 0:
            from coder_core.data.captioned.decoding import in_workers

            numbers = range(start * self._blocks, stop * self._blocks)
            blocks = in_workers(self._block, numbers, min(pictures.workers, len(numbers)))

            def joined(step: int) -> Batch:
                pixels, lengths, faults = zip(*islice(blocks, self._blocks), strict=True)
                broken = list(chain.from_iterable(faults))
                if broken:
                    raise UnreadableRowsError(broken)
                return self(step, (pixels[0] if len(pixels) == 1 else torch.cat(pixels), torch.cat(lengths)))

            batches = map(joined, range(start, stop))
        with ThreadPoolExecutor(max_workers=1) as thread:
            following = thread.submit(next, batches, None)
            try:
                while (batch := following.result()) is not None:
                    following = thread.submit(next, batches, None)
                    yield batch
            finally:
                del following  # a failed one holds its error, whose traceback would keep the workers alive

    def _block(self, number: int) -> tuple[Tensor, Tensor, tuple[Fault, ...]]:
        """Decode a block of a batch. Faults are returned, because an exception would lose them between processes."""
        step, block = divmod(number, self._blocks)
        first = self._slice.start + block * DECODED_AT_ONCE
        try:
            return *self._pictures(step, slice(first, min(first + DECODED_AT_ONCE, self._slice.stop))), ()
        except UnreadableRowsError as error:
            return torch.empty(0), torch.empty(0), error.faults


def image_chunks(split: Split, size: int) -> Iterator[tuple[np.ndarray, Tensor, Tensor]]:
    """Yield all images in order, complete: (ids, (B, R, F) regions or (B, 3, H, W) pixels, (B,) lengths)."""
    if split.pictures is not None:
        yield from split.pictures.chunks(size)
        return
    rows = RegionRows(split)
    for start in range(0, split.n_images, size):
        ids = np.arange(start, min(start + size, split.n_images))
        regions = np.broadcast_to(np.arange(split.regions), (len(ids), split.regions))
        yield ids, *rows.gather(ids, regions)


def text_chunks(tokens: Tokens, size: int) -> Iterator[tuple[np.ndarray, Tensor, Tensor]]:
    """Yield all captions, sorted by length: (ids, (B, T) words, (B,) lengths)."""
    order = np.argsort(tokens.lengths, kind="stable")
    for start in range(0, len(order), size):
        ids = order[start : start + size]
        yield ids, *pad_words(tokens, ids)
