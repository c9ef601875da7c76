"""Presets are valid, survive TOML and carry the values the paper prints."""

import tomllib
from dataclasses import replace

import pytest
import tomli_w

from coder_core.config.checks import problems
from coder_core.config.presets import DEMO_RUNS, PRESETS, find_preset
from coder_core.config.schema import from_document, to_document
from coder_core.console.faults import InputError


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_is_valid_and_survives_toml(name: str) -> None:
    config = PRESETS[name].config
    assert [fault for fault in problems(config) if fault.severity == "error"] == []
    assert config.data.data
    assert PRESETS[name].about
    assert from_document(tomllib.loads(tomli_w.dumps(to_document(config)))) == config


def test_the_presets_that_were_promised() -> None:
    bases = ["demo", "flickr8k", "f30k-bigru", "f30k-bert", "coco-bigru", "coco-bert"]
    promised = {*bases, *(f"coder-{base}" for base in bases), "coder-flickr8k-gpu"}
    promised |= {"demo-baseline", "flickr8k-baseline", "flickr8k-boosted"}
    assert promised <= set(PRESETS)
    assert DEMO_RUNS == ("demo-baseline", "coder-demo", "demo-weights")
    for name in ("demo-baseline", "flickr8k-baseline"):
        assert PRESETS[name].config.objective.loss == "btr-hardest"
        assert PRESETS[name].config.memory.bank_size == 0


def test_a_zero_shot_model_is_sent_to_the_command_that_evaluates_it() -> None:
    with pytest.raises(InputError, match=r"python -m coder_core\.embed pictures DATA --model openai/clip"):
        find_preset("clip-zero-shot")


@pytest.mark.parametrize(
    ("name", "tuning", "rate", "decay"),
    [
        ("clip-full", "full", 1e-5, 0.1),
        ("clip-lora", "lora", 2e-4, 0.01),
        ("siglip-lora", "lora", 2e-4, 0.01),
    ],
)
def test_the_literatures_values_of_towers(name: str, tuning: str, rate: float, decay: float) -> None:
    config = PRESETS[name].config
    assert config.towers.image_tower == config.towers.text_tower
    assert config.towers.image_tuning == config.towers.text_tuning == tuning
    assert (config.training.learning_rate, config.training.weight_decay) == (rate, decay)
    assert problems(config) == []
    frozen = PRESETS["tower-frozen"].config
    assert (frozen.towers.image_tuning, frozen.towers.text_tower) == ("frozen", "")


@pytest.mark.parametrize("name", [name for name in PRESETS if name.startswith(("coder-f30k", "coder-coco"))])
def test_the_papers_values_of_the_concept_branch(name: str) -> None:
    """CODER section 4.1: 400 concepts of 300 numbers, β 0.9; A.2: one layer; CVSE: 0.3; our smoothing: 10."""
    config = PRESETS[name].config
    model, alone = config.model, PRESETS[name.removeprefix("coder-")].config
    assert (model.concepts, model.word_size, model.beta) == (400, 300, 0.9)
    assert (model.gcn_layers, model.concept_smoothing, model.concept_threshold) == (1, 10.0, 0.3)
    assert model.concept_rescale
    assert config.objective.weight_concept == 1.0
    assert replace(model, concepts=0) == alone.model


@pytest.mark.parametrize("name", [name for name in PRESETS if "f30k-b" in name or "coco-b" in name])
def test_the_papers_values(name: str) -> None:
    """CODER sections 4.1 and 4.2: μ 0.1, γ 0.3, ε 0.1, bank 4096, momentum 0.995, 2e-4 over 30 epochs, batch 128."""
    config = PRESETS[name].config
    assert (config.objective.temperature, config.objective.gamma, config.objective.epsilon) == (0.1, 0.3, 0.1)
    assert (config.memory.bank_size, config.memory.momentum) == (4096, 0.995)
    training = config.training
    assert (training.learning_rate, training.epochs, training.batch_size) == (2e-4, 30, 128)
    assert (training.schedule, training.decay_at) == ("step", 0.5)
    assert (config.objective.weight_instance, config.objective.weight_memory) == (3.0, 1.0)
    assert config.model.dimension == 1024
    assert config.model.text_encoder == name.rpartition("-")[2]


def test_the_recipes_of_deep_boosting_learning() -> None:
    """Diao et al. 2024, section IV-A: 2e-4, a tenth of it after 30 of 40 epochs, and after 10 of 20 on COCO."""
    for name, epochs, decay in (("dbl-f30k", 40, 30), ("dbl-coco", 20, 10)):
        config = PRESETS[name].config
        assert config.model.scorer == "interaction"
        assert (config.model.interaction_size, config.model.interaction_sharpness) == (256, 9.0)
        assert (config.boosting.boosting_margin, config.boosting.boosting_split) == (0.2, 0.5)
        assert (config.model.word_size, config.model.dimension) == (300, 1024)
        training = config.training
        assert (training.learning_rate, training.epochs, training.decay_at * epochs) == (2e-4, epochs, decay)


def test_the_recipe_of_complementary_samples() -> None:
    """Thomas and Kovashka 2022, section 3.5 and table 1."""
    config = PRESETS["thomas-coco"].config
    weights, training = config.weighting, config.training
    assert weights.sample_weights == "combined"
    assert (weights.diversity_share, weights.discrepancy_share) == (1.0, 4.0)
    assert (weights.neighbours, weights.neighbours_of_neighbours) == (200, 1000)
    assert weights.weight_scale * training.batch_size == 196
    assert (training.batch_size, training.learning_rate, training.weight_decay) == (32, 1e-4, 1e-5)
    assert (training.schedule, training.plateau) == ("plateau", 5)
    assert (config.model.embeddings, config.objective.npairs_margin) == (3, 0.1)
