"""Checkpoints of other trainers give the embeddings of the model that they are, or an error with the way on."""

import json
import shutil

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file, save_file

from coder_core.config.model import TowersConfig
from coder_core.config.schema import Config
from coder_core.model.run_towers import open_towers, with_size_of_towers
from coder_core.model.towers.checkpoints import ModelChoice, find_files
from coder_core.model.towers.dual_encoder import DualEncoder
from tests.support.precomp_folders import refusal
from tests.support.tiny_towers import LONGEST, SIZE, WIDTH, write_tiny_clip

pytestmark = pytest.mark.filterwarnings("ignore:.is_gradient_checkpointing.:FutureWarning")  # peft's
TEXTS = ["a b", "c, d", "cat"]
WEIGHTS = "model.safetensors"


@pytest.fixture(scope="module")
def clip(tmp_path_factory):
    return write_tiny_clip(tmp_path_factory.mktemp("models") / "clip", ends_last=True)


@pytest.fixture(scope="module")
def tuned(tmp_path_factory):
    """Return a CLIP of the same architecture with other weights, as a trainer leaves them."""
    return write_tiny_clip(tmp_path_factory.mktemp("tuned") / "clip", seed=7, ends_last=True)


def pictures():
    draws = np.random.default_rng(0).integers(0, 255, (2, 40, 50, 3), dtype=np.uint8)
    return [Image.fromarray(draw) for draw in draws]


def embedded(choice):
    towers = DualEncoder(choice)
    rows = towers.encode_pictures([towers.prepare(picture) for picture in pictures()])
    return np.concatenate([rows, towers.encode_texts(TEXTS)[0]])


def notes(choice):
    return " ".join(str(note) for note in DualEncoder(choice).notes)


def with_prefix(folder, prefix):
    return {prefix + name: tensor for name, tensor in load_file(folder / WEIGHTS).items()}


def in_open_clip(state, *, custom=False):
    """Return the weights of a CLIP of transformers under open_clip's names."""
    text = "text." if custom else ""
    towers = {"vision_model": "visual.", "text_model": text}
    ends = {
        "vision_model.embeddings.class_embedding": "visual.class_embedding",
        "vision_model.embeddings.position_embedding.weight": "visual.positional_embedding",
        "vision_model.embeddings.patch_embedding.weight": "visual.conv1.weight",
        "text_model.embeddings.token_embedding.weight": f"{text}token_embedding.weight",
        "text_model.embeddings.position_embedding.weight": f"{text}positional_embedding",
        "visual_projection.weight": "visual.proj",
        "text_projection.weight": f"{text}text_projection",
        "logit_scale": "logit_scale",
    }
    norms = {"pre_layrnorm": "ln_pre", "post_layernorm": "ln_post", "final_layer_norm": "ln_final"}
    parts = {
        "self_attn.out_proj": "attn.out_proj",
        "layer_norm1": "ln_1",
        "layer_norm2": "ln_2",
        "mlp.fc1": "mlp.c_fc",
        "mlp.fc2": "mlp.c_proj",
    }
    result = {}
    for name, tensor in state.items():
        if name in ends:
            result[ends[name]] = tensor.T.contiguous() if name.endswith("projection.weight") else tensor
            continue
        tower, _, rest = name.partition(".")
        if not rest.startswith("encoder.layers."):
            norm, _, kind = rest.rpartition(".")
            result[f"{towers[tower]}{norms[norm]}.{kind}"] = tensor
            continue
        _, _, layer, rest = rest.split(".", 3)
        part, _, kind = rest.rpartition(".")
        place = f"{towers[tower]}transformer.resblocks.{layer}"
        if part in parts:
            result[f"{place}.{parts[part]}.{kind}"] = tensor
        elif part == "self_attn.q_proj":
            names = (f"{tower}.encoder.layers.{layer}.self_attn.{one}_proj.{kind}" for one in "qkv")
            result[f"{place}.attn.in_proj_{kind}"] = torch.cat([state[name] for name in names])

    return result


