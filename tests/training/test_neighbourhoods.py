"""Weights of complementary samples in training: weighted losses, when they are computed, resuming, refusals."""

from functools import partial

import pytest
import torch

from coder_core.objectives.batch_weights import AMRANI_NEIGHBOURS, HAL_SHARPNESS, HAL_THRESHOLD
from coder_core.training.prepare import make_neighbourhoods, prepare
from coder_core.training.trainer import Trainer
from tests.reference import batch_weights as others
from tests.reference import neighbourhood as reference
from tests.support.steps import embed, take
from tests.support.tiny_runs import NEIGHBOURS, WEIGHT_SCALE, changed, quiet, tiny_config

weighted = partial(tiny_config, part="weights")

BATCH = 8
LAMBDA = WEIGHT_SCALE * BATCH
KINDS = ["diversity", "discrepancy", "combined", "combined-stats"]


def begun(config):
    """Return data, model and neighbourhoods with an empty cache."""
    prepared = prepare(config)
    return prepared, make_neighbourhoods(config, prepared)


def filled(config, epoch=1):
    """Fill the cache with a random embedding of every sample and begin an epoch."""
    prepared, part = begun(config)
    torch.manual_seed(3)
    images = len(part.cache.images)
    texts = len(part.cache.texts)
    for start in range(0, texts, BATCH):
        text_ids = torch.arange(start, min(start + BATCH, texts))
        rows = torch.nn.functional.normalize(torch.randn(2, len(text_ids), config.model.dimension), dim=-1)
        part.cache.write(*rows, part.image_of_text[text_ids], text_ids)
    assert int(part.cache.known_images.sum()) == images
    part.begin_epoch(epoch)
    return prepared, part


def looped_weights(part, config, pairs):
    """Return the weights of some pairs by the paper's sums over the cache."""
    sides = (rows.double().tolist() for rows in (part.cache.images[part.image_of_text], part.cache.texts))
    near = [[j for j in row if j >= 0] for row in part.neighbours.tolist()]
    source = config.weighting
    named = {"gamma": source.weight_direction, "scale": LAMBDA, "modalities": source.weight_modalities}
    named["shares"] = source.diversity_share, source.discrepancy_share
    return reference.batch_weights(source.sample_weights, *sides, near, pairs, **named)


@pytest.mark.parametrize(
    ("kind", "modalities"),
    [(kind, "difference") for kind in KINDS] + [("combined", kind) for kind in ("sum", "image", "text")],
)
def test_weights_of_a_batch_match_reference_loops(data, kind, modalities):
    config = weighted(data, sample_weights=kind, weight_modalities=modalities, diversity_share=3.0)
    prepared, part = filled(config)
    pairs = prepared.batches(2).text_ids
    weights = WEIGHT_SCALE * part.of_pairs(pairs)
    assert weights.tolist() == pytest.approx(looped_weights(part, config, pairs.tolist()), rel=1e-4)
    assert weights.sum().item() == pytest.approx(LAMBDA, rel=1e-5)
    assert weights.std() > 0


@pytest.mark.parametrize("loss", ["npairs-hinge", "btr-sum", "btr-hardest", "infonce", "dcl", "dcl-i"])
def test_a_weight_multiplies_only_its_own_pair_in_every_loss(data, loss):
    config = weighted(data, dropout=False, loss=loss)
    prepared, part = filled(config)
    batch = prepared.batches(1)
    plain = take(prepared, None, changed(config, sample_weights="none"), batch)
    ours = take(prepared, part, config, batch)
    weights = part.of_pairs(batch.text_ids)
    assert weights.mean().item() == pytest.approx(1.0)
    if loss == "npairs-hinge":
        weights = weights * WEIGHT_SCALE
    torch.testing.assert_close(ours.per_pair, plain.per_pair * weights)
    size = plain.total / plain.per_pair.sum()
    torch.testing.assert_close(ours.total, size * (plain.per_pair * weights).sum())
    assert ours.parts == plain.parts  # the reported loss is not weighted


def test_the_first_epoch_equals_that_of_a_run_without_weights(data, tmp_path):
    """Bit for bit, if λ is the batch size. From the second epoch on the runs differ."""
    runs = []
    for kind in ("none", "diversity"):
        config = weighted(data, kind, sample_weights=kind, weight_scale=1.0)
        trainer = Trainer(config, tmp_path, prepare(config), torch.device("cpu"), quiet())
        trainer.model.train()
        part = []
        for batch in trainer.prepared.batches.stream(0, 7):
            trainer._step(batch)
            part.append(torch.cat([p.detach().flatten() for p in trainer.model.parameters()]))
        runs.append(part)
    assert [torch.equal(*both) for both in zip(*runs, strict=True)] == [True] * 5 + [False] * 2


def test_the_cache_contains_only_embeddings_of_completed_steps(data):
    config = weighted(data, dropout=False)
    prepared, part = begun(config)
    batch = prepared.batches(0)
    take(prepared, part, config, batch)
    assert not part.cache.known_texts.any()
    part.after_step(prepared.model, 0)
    images, texts, *_ = embed(prepared.model, batch)
    torch.testing.assert_close(part.cache.texts[batch.text_ids].double(), texts)
    last = {image: row for row, image in enumerate(batch.image_ids.tolist())}
    for image, row in last.items():
        torch.testing.assert_close(part.cache.images[image].double(), images[row])
    assert int(part.cache.known_texts.sum()) == BATCH
    assert int(part.cache.known_images.sum()) == len(last)
    assert not any(value.requires_grad for value in part.state_dict().values())


