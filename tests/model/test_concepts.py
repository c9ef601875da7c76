"""The concept branch inside the model, and how a run gets its concepts: vectors, lists, coverage."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from coder_core.config.data import DataConfig
from coder_core.config.model import ModelConfig
from coder_core.config.schema import Config
from coder_core.model.coder import ModelParts, build_model
from coder_core.model.concepts.knowledge import concept_vectors, make_concepts, read_concept_list
from coder_core.ops import normalise
from tests.support.precomp_folders import assert_refused
from tests.support.run_folders import some_concepts

CAPTIONS = ["a red dog runs", "two dogs run on red grass", "a dog on grass", "red dogs running", "grass"] * 2
SIZE = {"dimension": 8, "word_size": 5}


def batch():
    torch.manual_seed(3)
    regions = torch.rand(4, 3, 6)
    words = torch.randint(2, 9, (4, 5))
    return regions, torch.tensor([3, 2, 3, 1]), words, torch.tensor([5, 2, 1, 4])


def built(**model):
    config = ModelConfig(**(SIZE | model))
    torch.manual_seed(0)
    concepts = some_concepts() if config.concepts else None
    return build_model(config, ModelParts(6, 9, concepts=concepts)).eval()


def test_concepts_keep_the_instance_branch_and_train_every_weight():
    alone = built()
    both = built(concepts=5)
    instance_state = alone.state_dict()
    assert not any("concept" in name for name in instance_state)
    assert all(torch.equal(value, both.state_dict()[name]) for name, value in instance_state.items())
    actual = alone(*batch())
    with_concepts = both(*batch())
    assert (actual.concept_images, actual.concept_texts) == (None, None)
    assert torch.equal(actual.images, with_concepts.images)
    assert torch.equal(actual.texts, with_concepts.texts)
    model = built(concepts=5, gcn_layers=2).train()
    calls = []
    model.concepts.network.register_forward_hook(lambda *_: calls.append(1))
    actual = model(*batch())[:4]
    assert len(calls) == 1
    for rows in actual:
        torch.testing.assert_close(rows.norm(dim=1), torch.ones(4))
    sum((rows * torch.rand_like(rows)).sum() for rows in actual).backward()
    assert [name for name, p in model.named_parameters() if p.grad is None or not p.grad.any()] == []


def test_concepts_use_the_unnormalised_image_and_their_own_word_pooling():
    model = built(concepts=5)
    regions, lengths, *_ = batch()
    pooled = model.image_pooling(model.regions(regions, lengths), lengths)
    nodes = model.concepts.nodes()
    actual = model.image_branches(regions, lengths, nodes)
    expected = model.concepts.embed_images(pooled, nodes)
    assert torch.equal(actual.instance, normalise(pooled))
    assert torch.equal(actual.concept, expected.embeddings)
    normalised = model.concepts.embed_images(normalise(pooled), nodes)
    assert not torch.allclose(normalised.attention, expected.attention, atol=1e-4)
    model = built(concepts=5)
    _, _, words, lengths = batch()
    nodes = model.concepts.nodes()
    before = model.text_branches(words, lengths, nodes)
    with torch.no_grad():
        for parameter in model.concept_text_pooling.parameters():
            parameter.add_(0.5)

    after = model.text_branches(words, lengths, nodes)
    assert torch.equal(before.instance, after.instance)
    assert not torch.allclose(before.concept, after.concept)


def config_of(data=None, **model):
    return Config(data=data or DataConfig(), model=ModelConfig(**(SIZE | {"concepts": 10} | model)))


def test_concepts_of_captions_by_hand():
    """dog is in lines 1-4, grass in 2, 3, 5, red in 1, 2, 4, run in 1, 2, 4; all twice."""
    seen = []
    actual, faults = make_concepts(config_of(), CAPTIONS, progress=lambda *now: seen.append(now))
    assert actual.vocabulary.words == ["dog", "grass", "red", "run"]
    assert actual.occurrences.tolist() == [8, 6, 6, 6]
    assert actual.together.tolist() == [[0, 4, 6, 6], [4, 0, 2, 2], [6, 2, 0, 6], [6, 2, 6, 0]]
    assert actual.vectors.shape == (4, 5)
    assert seen == [(10, 10)]
    assert not any("vector" in str(fault) for fault in faults), "all have one"
    repeated, _ = make_concepts(config_of(), CAPTIONS)
    assert np.array_equal(repeated.vectors, actual.vectors)


def test_glove_vectors_of_concepts_fall_back_to_the_mean_of_other_forms(tmp_path):
    """A list of concepts replaces tagging."""
    glove = tmp_path / "glove.txt"
    listed = tmp_path / "list.json"
    rows = {"dog": 1.0, "red": 3.0, "runs": 4.0, "running": 8.0, "zebra": 9.0}
    glove.write_text("".join(f"{word} {' '.join([str(value)] * 5)}\n" for word, value in rows.items()))
    config = config_of(DataConfig(word_vectors=str(glove)))
    actual, faults = make_concepts(config, CAPTIONS)
    dog, grass, red, run = actual.vectors.tolist()
    assert (dog, red, run) == ([1.0] * 5, [3.0] * 5, [6.0] * 5)  # run has none: the mean of runs and running
    assert any(grass)
    assert "3 of 4 concepts have a vector; the others start at random: grass" in str(faults[-1])
    assert faults[-1].severity == "warning"
    wide = replace(config, model=replace(config.model, word_size=7))
    assert_refused("word size to 5", concept_vectors, wide, actual.vocabulary, CAPTIONS)
    listed.write_text(json.dumps({"objects": ["grass", "dog"], "properties": ["red"]}))
    actual, _ = make_concepts(config_of(concept_list=str(listed)), CAPTIONS)
    assert (actual.vocabulary.words, actual.vocabulary.source) == (["grass", "dog", "red"], "list")
    assert actual.occurrences.tolist() == [6, 8, 6]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (None, "cannot be read"),
        ("{", "cannot be read"),
        (["dog"], "contains list"),
        ({"things": []}, "contains things"),
        ({"objects": "dog"}, "key objects: "),
        ({"objects": [1]}, "key objects: "),
        ({"objects": ["dog"], "motions": ["Dog"]}, "key motions entry 0: repeats 'Dog'"),
        ({"objects": ["dog", "!"]}, "key objects entry 1: is '!'"),
        ({"objects": ["dog"]}, "has 1 words"),
    ],
)
def test_an_invalid_concept_list_is_refused(tmp_path, content, reason):
    path = tmp_path / "list.json"
    if content is not None:
        path.write_text(content if isinstance(content, str) else json.dumps(content))
    assert_refused(reason, read_concept_list, path)