def write_open_clip(folder, source, *, tokenizer=True, **changes):
    """Write a folder of open_clip with the weights of a tiny CLIP folder; `changes` are settings of its vision tower."""
    folder.mkdir()
    settings = json.loads((source / "config.json").read_text())
    heads = settings["vision_config"]["num_attention_heads"]
    size = {"width": WIDTH, "layers": 2, "mlp_ratio": 2.0}
    vision = size | {"image_size": SIZE, "patch_size": 8, "head_width": WIDTH // heads} | changes
    text = size | {
        "context_length": LONGEST,
        "heads": heads,
        "vocab_size": settings["text_config"]["vocab_size"],
    }
    model = {"embed_dim": 24, "quick_gelu": True, "vision_cfg": vision, "text_cfg": text}
    (folder / "open_clip_config.json").write_text(json.dumps({"model_cfg": model, "preprocess_cfg": {}}))
    state = in_open_clip(load_file(source / WEIGHTS), custom=True)
    save_file(state, folder / "open_clip_model.safetensors")
    if tokenizer:
        for file in source.glob("tokenizer*"):
            shutil.copy(file, folder)
    return folder


def test_a_clip_folder_without_tokenizer_files_is_refused_by_every_loader(clip, tmp_path):
    """transformers makes an empty tokenizer, which reads all captions alike."""
    folder = shutil.copytree(clip, tmp_path / "clip")
    for file in folder.glob("tokenizer*"):
        file.unlink()
    towers = TowersConfig(image_tower=str(folder), text_tower=str(folder))
    for load, given in ((DualEncoder, str(folder)), (open_towers, Config(towers=towers))):
        message = str(refusal(load, given))
        assert "has no tokenizer" in message
        assert "tokenizer.save_pretrained" in message
    assert np.array_equal(embedded(ModelChoice(str(folder), base=str(clip))), embedded(str(clip)))


@pytest.mark.parametrize(
    "prefix", ["", "module.", "model.", "base_model.model.", "_orig_mod.", "module._orig_mod.clip."]
)
@pytest.mark.parametrize("key", ["", "state_dict", "model_state_dict", "model"])
def test_state_dicts_load_with_their_base_model(clip, tuned, tmp_path, prefix, key):
    state = with_prefix(tuned, prefix)
    optimizer = {"state": {0: {"step": 1}}, "param_groups": [{"lr": 0.1}]}
    file = tmp_path / "epoch_10.pt"
    torch.save({key: state, "epoch": 10, "optimizer": optimizer} if key else state, file)
    choice = ModelChoice(str(file), base=str(clip))
    assert np.array_equal(embedded(choice), embedded(str(tuned)))
    told = notes(choice)
    assert (f"{key!r} has the weights" in told) == bool(key)
    assert ("prefix" in told) == bool(prefix.replace("_orig_mod.", ""))


def test_a_lightning_checkpoint_loads_and_says_what_it_leaves_out(clip, tuned, tmp_path):
    state = with_prefix(tuned, "model.") | {"criterion.weight": torch.ones(2)}
    content = {"epoch": 3, "global_step": 90, "pytorch-lightning_version": "2.4.0", "state_dict": state}
    content |= {
        "hyper_parameters": {"lr": 1e-4, "name": "tiny"},
        "optimizer_states": [{"state": {}}],
        "loops": {},
    }
    torch.save(content, tmp_path / "epoch=3-step=90.ckpt")
    choice = ModelChoice(str(tmp_path / "epoch=3-step=90.ckpt"), base=str(clip))
    assert np.array_equal(embedded(choice), embedded(str(tuned)))
    assert "criterion.weight" in notes(choice)


@pytest.mark.parametrize("prefix", ["module.", "model.", "base_model.model.", "_orig_mod."])
def test_prefixes_in_a_folder_of_transformers_are_removed(tuned, tmp_path, prefix):
    folder = shutil.copytree(tuned, tmp_path / "prefix")
    save_file(with_prefix(tuned, prefix), folder / WEIGHTS, {"format": "pt"})
    assert np.array_equal(embedded(str(folder)), embedded(str(tuned)))
    torch.save(with_prefix(tuned, prefix), folder / "pytorch_model.bin")
    (folder / WEIGHTS).unlink()
    message = str(refusal(DualEncoder, str(folder)))
    assert "a pickle" in message
    assert f"{folder / 'pytorch_model.bin'}" in message
    assert np.array_equal(embedded(str(folder / "pytorch_model.bin")), embedded(str(tuned)))


@pytest.mark.parametrize("suffix", [".pt", ".safetensors"])
@pytest.mark.parametrize("custom", [False, True])
def test_weights_of_open_clip_load_with_their_base_model(clip, tuned, tmp_path, suffix, custom):
    state = in_open_clip(load_file(tuned / WEIGHTS), custom=custom)
    state = {f"module.{name}": tensor for name, tensor in state.items()}
    file = tmp_path / f"epoch_1{suffix}"
    if suffix == ".pt":
        torch.save({"epoch": 1, "name": "run", "state_dict": state}, file)
    else:
        save_file(state, file)
    assert np.array_equal(embedded(ModelChoice(str(file), base=str(clip))), embedded(str(tuned)))
    message = str(refusal(DualEncoder, str(file)))
    assert "open_clip, a vision transformer with 2 layers of width 32 and patches of 8 pixels" in message
    assert "--base" in message


def test_folders_of_open_clip_load_alone_or_with_a_tokenizer_from_elsewhere(clip, tuned, tmp_path):
    expected = embedded(str(tuned))
    folder = write_open_clip(tmp_path / "whole", tuned)
    assert np.array_equal(embedded(str(folder)), expected)
    without = write_open_clip(tmp_path / "without", tuned, tokenizer=False)
    assert "without a tokenizer" in str(refusal(DualEncoder, str(without)))
    assert np.array_equal(embedded(ModelChoice(str(without), base=str(clip))), expected)
    for key, value in (("timm_model_name", "vit_base"), ("no_ln_pre", True), ("pool_type", "avg")):
        other = write_open_clip(tmp_path / key, tuned, **{key: value})
        assert f"vision_cfg key {key}" in str(refusal(DualEncoder, str(other)))
    (folder / "open_clip_model.safetensors").unlink()
    assert "without weights" in str(refusal(DualEncoder, str(folder)))


def adapter_on(clip, folder, **settings):
    from peft import LoraConfig, get_peft_model
    from transformers import CLIPModel

    torch.manual_seed(3)
    options = {"r": 4, "target_modules": ["q_proj", "fc1"], "init_lora_weights": False} | settings
    adapted = get_peft_model(CLIPModel.from_pretrained(clip), LoraConfig(**options))
    adapted.save_pretrained(folder)
    return adapted


def test_adapters_of_peft_load_on_the_base_that_they_or_a_flag_name(clip, tmp_path):
    folder = tmp_path / "adapter"
    adapted = adapter_on(clip, folder)
    plain = adapted.merge_and_unload()
    merged = shutil.copytree(clip, tmp_path / "merged")
    plain.save_pretrained(merged)
    expected = embedded(str(merged))
    assert not np.allclose(expected, embedded(str(clip)), atol=1e-3)
    np.testing.assert_allclose(embedded(str(folder)), expected, atol=1e-6)
    assert f"is an adapter of {clip}" in notes(str(folder))
    settings = json.loads((folder / "adapter_config.json").read_text())
    (folder / "adapter_config.json").write_text(json.dumps(settings | {"base_model_name_or_path": None}))
    message = str(refusal(DualEncoder, str(folder)))
    assert "names no base model" in message
    assert "--base" in message
    np.testing.assert_allclose(embedded(ModelChoice(str(folder), base=str(clip))), expected, atol=1e-6)
    wider = write_tiny_clip(tmp_path / "wider", space=8, ends_last=True)
    assert DualEncoder(ModelChoice(str(folder), base=str(wider))).about["base"] == str(wider)
    weights = load_file(folder / "adapter_model.safetensors")
    weights.pop(min(weights))
    save_file(weights, folder / "adapter_model.safetensors")
    assert "does not fit its base" in str(refusal(DualEncoder, ModelChoice(str(folder), base=str(clip))))


@pytest.mark.parametrize("change", [{"peft_type": "PROMPT_TUNING"}, {"megatron_config": {"a": 1}}])
def test_adapters_that_peft_would_load_by_other_code_are_refused(clip, tmp_path, change):
    adapter_on(clip, tmp_path / "adapter")
    file = tmp_path / "adapter" / "adapter_config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | change))
    assert "merge_and_unload" in str(refusal(DualEncoder, str(tmp_path / "adapter")))


def test_the_newest_checkpoint_of_a_trainer_is_used_and_named(clip, tuned, tmp_path):
    shutil.copytree(clip, tmp_path / "output" / "checkpoint-500")
    shutil.copytree(tuned, tmp_path / "output" / "checkpoint-1000")
    (tmp_path / "output" / "checkpoint-2000").mkdir()  # unfinished
    output = str(tmp_path / "output")
    assert np.array_equal(embedded(output), embedded(str(tuned)))
    assert "checkpoint-1000, the newest" in notes(output)
    towers = open_towers(Config(towers=TowersConfig(output, output, projection="none")))
    assert towers.document()["image"]["model"] == f"{output}/checkpoint-1000"
    assert "the newest" in str(with_size_of_towers(Config(towers=towers.config), towers)[1][0])


def test_a_run_finds_its_checkpoint_and_base_again_and_notices_another(clip, tuned, tmp_path):
    file = tmp_path / "tuned.pt"
    torch.save(with_prefix(tuned, "module."), file)
    config = Config(towers=TowersConfig(str(file), str(file), base=str(clip), projection="none"))
    noted = open_towers(config).document()
    assert noted["image"]["base"] == str(clip)
    assert open_towers(config, noted).document() == noted
    torch.save(with_prefix(clip, "module."), file)
    assert "is a different model now" in str(refusal(open_towers, config, noted))


ONE = torch.ones(1)
LORA = "q_proj.lora_A.default.weight"
RESNET = {"visual.conv1.weight": torch.ones(1, 1, 2, 2), "visual.layer1.0.weight": ONE}
OTHERS = {
    "empty.pt": ({"state_dict": {}, "epoch": 1}, "holds none", "torch.save(model.state_dict()"),
    "two.pt": ({"student": {"w": ONE}, "teacher": {"w": ONE}}, "several: student", "the one you mean"),
    "objects.ckpt": ({"state_dict": {"w": ONE}, "more": ModelChoice("x")}, "can run", "weights_only=False"),
    "words.pth": (b"not a checkpoint", "not a file of torch.save", "torch.save"),
    "words.txt": (b"words", "another kind", "Check the path"),
    "resnet.pt": ({"layer1.0.conv1.weight": ONE}, "lacks 78", "belong to"),
    "ema.pt": ({"a.logit_scale": ONE, "b.logit_scale": ONE}, "several models: a., b.", "the one you mean"),
    "lora.pt": ({LORA: ONE, "x": ONE}, "an adapter beside", "merge_and_unload"),
    "clip_resnet.pt": (RESNET, "lacks; the first", "Wrap it"),
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_files_are_named_with_a_remedy(clip, tmp_path, name):
    content, problem, remedy = OTHERS[name]
    file = tmp_path / name
    file.write_bytes(content) if isinstance(content, bytes) else torch.save(content, file)
    message = str(refusal(DualEncoder, ModelChoice(str(file), base=str(clip))))
    assert problem in message
    assert remedy in message


def scripted(state):
    """Return a TorchScript module with these weights."""
    root = torch.nn.Module()
    for name, tensor in state.items():
        *folders, last = name.split(".")
        module = root
        for folder in folders:
            if not hasattr(module, folder):
                module.add_module(folder, torch.nn.Module())
            module = getattr(module, folder)
        module.register_parameter(last, torch.nn.Parameter(tensor))
    return torch.jit.script(root)


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")  # of torch.jit
def test_torchscript_is_refused_and_the_named_command_makes_a_file_that_loads(clip, tuned, tmp_path):
    archive = tmp_path / "ViT-B-32.pt"
    weights = load_file(tuned / WEIGHTS)
    scripted(weights).save(str(archive))
    message = str(refusal(DualEncoder, ModelChoice(str(archive), base=str(clip))))
    assert "is a TorchScript archive, which is a program" in message
    assert "torch.save(torch.jit.load(FILE).state_dict(), 'weights.pt')" in message

    torch.save(torch.jit.load(archive).state_dict(), tmp_path / "weights.pt")
    loaded = DualEncoder(ModelChoice(str(tmp_path / "weights.pt"), base=str(clip))).model.state_dict()
    assert all(torch.equal(loaded[name], tensor) for name, tensor in weights.items())


def test_a_folder_that_only_holds_files_of_weights_names_them(tmp_path):
    logs = tmp_path / "lightning_logs" / "version_0" / "checkpoints"
    logs.mkdir(parents=True)
    torch.save({"state_dict": {"w": torch.ones(1)}}, logs / "last.ckpt")
    message = str(refusal(find_files, ModelChoice(str(tmp_path))))
    assert "lightning_logs/version_0/checkpoints/last.ckpt" in message
    assert "--base" in message