def test_neighbours_of_neighbours_and_random_weights_are_redrawn_every_epoch(data):
    config = weighted(data, sample_weights="discrepancy", neighbours_of_neighbours=2 * NEIGHBOURS)
    scores = []
    for epoch in (1, 2, 1):
        _, part = filled(config, epoch)
        scores.append(part.discrepancy.clone())

    assert torch.equal(scores[0], scores[2])
    assert not torch.equal(scores[0], scores[1])
    _, every = filled(weighted(data, sample_weights="discrepancy"))
    assert not torch.equal(scores[0], every.discrepancy)
    # Weights stay until the next epoch, whatever the steps embed
    scores = []
    for kind, epoch in (("diversity", 1), ("random", 1), ("random", 1), ("random", 2)):
        prepared, part = filled(weighted(data, sample_weights=kind), epoch=0)
        assert not part.scored
        part.begin_epoch(epoch)
        scores.append(part.diversity.clone())
        pairs = prepared.batches(0).text_ids
        weights = part.of_pairs(pairs)
        assert weights.sum().item() == pytest.approx(BATCH, rel=1e-5)
        part.cache.texts.neg_()
        assert torch.equal(part.of_pairs(pairs), weights)

    method, control, again, later = scores
    assert sorted(method.tolist()) == sorted(control.tolist()) == sorted(later.tolist())
    assert torch.equal(control, again)
    assert not any(torch.equal(control, other) for other in (method, later))


def test_weightings_of_other_papers_use_only_the_batch(data):
    config = weighted(data, dropout=False, sample_weights="none")
    prepared = prepare(config)
    batch = prepared.batches(1)
    plain = take(prepared, None, config, batch).per_pair
    images, texts, *_ = embed(prepared.model, batch)
    ids = batch.image_ids.tolist()
    scores = (images @ texts.T).tolist()
    sides = (images @ images.T).tolist(), (texts @ texts.T).tolist()
    by_kind = {"hal": others.hub_weights(scores, ids, LAMBDA, HAL_SHARPNESS, HAL_THRESHOLD)}
    by_kind["mithun"] = others.rank_weights(scores, ids, LAMBDA)
    by_kind["amrani"] = others.density_weights(*sides, ids, LAMBDA, AMRANI_NEIGHBOURS)
    for kind, expected in by_kind.items():
        weighting = changed(config, sample_weights=kind)
        assert prepare(weighting).sources.neighbourhood is None
        ours = take(prepared, None, weighting, batch).per_pair
        torch.testing.assert_close(ours, plain * torch.tensor(expected), rtol=1e-4, atol=1e-7)


def test_within_modality_losses_match_reference_loops(data):
    """The positive is the cached embedding of one random neighbour; negatives are the samples of other images in the batch,
    except neighbours. The first epoch has no such loss."""
    config = weighted(data, dropout=False, sample_weights="none", within_image=0.3, within_text=0.7)
    prepared, part = begun(config)
    part.begin_epoch(0)
    assert take(prepared, part, config, prepared.batches(0)).parts["within-image"] == 0
    prepared, part = filled(config)
    batch = prepared.batches(1)
    losses = take(prepared, part, config, batch)
    images, texts, *_ = embed(prepared.model, batch)
    ids = batch.image_ids.tolist()
    pairs = batch.text_ids.tolist()
    sides = {"within-image": (images, part.cache.images[part.image_of_text].double())}
    sides["within-text"] = texts, part.cache.texts.double()
    for name, (rows, cached) in sides.items():
        total = 0.0
        for i, pair in enumerate(pairs):
            near = part.neighbours[pair].tolist()
            assert int(part.partner[pair]) in near
            positive = float(rows[i] @ cached[part.partner[pair]])
            for j, other in enumerate(pairs):
                if ids[j] != ids[i] and other not in near:
                    total += max(0.0, float(rows[i] @ rows[j]) - positive + 0.4)
        assert losses.parts[name].item() == pytest.approx(total / (2 * BATCH * BATCH), rel=1e-4)

    plain = take(prepared, part, changed(config, within_image=0.0, within_text=0.0), batch)
    added = 0.3 * losses.parts["within-image"] + 0.7 * losses.parts["within-text"]
    torch.testing.assert_close(losses.total, plain.total + added)


@pytest.mark.parametrize("several", [{"embeddings": 3}, {"scorer": "interaction"}])
def test_samples_of_several_vectors_are_cached_as_their_mean(data, several):
    """So that all N² · K² cosines of a double sum are averaged."""
    config = weighted(data, dropout=False, within_text=0.5, **several)
    prepared, part = filled(config)
    batch = prepared.batches(0)
    losses = take(prepared, part, config, batch)
    assert torch.isfinite(losses.total)
    assert losses.parts["within-text"] > 0
    part.after_step(prepared.model, 0)
    model = prepared.model
    with torch.no_grad():
        texts = model.encode_texts(batch.words, batch.word_lengths)
        images = model.encode_images(batch.regions, batch.region_lengths)
    near = {"rtol": 1e-4, "atol": 1e-6}
    for parts, row, length in zip(texts, batch.text_ids, batch.word_lengths.tolist(), strict=True):
        parts = parts if "embeddings" in several else parts[:length]
        torch.testing.assert_close(part.cache.texts[row], parts.mean(0), **near)
    torch.testing.assert_close(part.cache.images[batch.image_ids[-1]], images[-1].mean(0), **near)


def test_fewer_neighbours_than_requested_are_reported(data):
    """40 captions of 20 images: 38 at most."""
    faults = prepare(weighted(data, neighbours=200)).faults
    (fault,) = [fault for fault in faults if fault.place == "--neighbours"]
    assert all(number in str(fault) for number in ("200", "40 of 40", "38"))
    assert fault.severity == "warning"
