"""coder-lab export RUN --to huggingface DIR: plain transformers gives the tuned run's embeddings."""

import io
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from coder_core.embedding.exports.huggingface import FIX
from coder_core.embedding.exports.huggingface import _of_two_models as of_two_models
from coder_core.export import main as export
from coder_core.model.run_towers import open_towers
from coder_core.model.towers.dual_encoder import DualEncoder
from coder_core.runs.analysis.read import open_analysis
from coder_core.runs.load import best_save
from coder_core.training.launch import start_run
from tests.support.picture_folders import NAMES, draw
from tests.support.precomp_folders import refusal
from tests.support.run_folders import write_run
from tests.support.tiny_runs import quiet
from tests.support.tiny_towers import (
    WIDTH,
    WORDS,
    embedded_by_transformers,
    tower_config,
    write_pictures_of_any_shape,
    write_tiny_clip,
    write_tiny_naflex,
)

pytestmark = pytest.mark.usefixtures("one_thread")
LORA = {"model": "naflex", "image_tuning": "lora", "text_tuning": "lora", "loss": "sigmoid"}


def assert_embeds(folder, pictures, analysis, *, pad=False):
    """Assert that plain transformers gives the embeddings of the analysis from the folder."""
    images, texts = embedded_by_transformers(folder, pictures, analysis.captions, pad=pad)
    np.testing.assert_allclose(images, analysis.image_embeddings, atol=1e-5)
    np.testing.assert_allclose(texts, analysis.text_embeddings, atol=1e-5)


@pytest.mark.parametrize("values", [{}, LORA], ids=["clip in full", "naflex by adapters"])
def test_the_exported_folder_gives_the_same_embeddings_through_transformers(towers_folder, tmp_path, values):
    from transformers import AutoModel

    siglip = "model" in values
    if siglip:
        write_pictures_of_any_shape(towers_folder)
    config = tower_config(towers_folder, epochs=1, learning_rate=1e-2, **values)
    run = start_run(config, tmp_path / "runs", quiet())
    out = tmp_path / "out"
    assert export([str(run), "--to", "huggingface", str(out)]) == 0
    plain = AutoModel.from_pretrained(out, use_safetensors=True)
    analysis = open_analysis(run, "dev")
    folder = Path(config.data.data) / "Flicker8k_Dataset"
    assert_embeds(out, [Image.open(folder / name) for name in analysis.image_names], analysis, pad=siglip)
    before = AutoModel.from_pretrained(config.towers.image_tower)
    changed = [k for k, v in plain.state_dict().items() if not torch.equal(v, before.state_dict()[k])]
    assert all(any(side in name for name in changed) for side in ("vision", "text"))
    if siglip:
        learned = best_save(run).tensors("scale")
        assert plain.logit_scale.item() == pytest.approx(learned["log_scale"].item())
        assert plain.logit_bias.item() == pytest.approx(learned["bias"].item())
        assert learned["bias"].item() != -10
    else:
        assert math.isclose(plain.logit_scale.item(), -math.log(0.05), rel_tol=1e-6)
    card = (out / "README.md").read_text(encoding="utf-8")
    facts = f"| rsum | {analysis.metrics['rsum']:.2f} |", "coder-lab train", config.data.data
    assert all(fact in card for fact in facts)


@pytest.mark.filterwarnings("ignore:.is_gradient_checkpointing.:FutureWarning")  # peft's
@pytest.mark.parametrize("tuning", ["full", "frozen"])
def test_an_adapter_beside_the_models_weights_is_merged(towers_folder, tmp_path, tuning):
    """transformers loads both from one folder, and so do training and embedding."""
    from peft import LoraConfig, get_peft_model
    from transformers import CLIPModel

    folder = write_tiny_clip(towers_folder / f"adapted-{tuning}", seed=4)
    settings = LoraConfig(r=4, target_modules=["q_proj", "fc1"], init_lora_weights=False)
    get_peft_model(CLIPModel.from_pretrained(folder), settings).save_pretrained(folder)
    tunings = {"image_tuning": tuning, "text_tuning": "full"}
    run = start_run(
        tower_config(towers_folder, "run", model=folder.name, epochs=1, **tunings), tmp_path, quiet()
    )
    out = tmp_path / "out"
    assert export([str(run), "--to", "huggingface", str(out)]) == 0
    assert not list(out.glob("adapter*"))
    analysis = open_analysis(run, "dev")
    pictures = [Image.open(io.BytesIO(draw(NAMES.index(name)))) for name in analysis.image_names]
    assert_embeds(out, pictures, analysis)


def test_towers_of_two_models_become_one_dual_encoder(towers_folder, tmp_path):
    clip = write_tiny_clip(towers_folder / "wide", seed=1, space=WIDTH)
    naflex = write_tiny_naflex(towers_folder / "naflex", WORDS)
    siglip = towers_folder / "siglip"
    values = {"image_tuning": "lora", "learning_rate": 1e-2}

    def two_models(image, text):
        towers = {"image_tower": str(image), "text_tower": str(text)}
        return tower_config(towers_folder, "two", epochs=1, **towers, **values)

    run = start_run(two_models(siglip, clip), tmp_path, quiet())
    out = tmp_path / "out"
    assert export([str(run), "--to", "huggingface", str(out)]) == 0
    analysis = open_analysis(run, "dev")
    pictures = [Image.open(io.BytesIO(draw(NAMES.index(name)))) for name in analysis.image_names]
    assert_embeds(out, pictures, analysis)
    towers = DualEncoder(str(out))  # embed pictures takes it, too
    rows, _ = towers.encode_texts(analysis.captions)
    np.testing.assert_allclose(rows, analysis.text_embeddings, atol=1e-6)

    other = write_tiny_clip(towers_folder / "other", seed=2, space=WIDTH)

    def halves(image, text):
        towers = open_towers(two_models(image, text))
        return towers.image.module, towers.text.module

    with torch.no_grad():
        modules = halves(other, clip)
        projection = of_two_models(run, *modules).visual_projection.weight
        assert torch.equal(projection, modules[0].projection.weight)
        for reason, pair in {
            "the image tower, a Siglip2VisionModel, ": (naflex, clip),
            "the text tower, a SiglipTextModel, ": (clip, siglip),
        }.items():
            assert reason in str(refusal(of_two_models, run, *halves(*pair)))


def test_a_run_without_towers_is_refused(towers_folder, tmp_path, capfd):
    run = write_run(tmp_path / "runs", "regions")
    assert export([str(run), "--to", "huggingface", str(tmp_path / "out")]) == 1
    assert FIX in " ".join(capfd.readouterr().err.split()).replace("Its", "its")
    assert not (tmp_path / "out").exists()
