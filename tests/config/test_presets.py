"""Presets are valid, survive TOML and have the values that the papers print."""

import re
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest
import tomli_w

from coder_core.config.checks import problems
from coder_core.config.presets import PRESETS, find_preset
from coder_core.config.schema import from_document, settings, to_document
from tests.support.precomp_folders import assert_refused

PAPERS = [name for name in PRESETS if "f30k-b" in name or "coco-b" in name]
# CODER sections 4.1 and 4.2: μ 0.1, γ 0.3, ε 0.1, bank 4096, momentum 0.995, 2e-4 over 30 epochs, batch 128.
CODER = {"temperature": 0.1, "gamma": 0.3, "epsilon": 0.1, "bank_size": 4096}
CODER |= {"learning_rate": 2e-4, "epochs": 30, "batch_size": 128, "schedule": "step", "decay_at": 0.5}
CODER |= {"momentum": 0.995, "weight_instance": 3.0, "weight_memory": 1.0, "dimension": 1024}
# Section 4.1: 400 concepts, 300 dimensions, β 0.9; A.2: one layer; CVSE: 0.3; our smoothing: 10.
CONCEPTS = {"concepts": 400, "word_size": 300, "beta": 0.9, "gcn_layers": 1}
CONCEPTS |= {"concept_smoothing": 10.0, "concept_threshold": 0.3, "concept_rescale": True}
CONCEPTS["weight_concept"] = 1.0
# Diao et al. 2024, section IV-A: 2e-4, a tenth of it after 30 of 40 epochs, and after 10 of 20 on COCO.
DBL = {"scorer": "interaction", "interaction_size": 256, "interaction_sharpness": 9.0}
DBL |= {"boosting_margin": 0.2, "boosting_split": 0.5, "word_size": 300, "dimension": 1024}
DBL["learning_rate"] = 2e-4
# Thomas and Kovashka 2022, section 3.5 and table 1; λ = 196.
THOMAS = {"sample_weights": "combined", "diversity_share": 1.0, "discrepancy_share": 4.0}
THOMAS |= {"neighbours": 200, "neighbours_of_neighbours": 1000, "weight_scale": 196 / 32, "batch_size": 32}
THOMAS |= {"learning_rate": 1e-4, "weight_decay": 1e-5, "schedule": "plateau", "plateau": 5}
THOMAS |= {"embeddings": 3, "npairs_margin": 0.1}
LORA = {"image_tuning": "lora", "text_tuning": "lora", "learning_rate": 2e-4, "weight_decay": 0.01}
FULL = {"image_tuning": "full", "text_tuning": "full", "learning_rate": 1e-5, "weight_decay": 0.1}
PRINTED = {
    **{name: CODER | {"text_encoder": name.rpartition("-")[2]} for name in PAPERS},
    "dbl-f30k": DBL | {"epochs": 40, "decay_at": 30 / 40},
    "dbl-coco": DBL | {"epochs": 20, "decay_at": 10 / 20},
    "thomas-coco": THOMAS,
    "clip-full": FULL,
    "clip-lora": LORA,
    "coder-clip-lora": LORA | {"loss": "dcl", "bank_size": 0, "concepts": 0, "learn_scale": False},
    "siglip-lora": LORA,
    "tower-frozen": {"image_tuning": "frozen", "text_tower": ""},
}


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_is_valid_and_survives_toml(name):
    config = PRESETS[name].config
    assert [fault for fault in problems(config) if fault.severity == "error"] == []
    assert config.data.data
    assert PRESETS[name].about
    assert from_document(tomllib.loads(tomli_w.dumps(to_document(config)))) == config


def test_zero_shot_refers_to_embed_and_presets_use_the_readmes_clip():
    assert_refused(r"coder-lab embed pictures DATA --model", find_preset, "clip-zero-shot")
    # The model that the README names has safetensors on its main branch, where others have pickles
    model = re.search(r"MODEL=(\S+)", (Path(__file__).parents[2] / "README.md").read_text())[1]
    for name in ("clip-lora", "clip-full", "coder-clip-lora", "tower-frozen"):
        assert PRESETS[name].config.towers.image_tower == model


@pytest.mark.parametrize("name", PRINTED)
def test_presets_have_the_papers_values(name):
    config = PRESETS[name].config
    expected = PRINTED[name]
    assert {key: settings()[key].of(config) for key in expected} == expected
    if name.startswith("coder-") and name != "coder-clip-lora":
        assert {key: settings()[key].of(config) for key in CONCEPTS} == CONCEPTS
        assert replace(config.model, concepts=0) == PRESETS[name.removeprefix("coder-")].config.model
    if name.startswith(("clip", "siglip")):
        assert config.towers.image_tower == config.towers.text_tower
        assert problems(config) == []
