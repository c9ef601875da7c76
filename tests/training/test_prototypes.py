"""Prototypes in training: when the loss begins, what it is, resuming, several processes, what is saved and reported."""

import numpy as np
import pytest
import torch

from coder_core.config.schema import Config
from coder_core.training.launch import start_run
from coder_core.training.parts.prototypes import PrototypeClassification
from coder_core.training.prepare import make_prototypes, prepare
from tests.reference import prototypes as reference
from tests.support.precomp_folders import assert_refused
from tests.support.steps import compute_losses, embed
from tests.support.tiny_runs import STILL, changed, events, printed, quiet, tiny_config

PER_EPOCH = 5
PROTOTYPES = 6


def prototype_config(data, **values):
    """Return a configuration with prototypes, without dropout and without a bank."""
    return tiny_config(data, **STILL | {"epochs": 4, "bank_size": 0, "prototypes": PROTOTYPES} | values)


def step(prepared, prototypes, config, number):
    parts = [prototypes] if prototypes else []
    return compute_losses(prepared.model, prepared.batches(number), config, parts, epoch=number / PER_EPOCH)


def begun(config, steps=0):
    """Return data, model and prototypes after some steps, and the losses of the last of these."""
    prepared = prepare(config)
    losses = None
    prototypes = make_prototypes(config, prepared)
    for number in range(steps):
        losses = step(prepared, prototypes, config, number)
        prototypes.after_step(prepared.model, 0)
    return prepared, prototypes, losses


@pytest.mark.parametrize("concepts", [0, 4])
def test_the_prototype_loss_starts_after_one_pass_and_matches_loops(data, concepts):
    """The concept branch is classified or, without one, the instance branch."""
    config = prototype_config(data, concepts=concepts, weight_prototypes=0.5, prototype_temperature=0.25)
    prepared, prototypes, _ = begun(config)
    loops = reference.OnlineMeans(PROTOTYPES, PER_EPOCH * 8)
    for number in range(PER_EPOCH + 3):
        batch = prepared.batches(number)
        actual = embed(prepared.model, batch)
        plain = step(prepared, None, config, number)
        losses = step(prepared, prototypes, config, number)
        prototypes.after_step(prepared.model, 0)
        pairs = zip(actual[0].tolist(), actual[1].tolist(), strict=True)
        labels = loops.learn([reference.pair_vector(*pair) for pair in pairs], batch.text_ids.tolist())
        assert ("pgc" in losses.parts) == (number >= PER_EPOCH)
        if labels is None:
            assert losses.total.item() == plain.total.item()
            continue
        named = actual[2:4] if concepts else actual[:2]
        classifier = (prototypes.classifier.detach().double() / 0.25).tolist()
        expected = [
            sum(reference.cross_entropy(side[i].tolist(), classifier, label) for side in named)
            for i, label in enumerate(labels)
        ]
        assert losses.parts["pgc"].item() == pytest.approx(sum(expected) / 8, rel=1e-4)
        assert losses.total.item() == pytest.approx(plain.total.item() + 0.5 * sum(expected) / 8, rel=1e-4)
        halves = [0.5 * value for value in expected]
        assert (losses.per_pair - plain.per_pair).tolist() == pytest.approx(halves, rel=1e-3)


def test_gradients_reach_classifier_and_branch_and_centroids_move_after_the_step(data):
    config = prototype_config(data, concepts=4, weight_instance=0.0, weight_concept=0.0)
    prepared, prototypes, _ = begun(config, PER_EPOCH)
    before = {name: value.clone() for name, value in prototypes.state_dict().items()}
    step(prepared, prototypes, config, PER_EPOCH).total.backward()
    for parameter in (prototypes.classifier, *prepared.model.concepts.parameters()):
        assert parameter.grad.abs().max() > 0
    assert all(torch.equal(value, before[name]) for name, value in prototypes.state_dict().items())
    prototypes.after_step(prepared.model, 0)
    assert not torch.equal(prototypes.clusters.centroids, before["clusters.centroids"])


def test_the_prototype_report_by_hand():
    """Two of four pairs had a label, one of them a different one; three images and one text are classified right."""
    config = changed(Config(), prototypes=2, dimension=2)
    prototypes = PrototypeClassification(config, np.arange(4), pass_pairs=4)
    assert prototypes.report() == {}
    seeds = torch.tensor([[1.0, 0.0], [1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    prototypes.classification_losses(seeds, seeds, seeds, torch.arange(4))
    prototypes.after_step(None, 0)
    assert prototypes.statistics(prototypes.tally) == {}
    prototypes.clusters.labels[:2] = torch.tensor([0, 1])
    prototypes.clusters.members[:] = 1
    with torch.no_grad():
        prototypes.classifier.copy_(torch.tensor([[1.0, 0.0], [0.0, 1.0]]))

    pairs = torch.tensor([[1.0, 0.0], [0.8, 0.6], [1.0, 0.0], [0.0, 1.0]])  # labels 0 0 0 1
    images = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 1.0]])
    texts = torch.tensor([[0.0, 1.0], [0.0, 1.0], [0.0, 1.0], [0.0, 1.0]])
    prototypes.classification_losses(pairs, images, texts, torch.arange(4))
    prototypes.after_step(None, 0)
    expected = {"used": 2, "dead": 0, "largest": 3, "reseeded": 0, "inertia": 0.1, "changed": 0.5}
    expected |= {"image_accuracy": 0.75, "text_accuracy": 0.25}
    assert prototypes.report()["prototypes"] == pytest.approx(expected, abs=1e-5)
    assert prototypes.statistics(prototypes.tally) == pytest.approx(expected, abs=1e-5)


def test_the_history_and_the_screen_report_the_prototypes(data, tmp_path):
    """The run has a twin, banks, and full clusterings after epochs 1 and 2."""
    config = tiny_config(data, prototypes=PROTOTYPES, prototype_recluster=1)
    console = quiet()
    run = start_run(config, tmp_path, console)
    by_epoch = {event["epoch"]: event.get("prototypes") for event in events(run, "epoch")}
    assert by_epoch[1] is None  # the first pass only seeds
    counts = {"used", "dead", "largest", "reseeded"}
    assert set(by_epoch[2]) == counts | {"inertia", "image_accuracy", "text_accuracy", "changed", "kept"}
    assert 0 < by_epoch[3]["changed"] <= 1
    assert 0 < by_epoch[3]["inertia"] < 2
    assert 1 <= by_epoch[3]["used"] <= PROTOTYPES
    assert set(events(run, "step")[-1]["prototypes"]) >= {"inertia", "used", "dead", "largest", "changed"}
    assert f"{by_epoch[3]['used']} prototypes used" in printed(console)


def test_more_prototypes_than_pairs_are_refused_with_a_number_that_fits(data):
    """20 images × 2 captions are 40 pairs, which the paper's ratio gives 2 prototypes."""
    assert_refused(r"41.*at most 40.*--prototypes 2\b", prepare, tiny_config(data, prototypes=41))
    faults = prepare(tiny_config(data, prototypes=30)).faults
    assert [fault.severity for fault in faults if fault.place == "--prototypes"] == ["warning"]
