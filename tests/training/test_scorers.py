"""Training with K embeddings and with the interaction: losses from scores, boosting, resuming, what is written."""

import numpy as np
import pytest
import torch

from coder_core.evaluate import main
from coder_core.runs.analysis.read import open_analysis
from coder_core.runs.load import load_model
from coder_core.training.launch import start_run
from coder_core.training.prepare import make_objective, prepare
from tests.reference import diversity, losses
from tests.reference import scorers as several
from tests.reference.pairs import kept, negatives, transposed
from tests.support.steps import compute_losses, scores
from tests.support.tiny_runs import STILL, changed, quiet, tiny_config

KINDS = {"several": {"embeddings": 3}, "interaction": {"scorer": "interaction"}}


def scored(data, kind, name="tiny", **values):
    usual = {"loss": "btr-hardest", "warmup_epochs": 1.0, "weight_instance": 1.0, "bank_size": 0, "epochs": 1}
    usual["twin_precision"] = "float32"  # on every processor: margins are compared with those of loops
    return tiny_config(data, name, **usual | KINDS[kind] | values)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("loss", ["btr-sum", "btr-hardest", "infonce", "dcl-i", "dcl"])
def test_every_loss_follows_from_the_scores(data, kind, loss):
    """The losses follow from the scores of single pairs, as with the cosine."""
    config = scored(data, kind, loss=loss, **STILL)
    prepared = prepare(config)
    batch = prepared.batches(0)
    model = prepared.model.train()
    actual = compute_losses(model, batch, config, epoch=5.0)
    actual.total.backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())
    rows = scores(model, batch)
    ids = batch.image_ids.tolist()
    total = 0.0
    for matrix in (rows, transposed(rows)):
        others = [kept(row, mask) for row, mask in zip(matrix, negatives(ids, ids), strict=True)]
        raw = [diversity.raw(diversity.deviation(one), 0.1) for one in others]
        div = diversity.normalised(raw) if loss == "dcl" else [1.0] * len(ids)
        total += sum(expected(loss, one, matrix[i][i], config, div[i]) for i, one in enumerate(others))
    assert actual.parts[loss].item() == pytest.approx(total / len(ids), rel=1e-4)


@pytest.mark.parametrize("loss", ["btr-sum", "infonce"])
def test_the_regularisers_of_several_embeddings_are_added(data, loss):
    """They are averaged over the batch if the loss is, and summed if it is summed."""
    config = scored(data, "several", loss=loss, weight_heads=0.3, weight_mmd=0.2, **STILL)
    prepared = prepare(config)
    (part,) = make_objective(config, prepared, torch.device("cpu")).parts
    model = prepared.model.train()
    batch = prepared.batches(0)
    plain = compute_losses(model, batch, config, epoch=5.0)
    actual = compute_losses(model, batch, config, [part], epoch=5.0)
    with torch.no_grad():
        sides = {
            "images": (model.regions, batch.regions, batch.region_lengths, model.image_pooling),
            "texts": (model.words, batch.words, batch.word_lengths, model.text_pooling),
        }
        alike = 0.0
        rows = []
        for encode, inputs, lengths, pooling in sides.values():
            embeddings, heads = pooling.with_residuals(encode(inputs, lengths), lengths)
            alike += sum(several.head_diversity(one) for one in heads.tolist()) / len(heads)
            rows.append(torch.nn.functional.normalize(embeddings, dim=-1).flatten(0, 1).tolist())

    assert actual.parts["heads"].item() == pytest.approx(alike, rel=1e-4)
    assert actual.parts["mmd"].item() == pytest.approx(several.discrepancy(*rows), rel=1e-3)
    size = len(batch.image_ids) if loss == "btr-sum" else 1
    added = size * (0.3 * actual.parts["heads"] + 0.2 * actual.parts["mmd"])
    torch.testing.assert_close(actual.total, plain.total + added)
    torch.testing.assert_close(actual.per_pair.mean(), plain.per_pair.mean() + added)


def expected(loss, others, positive, config, diversity):
    """Return the loss of one anchor."""
    objective = config.objective
    if loss == "infonce":
        return losses.info_nce(others, positive, objective.temperature)
    if loss.startswith("dcl"):
        return losses.diversity_contrastive(others, positive, diversity=diversity, margin=objective.gamma)
    triplet = losses.triplet_sum if loss == "btr-sum" else losses.triplet_hardest
    return triplet(others, positive, objective.margin)


@pytest.fixture(scope="module")
def plain(data, tmp_path_factory):
    """A run with one embedding per sample."""
    config = changed(scored(data, "several", "plain"), embeddings=1)
    return start_run(config, tmp_path_factory.mktemp("plain"), quiet())


@pytest.mark.parametrize("kind", KINDS)
def test_a_scored_run_is_evaluated_alone_and_in_an_ensemble(data, kind, plain, tmp_path):
    folder = start_run(scored(data, kind), tmp_path, quiet())
    analysis = open_analysis(folder, "dev", verify=True)
    assert analysis.scores.shape == (analysis.n_images, analysis.n_texts) == (4, 8)
    own_scores = analysis.scores[analysis.image_of_text, np.arange(8)]
    assert analysis.text_ranks.tolist() == ((analysis.scores >= own_scores).sum(0) - 1).tolist()
    loaded = load_model(folder)
    parts = (analysis.array(name) for name in ("image_parts", "image_part_lengths"))
    again = loaded.score_texts(analysis.captions, *parts)
    np.testing.assert_allclose(again, analysis.scores.T, atol=2e-3)  # parts are kept in half precision
    assert main([str(folder), str(plain), "--split", "dev", "--json", str(tmp_path / "found.json")]) == 0
    assert '"ensemble"' in (tmp_path / "found.json").read_text()
