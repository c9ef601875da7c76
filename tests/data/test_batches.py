"""Training batches: reproducible from seed and step, sliced among processes, thinned but never empty."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from coder_core.data.batches import TrainingBatches, image_chunks, pad_words, text_chunks
from coder_core.data.dataset import read_split
from coder_core.data.words import Vocabulary
from tests.support.precomp_folders import assert_refused, features, write_split

CAPTIONS = ["a dog", "a red dog runs far", "a cat", "dog"]
CAPTIONS += ["the old cat sits near a box", "a b c", "a b c d", "e f"]
THINNED = {"drop_regions": 0.3, "drop_words": 0.4}


def split_of(folder, array=None, captions=CAPTIONS):
    return read_split(write_split(folder, array=array, captions=captions), "train")


def tokens_of(split):
    return Vocabulary.build(split.captions, threshold=1).encode(split.captions)


def batches_of(split, **values):
    return TrainingBatches(split, tokens_of(split), **{"batch_size": 4, "seed": 3} | values)


def words_of(tokens, text):
    return tokens.ids[tokens.offsets[text] : tokens.offsets[text + 1]].tolist()


@pytest.fixture(scope="module")
def split(tmp_path_factory):
    return split_of(tmp_path_factory.mktemp("data"))


def assert_same(first, second):
    for name, value in vars(first).items():
        assert torch.equal(value, getattr(second, name)), name


def test_epochs_repeat_no_caption_and_chunks_cover_the_split(split):
    batches = batches_of(split, batch_size=3)
    tokens = tokens_of(split)
    assert batches.per_epoch == 2  # an incomplete batch is left out
    orders = []
    for epoch in range(3):
        parts = [batches(2 * epoch + k) for k in range(2)]
        orders.append(torch.cat([batch.text_ids for batch in parts]).tolist())
        assert len(set(orders[-1])) == 6
    assert orders[0] != orders[1] != orders[2]
    assert {caption for order in orders for caption in order} == set(range(8))
    for batch in parts:
        assert batch.regions.dtype == torch.float32
        assert batch.region_lengths.tolist() == [3] * 3
        assert batch.words.shape[1] == batch.word_lengths.max()
        for row, (image, text) in enumerate(zip(batch.image_ids, batch.text_ids.tolist(), strict=True)):
            assert image == text // 2
            assert np.array_equal(batch.regions[row].numpy(), split.features[image])
            words = batch.words[row].tolist()
            assert words == words_of(tokens, text) + [0] * (len(words) - int(batch.word_lengths[row]))
    images = list(image_chunks(split, 3))
    assert [len(ids) for ids, _, _ in images] == [3, 1]
    assert np.array_equal(torch.cat([regions for _, regions, _ in images]).numpy(), split.features)
    met = []
    for ids, *padded in text_chunks(tokens, 3):
        met += ids.tolist()
        assert all(map(torch.equal, padded, pad_words(tokens, ids)))
    assert sorted(met) == list(range(8))
    assert tokens.lengths[met].tolist() == sorted(tokens.lengths.tolist())


def test_every_step_is_reproducible_and_matches_the_stream(split):
    first = batches_of(split, **THINNED)
    again = batches_of(split, **THINNED)
    for step in (5, 0, 3, 2):
        assert_same(first(step), again(step))
    assert not torch.equal(first(0).text_ids, batches_of(split, **THINNED | {"seed": 4})(0).text_ids)
    streamed = list(first.stream(1, 6))
    assert len(streamed) == 5
    for step, batch in enumerate(streamed, 1):
        assert_same(batch, first(step))
    assert list(first.stream(2, 2)) == []


@pytest.mark.parametrize("parts", [2, 4])
def test_slices_of_all_processes_form_the_whole_batch(split, parts):
    whole = batches_of(split, **THINNED)
    slices = [batches_of(split, **THINNED | {"part": part, "parts": parts}) for part in range(parts)]
    for step in range(4):
        expected = whole(step)
        taken = [one(step) for one in slices]
        for name in ("regions", "region_lengths", "word_lengths", "image_ids", "text_ids"):
            joined = torch.cat([getattr(part, name) for part in taken])
            assert torch.equal(joined, getattr(expected, name)), name
        rows = [words for part in taken for words in part.words.tolist()]
        for row, length, words in zip(rows, expected.word_lengths, expected.words.tolist(), strict=True):
            assert row[:length] == words[:length]


def test_dropped_shares_match_their_mean_and_regions_keep_their_order(tmp_path):
    """The share of regions is drawn from 0 to 2 · 0.2 for every batch; the rest keeps the file's order."""
    array = np.tile(np.arange(1, 21, dtype=np.float32)[None, :, None], (4, 1, 1))
    captions = [" ".join("abcdefghijklmnopqrstuvwxyz")] * 8
    batches = batches_of(split_of(tmp_path, array, captions), drop_regions=0.2, drop_words=0.2, batch_size=2)
    left = []
    words = []
    unlike = 0
    for step in range(400):
        batch = batches(step)
        regions = batch.regions[..., 0]
        left.append(regions.shape[1])
        words += batch.word_lengths.tolist()
        assert (regions.diff(dim=1) > 0).all()
        assert set(regions.unique().tolist()) <= set(range(1, 21))
        unlike += not torch.equal(*regions)
    assert 1 - np.mean(left) / 20 == pytest.approx(0.2, abs=0.015)
    assert 1 - np.mean(words) / 26 == pytest.approx(0.2, abs=0.02)
    assert (min(left), max(left)) == (12, 20)
    assert unlike > 300


