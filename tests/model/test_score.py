"""A split scored pair by pair equals one image and one caption at a time; K = 1 is the plain model, bit for bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from coder_core.config.model import ModelConfig
from coder_core.console.faults import InputError
from coder_core.data.split import Split
from coder_core.data.words import Tokens
from coder_core.evaluation import rank, score_tiles
from coder_core.model import encode
from coder_core.model.build import build_model
from coder_core.model.coder import Coder
from coder_core.model.encode import encode_split, score_pairs, score_split, score_texts
from coder_core.model.encoders.pooling import PVSEPooling
from coder_core.model.scoring import InteractionScorer, PVSEScorer
from tests.model.test_encode import CPU, split, tokens

__all__ = ["split", "tokens"]

KINDS: list[dict[str, Any]] = [{"embeddings": 3}, {"scorer": "interaction", "interaction_size": 5}]


def built(**values: Any) -> Coder:
    torch.manual_seed(0)
    config = ModelConfig(dimension=8, word_size=4, image_dropout=0.5, embedding_dropout=0.5, **values)
    return build_model(config, feature_size=5, words=9)


def test_names_become_scorers_and_poolings() -> None:
    several, local = (built(**kind) for kind in KINDS)
    assert isinstance(several.scorer, PVSEScorer)
    assert isinstance(several.image_pooling, PVSEPooling)
    assert several.image_pooling.heads.weight.shape == (3, 4)
    assert isinstance(local.scorer, InteractionScorer)
    assert (local.scorer.sharpness, local.scorer.align.weight.shape) == (9.0, (5, 8))
    assert not any(name.startswith(("image_pooling", "text_pooling")) for name, _ in local.named_parameters())


def test_one_embedding_is_the_plain_model_exactly(split: Split, tokens: Tokens) -> None:
    plain, single = built(), built(embeddings=1)
    assert plain.state_dict().keys() == single.state_dict().keys()
    assert all(torch.equal(value, single.state_dict()[name]) for name, value in plain.state_dict().items())
    scored, expected = (encode_split(model, split, tokens, device=CPU) for model in (single, plain))
    assert np.array_equal(scored.images, expected.images)
    assert np.array_equal(scored.texts, expected.texts)


@pytest.mark.parametrize("kind", KINDS)
def test_equals_one_pair_at_a_time(split: Split, tokens: Tokens, kind: dict[str, Any]) -> None:
    """One image has a region of zeros, which training and evaluation leave out."""
    model = built(**kind).train()
    seen: list[tuple[int, int]] = []
    scored = score_pairs(
        model, split, tokens, device=CPU, progress=lambda done, total: seen.append((done, total))
    )
    assert model.training
    assert scored.scores.shape == (split.n_images, split.n_texts)
    assert scored.scores.dtype == np.float32
    assert [done for done, _ in seen] == sorted({done for done, _ in seen})
    assert seen[-1] == (split.n_images * split.n_texts,) * 2
    model.eval()
    with torch.no_grad():
        for i, j in ((0, 0), (5, 1), (split.n_images - 1, split.n_texts - 1), (5, 7)):
            real = torch.from_numpy(split.features[i][split.features[i].any(-1)][None].copy())
            words = torch.from_numpy(tokens.ids[tokens.offsets[j] : tokens.offsets[j + 1]][None]).long()
            lengths = torch.tensor([real.shape[1]]), torch.tensor([words.shape[1]])
            alone = model.scorer(
                model.encode_images(real, lengths[0]), model.encode_texts(words, lengths[1]), *lengths
            )
            np.testing.assert_allclose(scored.scores[i, j], alone.item(), atol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_new_captions_are_scored_with_images_encoded_before(
    split: Split, tokens: Tokens, kind: dict[str, Any]
) -> None:
    model = built(**kind)
    scored = score_pairs(model, split, tokens, device=CPU)
    np.testing.assert_allclose(
        score_texts(model, scored.images, tokens, device=CPU), scored.scores.T, atol=1e-6
    )


@pytest.mark.parametrize("kind", [{}, *KINDS])
def test_ranks_come_from_whatever_scores(split: Split, tokens: Tokens, kind: dict[str, Any]) -> None:
    model = built(**kind)
    sources, scored = score_split(model, split, tokens, beta=0.9, device=CPU)
    ranks = rank(score_tiles(sources, split.image_of_text), best=3)
    scores = scored.scores if hasattr(scored, "scores") else scored.images @ scored.texts.T
    assert ranks.text_best.shape == (split.n_texts, 3)
    for j in (0, 17, split.n_texts - 1):
        others = np.delete(scores[:, j], split.image_of_text[j])
        assert (
            abs(int((others >= scores[split.image_of_text[j], j]).sum()) - ranks.text_ranks[j]) <= 1
        )  # rounding


def test_it_may_be_stopped(split: Split, tokens: Tokens) -> None:
    def stop(done: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        score_pairs(built(embeddings=2), split, tokens, device=CPU, progress=stop)


def test_more_pairs_than_memory_should_hold_are_refused(
    split: Split, tokens: Tokens, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(encode, "PAIRS_AT_MOST", 1000)
    with pytest.raises(InputError, match=r"pairs; expected at most 1,000"):
        score_pairs(built(embeddings=2), split, tokens, device=CPU)
