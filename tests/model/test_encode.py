"""A whole split through a model equals one sample, or one pair, at a time; modes and precision are restored."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch

from coder_core.config.model import ModelConfig
from coder_core.data.dataset import read_split
from coder_core.data.words import Vocabulary
from coder_core.evaluation.ranking import rank
from coder_core.evaluation.relevance import Relevance
from coder_core.evaluation.scores import check_scores
from coder_core.model import encode
from coder_core.model.coder import ModelParts, build_model
from coder_core.model.device import autocast
from coder_core.model.encode import (
    SplitEncoding,
    encode_split,
    evaluating,
    score_pairs,
    score_split,
    score_texts,
)
from tests.support.precomp_folders import assert_refused, features, write_split

CPU = torch.device("cpu")
KINDS = [{"embeddings": 3}, {"scorer": "interaction", "interaction_size": 5}]


@pytest.fixture(scope="module")
def split(tmp_path_factory):
    """More images and captions than are encoded at once; one image has a region of zeros."""
    array = features(encode.IMAGES_AT_ONCE + 3)
    array[5, 1] = 0
    words = ["red", "dog", "runs", "far", "box"]
    captions = [" ".join(words[: row % 4 + 1]) for row in range(3 * len(array))]
    return read_split(write_split(tmp_path_factory.mktemp("data"), array=array, captions=captions), "train")


@pytest.fixture(scope="module")
def tokens(split):
    return Vocabulary.build(split.captions, threshold=1).encode(split.captions)


def built(**values):
    torch.manual_seed(0)
    dropouts = {"image_dropout": 0.5, "word_dropout": 0.5, "embedding_dropout": 0.5}
    return build_model(ModelConfig(dimension=8, word_size=4, **dropouts, **values), ModelParts(5, 9))


def regions_of(split, image):
    """Return the (1, R, F) regions of an image that are not zeros."""
    rows = split.features[image]
    return torch.from_numpy(rows[rows.any(-1)][None].copy())


def words_of(tokens, text):
    return torch.from_numpy(tokens.ids[tokens.offsets[text] : tokens.offsets[text + 1]][None]).long()


def length(samples):
    return torch.tensor([samples.shape[1]])


def test_encoding_matches_single_samples(split, tokens):
    model = built().train()
    images, texts = encode_split(model, split, tokens)[:2]
    assert model.training
    assert images.dtype == texts.dtype == np.float32
    assert (images.shape, texts.shape) == ((split.n_images, 8), (split.n_texts, 8))
    with evaluating(model):
        assert not torch.is_grad_enabled()
        for i in (0, 5, encode.IMAGES_AT_ONCE, split.n_images - 1):
            real = regions_of(split, i)
            np.testing.assert_allclose(images[i], model.encode_images(real, length(real))[0], atol=1e-6)
        for j in (0, 1, 7, split.n_texts - 1):
            words = words_of(tokens, j)
            np.testing.assert_allclose(texts[j], model.encode_texts(words, length(words))[0], atol=1e-6)
    with evaluating(model.eval()):
        pass
    assert not model.training


@pytest.mark.parametrize("kind", KINDS)
def test_scores_match_single_pairs_and_new_captions_score_alike(split, tokens, kind):
    """One image has a region of zeros, which training and evaluation leave out."""
    model = built(**kind).train()
    scored = score_pairs(model, split, tokens)
    assert model.training
    assert (scored.scores.shape, scored.scores.dtype) == ((split.n_images, split.n_texts), np.float32)
    with evaluating(model):
        for i, j in ((0, 0), (5, 1), (split.n_images - 1, split.n_texts - 1), (5, 7)):
            real = regions_of(split, i)
            words = words_of(tokens, j)
            lengths = length(real), length(words)
            sides = model.encode_images(real, lengths[0]), model.encode_texts(words, lengths[1])
            np.testing.assert_allclose(scored.scores[i, j], model.scorer(*sides, *lengths).item(), atol=1e-5)
    again = score_texts(model, scored.images, tokens)
    np.testing.assert_allclose(again, scored.scores.T, atol=1e-6)


@pytest.mark.parametrize("kind", [{}, *KINDS])
def test_ranks_match_the_scores_of_any_scorer(split, tokens, kind):
    sources, scored = score_split(built(**kind), split, tokens, beta=0.9)
    labels = Relevance.of_labels(split.image_of_text, split.n_images)
    ranks = rank(check_scores(sources), labels, best=3).t2i
    scores = scored.scores if hasattr(scored, "scores") else scored.images @ scored.texts.T
    assert ranks.best.shape == (split.n_texts, 3)
    for j in (0, 17, split.n_texts - 1):
        positive = scores[split.image_of_text[j], j]
        better = int((np.delete(scores[:, j], split.image_of_text[j]) >= positive).sum())
        assert abs(better - ranks.first[j]) <= 1  # rounding


@pytest.mark.parametrize("kind", [{}, KINDS[0]])
def test_progress_counts_up_and_can_interrupt(split, tokens, kind):
    model = built(**kind).train()
    n = split.n_images
    m = split.n_texts
    run = partial(score_pairs if kind else encode_split, model, split, tokens)
    seen = []
    run(SplitEncoding(progress=lambda *now: seen.append(now)))
    assert [done for done, _ in seen] == sorted({done for done, _ in seen})
    assert seen[-1] == ((n * m if kind else n + m),) * 2

    def stop(done, total):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(SplitEncoding(progress=stop))
    assert model.training
    assert torch.is_grad_enabled()


def test_bfloat16_is_off_on_cpu_unless_requested_and_is_close_to_float32(split, tokens):
    for precision in ("auto", "float32"):
        with autocast(CPU, precision):
            assert not torch.is_autocast_enabled("cpu")
    encode_as = partial(encode_split, built(), split, tokens)
    for exact, rough in zip(encode_as()[:2], encode_as(SplitEncoding(precision="bfloat16"))[:2], strict=True):
        assert rough.dtype == np.float32
        assert (rough * exact).sum(1).min() > 0.99
        assert not np.array_equal(rough, exact)
    model = built().train()
    lengths = torch.tensor([2, 2, 1, 2])
    with autocast(CPU, "bfloat16"):
        images, texts = model(torch.rand(4, 3, 5), lengths + 1, torch.ones(4, 2).long(), lengths)[:2]
    (images - texts).square().sum().backward()
    gradients = [parameter.grad for parameter in model.parameters()]
    assert all(gradient is not None and gradient.isfinite().all() for gradient in gradients)


def test_single_vectors_are_encoded_and_too_many_pairs_refused(split, tmp_path, tokens, monkeypatch):
    flat = read_split(write_split(tmp_path / "flat", array=features(6)[:, 0]), "train")
    cut = replace(tokens, offsets=tokens.offsets[: flat.n_texts + 1])
    images = encode_split(built(), flat, cut).images
    assert np.linalg.norm(images, axis=1) == pytest.approx([1.0] * 6, abs=1e-5)
    monkeypatch.setattr(encode, "PAIRS_AT_MOST", 1000)
    assert_refused(r"at most 1,000", score_pairs, built(embeddings=2), split, tokens)