@settings(max_examples=25)
@given(drop=st.floats(0.0, 0.99), seed=st.integers(0, 2**31 - 1), step=st.integers(0, 50), ends=st.booleans())
def test_dropping_words_keeps_their_order_and_at_least_one(split, drop, seed, step, ends):
    tokens = tokens_of(split)
    batch = batches_of(split, seed=seed, drop_words=drop, fixed_ends=ends)(step)
    assert (batch.word_lengths >= 1).all()
    for row, text in enumerate(batch.text_ids.tolist()):
        whole = words_of(tokens, text)
        kept = batch.words[row, : batch.word_lengths[row]].tolist()
        remaining = iter(whole)
        assert all(word in remaining for word in kept)  # a subsequence
        if ends:
            assert (kept[0], kept[-1]) == (whole[0], whole[-1])


def test_dtypes_and_memory_orders_give_the_same_batches(split, tmp_path):
    array = features().astype("<f2")  # values every type holds exactly
    plain = batches_of(replace(split, features=array.astype("<f4")), drop_regions=0.3)
    for order, dtype in product("CF", ("<f2", "<f8", ">f4", ">f2", ">f8")):
        other = batches_of(split_of(tmp_path, np.array(array, dtype, order=order)), drop_regions=0.3)
        assert_same(other(0), plain(0))
        assert other(0).regions.dtype == torch.float32


def test_zero_regions_are_masked_and_a_single_region_is_never_dropped(tmp_path):
    array = features()
    array[1, 0] = 0.0
    array[2, 1:] = 0.0
    array[0, :, 0] = 0.0  # a zero that is no zero region
    for batch in batches_of(split_of(tmp_path, array)).stream(0, 2):
        for row, image in enumerate(batch.image_ids.tolist()):
            real = array[image][array[image].any(-1)]
            length = int(batch.region_lengths[row])
            assert np.array_equal(batch.regions[row, :length].numpy(), real)
            assert not batch.regions[row, length:].any()
    for batch in batches_of(split_of(tmp_path, features()[:, 0]), drop_regions=0.5).stream(0, 10):
        assert batch.regions.shape == (4, 1, 5)
        assert batch.region_lengths.tolist() == [1] * 4


def test_a_batch_larger_than_the_data_is_refused(split):
    assert_refused(r"--batch-size: is 9; .* 8 captions.*--batch-size 2", batches_of, split, batch_size=9)
    assert batches_of(split, batch_size=8).per_epoch == 1
    assert_refused(r"--batch-size: is 4; .* 3", batches_of, split, parts=3)
