"""The concept branch in training: its loss, a run from start to evaluation, exact resuming, and runs without it."""

import json
import shutil

import numpy as np
import pytest
import torch

from coder_core.data.dataset import read_split
from coder_core.evaluation.recall import retrieval_metrics
from coder_core.files.sealed import SealedFolder
from coder_core.model.encode import SplitEncoding, encode_split
from coder_core.runs.analysis.read import open_analysis
from coder_core.runs.load import load_model, read_concepts, read_config, read_vocabulary
from coder_core.training.launch import continue_run, start_run
from coder_core.training.prepare import Inputs, prepare
from tests.reference import step as reference
from tests.support.steps import compute_losses, embed, with_memory
from tests.support.tiny_runs import STILL, changed, events, quiet, tiny_config

CONCEPTS = 10


def concept_config(data, **values):
    return tiny_config(data, **{"concepts": CONCEPTS, "gcn_layers": 2, "beta": 0.7} | values)


@pytest.fixture(scope="module")
def whole(data, tmp_path_factory):
    """An uninterrupted run of both branches."""
    return start_run(concept_config(data, epochs=2), tmp_path_factory.mktemp("whole"), quiet())


def first_losses(prepared, config):
    return compute_losses(prepared.model, prepared.batches(0), config, epoch=5.0)


@pytest.mark.parametrize(
    ("loss", "diversity"), [("dcl", "std"), ("dcl", "entropy"), ("dcl-i", "none"), ("infonce", "std")]
)
def test_the_concept_loss_is_one_symmetric_dcl_over_the_batch(data, loss, diversity):
    """Diversity is over the batch only, whatever bank the instance branch has; DCL_I if the instance loss is DCL_I."""
    switches = {"loss": loss, "temperature": 0.2, "weight_concept": 0.5}
    if diversity != "none":
        switches["diversity"] = diversity
    config = concept_config(data, bank_size=0, **STILL | switches)
    prepared = prepare(config)
    losses = first_losses(prepared, config)
    alone = first_losses(prepared, changed(config, weight_concept=0.0))
    batch = prepared.batches(0)
    values = {"kind": diversity, "temperature": 0.2, "margin": 0.3}
    rows = embed(prepared.model, batch)[2:4]
    ids = batch.image_ids.tolist()
    expected = reference.coupled(rows, None, None, ids, [], **values)[0] / len(ids)
    assert losses.parts["dcl-concept"].item() == pytest.approx(expected, rel=1e-4)
    assert losses.total.item() - alone.total.item() == pytest.approx(0.5 * expected, rel=1e-3)
    assert losses.per_pair.shape == (8,)


def test_the_bank_leaves_the_concept_loss_alone_and_the_twin_skips_the_branch(data):
    config = concept_config(data, **STILL)
    prepared, memory = with_memory(config)
    without = first_losses(prepared, config).parts["dcl-concept"]
    batch = prepared.batches(0)
    for _ in range(2):
        actual = compute_losses(prepared.model, batch, config, [memory], epoch=5.0)
        memory.after_step(prepared.model, 0)
    assert memory.bank.count == 13
    assert torch.equal(actual.parts["dcl-concept"], without)
    prepared, memory = with_memory(concept_config(data))
    twin = memory.twin.concepts
    twin.register_forward_hook(lambda *_: pytest.fail("the twin read the concepts"))
    twin.network.register_forward_hook(lambda *_: pytest.fail("the twin ran the graph network"))
    with torch.no_grad():
        for parameter in prepared.model.parameters():
            parameter.add_(0.1)
    before = twin.image_weight.clone()
    memory.encode_keys(prepared.model, prepared.batches(0))
    assert not torch.equal(twin.image_weight, before)


def test_concepts_come_only_from_the_train_captions(whole, data, tmp_path):
    """Other dev captions give the same concepts and counts; a run keeps its own."""
    config, _ = read_config(whole)
    other = shutil.copytree(data, tmp_path / "other")
    lines = (data / "dev_caps.txt").read_text().splitlines()
    (other / "dev_caps.txt").write_text("zebras graze\n" * len(lines))
    stored = read_concepts(whole, config)
    again = prepare(config, Inputs(read_vocabulary(whole, config))).sources.concepts
    for concepts in (prepare(changed(config, data=str(other))).sources.concepts, again):
        assert concepts.vocabulary == stored.vocabulary
        assert np.array_equal(concepts.together, stored.together)
    assert np.array_equal(again.vectors, stored.vectors)
    assert sum(one.count for one in stored.vocabulary.concepts) > 0
    assert {"concepts.json", "concepts.safetensors"} <= set(SealedFolder(whole).manifest["files"])


def test_a_deleted_concept_list_does_not_stop_a_resume(data, tmp_path):
    path = tmp_path / "list.json"
    path.write_text(json.dumps({"objects": ["star", "ring"], "motions": ["runs"]}))
    run = start_run(concept_config(data, concept_list=str(path), epochs=1), tmp_path / "runs", quiet())
    path.unlink()
    continue_run(run, None, quiet())
    assert load_model(run).encode_text(["a star"], scoring=True).shape == (1, 16)


def test_dev_and_analysis_are_ranked_by_the_mixture(whole, data):
    loaded = load_model(whole)
    dev = read_split(data, "dev")
    tokens = loaded.reader.encode(dev.captions)
    actual = encode_split(loaded.model, dev, tokens, SplitEncoding(attention=True))
    np.testing.assert_allclose(actual.image_attention.astype(np.float32).sum(1), 1, atol=1e-2)
    mixture = {"second": actual.second, "weight": 0.7}
    metrics = retrieval_metrics(actual.images, actual.texts, dev.image_of_text, **mixture)
    analysis = open_analysis(whole, "dev", verify=True)
    assert analysis.manifest["version"] == 2
    assert {name: analysis.metrics[name] for name in metrics} == metrics
    epochs = [event["metrics"] for event in events(whole, "epoch")]
    assert max(epochs, key=lambda of_epoch: of_epoch["rsum"]) == metrics
    tables = analysis.concepts
    assert tables.beta == 0.7
    np.testing.assert_allclose(tables.text_embeddings, actual.concept_texts, atol=1e-6)
    mixed = 0.7 * actual.texts @ actual.images.T + 0.3 * actual.concept_texts @ actual.concept_images.T
    queries = loaded.encode_text(dev.captions, scoring=True)
    pictures = loaded.encode_images(np.asarray(dev.features, np.float32), scoring=True)
    np.testing.assert_allclose(queries @ pictures.T, mixed, atol=1e-5)
    np.testing.assert_allclose(np.linalg.norm(queries, axis=1), 1, atol=1e-5)
    np.testing.assert_allclose(loaded.encode_text(dev.captions), actual.texts, atol=1e-6)
    assert loaded.encode_text([], scoring=True).shape == (0, 16)
