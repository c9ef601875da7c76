"""Pretrained towers and sentence models, refused before anything runs, and users' own towers."""

import json
import os
import shutil
import sys
from functools import partial

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file, save_file

from coder_core.config.model import TowersConfig
from coder_core.config.schema import Config
from coder_core.model.run_towers import open_towers
from coder_core.model.sentence_space import sentence_space
from coder_core.model.towers.checkpoints import ModelChoice
from coder_core.model.towers.dual_encoder import DualEncoder
from coder_core.model.towers.folders import model_fingerprint
from coder_core.model.towers.halves import TowerChoice, load_halves
from coder_core.model.towers.own import ALLOWED, OwnTowers
from coder_core.model.towers.pretrained import load_pretrained
from coder_core.model.towers.tuning import TunedTower
from coder_core.objectives.memory import momentum_encoder
from tests.support.precomp_folders import refusal
from tests.support.tiny_bert import write_tiny_bert
from tests.support.tiny_towers import write_tiny_clip, write_tiny_siglip

CAPTIONS = ["a red dog runs", "one blue star and a blue ring", "the dog sits"]


class NormalisedTower(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = torch.nn.BatchNorm1d(3)
        self.linear = torch.nn.Linear(3, 4)

    def forward(self, rows, lengths):
        return self.linear(self.norm(rows))[:, None]


@pytest.mark.parametrize("tuning", ["frozen", "lora"])
@pytest.mark.parametrize("dropout", [True, False])
def test_a_momentum_encoder_leaves_the_statistics_of_an_untrained_tower_unchanged(tuning, dropout):
    """Its copies share them, and no save has them."""
    model = TunedTower(NormalisedTower().eval(), torch.nn.Linear(4, 2), tuning, TowersConfig()).train()
    rows = torch.randn(8, 3) + 5
    lengths = torch.ones(8)
    before = model.eval()(rows, lengths)
    momentum_encoder(model.train(), dropout=dropout)(rows, lengths)
    torch.testing.assert_close(model.eval()(rows, lengths), before, rtol=0, atol=0)


@pytest.fixture(scope="module")
def clip(tmp_path_factory):
    return write_tiny_clip(tmp_path_factory.mktemp("models") / "clip")


def _pickled(folder):
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")


def _projection(rows):
    """Keep this many rows of the projection; transformers would fill a missing or smaller one at random."""

    def change(folder):
        tensors = load_file(folder / "model.safetensors")
        tensors["visual_projection.weight"] = tensors["visual_projection.weight"][:rows].clone()
        tensors = {name: tensor for name, tensor in tensors.items() if tensor.numel()}
        save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})

    return change


def _without(file):
    return lambda folder: (folder / file).unlink()


def _config(text, file="config.json"):
    return lambda folder: (folder / file).write_text(text)


def _nested(key, value):
    """Change a value in the text tower's settings."""

    def change(folder):
        settings = json.loads((folder / "config.json").read_text())
        settings["text_config"][key] = value
        (folder / "config.json").write_text(json.dumps(settings))

    return change


LACKS = "lacks 1 of the model's weights, which would get random values; the first: visual_projection.weight"
REJECTS = "rejects the pictures that its image processor prepares: Input image size (224*224)"


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (_pickled, "pytorch_model.bin, a pickle"),
        (_config('{"model_type": "clip", "auto_map": {"AutoModel": "evil.M"}}'), "config.json key auto_map"),
        (lambda folder: os.truncate(folder / "model.safetensors", 5000), "cannot be loaded: "),
        (_projection(0), LACKS),
        (_projection(4), LACKS),
        (_without("config.json"), "config.json: is missing"),
        (_config("{"), "config.json: cannot be read as JSON"),
        (_config("[]"), "config.json: is not a JSON object"),
        (_config("[" * 100_000), "config.json: cannot be read as JSON"),
        (_without("preprocessor_config.json"), "expected preprocessor_config.json"),
        (_config('{"image_processor_type": "CLIPImageProcessor"}', "preprocessor_config.json"), REJECTS),
        (_without("model.safetensors"), "has no weights"),
        (_nested("num_hidden_layers", 300_000), "config.json key num_hidden_layers: is 300000"),
        (_nested("_attn_implementation", "evil/kernel"), "key _attn_implementation: is 'evil/kernel'"),
        (lambda folder: os.mkfifo(folder / "merges.txt"), "merges.txt: is a pipe"),
        (lambda folder: (folder / "vocab.json").symlink_to("/dev/zero"), "vocab.json: is a device"),
        (lambda folder: os.truncate(folder / "tokenizer.json", 1 << 29), "has 536,870,912 bytes"),
    ],
)
def test_a_folder_that_is_unsafe_or_incomplete_is_refused(damage, reason, clip, tmp_path):
    folder = shutil.copytree(clip, tmp_path / "copy")
    damage(folder)
    assert reason in str(refusal(DualEncoder, str(folder)))


def test_a_tokenizer_with_ids_beyond_the_embeddings_is_refused(clip, tmp_path):
    """A special token with another name gets an id after the vocabulary, and ends every text."""
    folder = shutil.copytree(clip, tmp_path / "copy")
    settings = folder / "tokenizer_config.json"
    renamed = settings.read_text().replace('"eos_token": "<|endoftext|>"', '"eos_token": "<|end|>"')
    settings.write_text(renamed)
    loaded = load_pretrained(ModelChoice(str(folder)))
    for encode in (DualEncoder(str(folder)).encode_texts, loaded.tokeniser):
        message = str(refusal(encode, ["a dog"]))
        assert f"--model {folder}: its tokenizer gives the id {loaded.tokeniser.known}" in message


def test_text_only_models_and_other_fingerprints_are_refused(clip, tmp_path):
    bert = write_tiny_bert(tmp_path / "bert", ["a"])
    shutil.copy(clip / "preprocessor_config.json", bert)
    assert "is a BertModel" in str(refusal(DualEncoder, str(bert)))
    fingerprint = DualEncoder(str(clip)).about["fingerprint"]
    assert DualEncoder(ModelChoice(str(clip), expected=fingerprint)).about["fingerprint"] == fingerprint
    another = ModelChoice(str(clip), expected="0" * 64)
    assert fingerprint[:12] in str(refusal(DualEncoder, another))
    assert "--prompt" in str(refusal(DualEncoder, str(clip), prompt="a photo"))
    # one folder for both sides, when a run had another model for its texts
    config = Config(towers=TowersConfig(image_tower=str(clip), text_tower=str(clip)))
    noted = open_towers(config).document() | {"text": {"kind": "transformers", "fingerprint": "0" * 64}}
    assert "--text-tower" in str(refusal(open_towers, config, noted, ("text",)))
    # a run that calls a user's function a model of transformers does not import it
    noted = {"image": {"kind": "transformers", "model": "os:getcwd", "fingerprint": "0"}}
    config = Config(towers=TowersConfig(image_tower="os:getcwd"))
    assert f"{ALLOWED}=os:getcwd" in str(refusal(partial(open_towers, config, noted, run="theirs")))


def test_models_in_the_cache_are_found_by_name_revision_and_commit(clip, tmp_path, monkeypatch):
    commit = "0123456789abcdef0123456789abcdef01234567"
    cached = tmp_path / "models--tiny--clip"
    shutil.copytree(clip, cached / "snapshots" / commit)
    (cached / "refs").mkdir()
    (cached / "refs" / "main").write_text(commit)
    for module in ("", "_snapshot_download."):
        monkeypatch.setattr(f"huggingface_hub.{module}constants.HF_HUB_CACHE", str(tmp_path))

    about = DualEncoder("tiny/clip").about
    assert (about["model"], about["revision"]) == ("tiny/clip", commit)
    (cached / "snapshots" / commit / "model.safetensors").unlink()
    assert "hf download tiny/clip" in str(refusal(DualEncoder, "tiny/clip"))
    for revision, commit in (("main", "0" * 40), ("refs/pr/66", "1" * 40)):
        shutil.copytree(clip, cached / "snapshots" / commit)
        (cached / "refs" / revision).parent.mkdir(parents=True, exist_ok=True)
        (cached / "refs" / revision).write_text(commit)

    (cached / "snapshots" / ("0" * 40) / "model.safetensors").unlink()
    for command in (DualEncoder, lambda name: open_towers(Config(towers=TowersConfig(name, name)))):
        message = str(refusal(command, "tiny/clip"))
        assert "--revision" in message
        assert "name another model (openai/clip-vit-large-patch14)" in message

    towers = open_towers(Config(towers=TowersConfig("tiny/clip", "tiny/clip", revision="refs/pr/66")))
    assert [side["revision"] for side in towers.document().values()] == ["1" * 40] * 2


def test_a_sentence_transformers_folder_loads_the_model_inside_it(clip, tmp_path):
    shutil.copytree(clip, tmp_path / "saved" / "0_CLIPModel")
    (tmp_path / "saved" / "modules.json").write_text('[{"idx": 0, "name": "0", "path": "0_CLIPModel"}]')
    loaded = load_pretrained(ModelChoice(str(tmp_path / "saved")))
    assert loaded.files.found.name == "0_CLIPModel"
    assert loaded.about["fingerprint"] == load_pretrained(ModelChoice(str(clip))).about["fingerprint"]


def test_texts_for_siglip_2_are_lower_cased(tmp_path):
    """The checkpoints of fixed size name Gemma's tokenizer, which keeps capitals."""
    from transformers import GemmaTokenizer, SiglipConfig, SiglipModel

    folder = write_tiny_siglip(tmp_path / "siglip2", ["a"])
    tokens = ["<pad>", "<eos>", "<bos>", "<unk>", "<mask>", "a", "A", "▁", "b"]
    tokenizer = GemmaTokenizer(vocab={token: number for number, token in enumerate(tokens)}, merges=[])
    for file in folder.glob("tokenizer*"):
        file.unlink()
    tokenizer.save_pretrained(folder)
    settings = json.loads((folder / "config.json").read_text())
    settings["text_config"]["vocab_size"] = len(tokens)
    SiglipModel(SiglipConfig.from_dict(settings)).save_pretrained(folder)
    towers = DualEncoder(str(folder))
    assert towers.about["lower_case"]
    np.testing.assert_array_equal(towers.encode_texts(["A b"])[0], towers.encode_texts(["a b"])[0])
    assert not DualEncoder(str(write_tiny_siglip(tmp_path / "siglip", ["a"]))).about["lower_case"]


OWN = """
import numpy as np
import torch

class Towers:
    def prepare(self, picture):
        return np.asarray(picture.resize((2, 1)), dtype=np.float32).reshape(2, 3)
    def encode_pictures(self, prepared):
        return torch.from_numpy(np.stack(prepared))
    def encode_texts(self, texts):
        rows = np.zeros((len(texts), 3, 3), np.float32)
        for row, text in zip(rows, texts):
            lengths = [len(word) for word in text.split()[:3]]
            row[:len(lengths)] = np.array(lengths)[:, None]
        return rows

class Lame:
    encode_texts = None

class Wrong(Towers):
    def encode_pictures(self, prepared):
        return torch.zeros(1, 3)

def fails():
    raise RuntimeError("no such weights")
"""


TO_TRAIN = """
import numpy as np
import torch

class Cells(torch.nn.Module):
    def forward(self, pixels):
        return pixels.flatten(2).transpose(1, 2)

class Tower:
    image_tower = Cells()
    grid = (2, 3)
    def prepare(self, picture):
        return np.asarray(picture.resize((3, 2)), dtype=np.float32).transpose(2, 0, 1)
    def view(self, width, height):
        return (0.25, 0.0, 0.75, 1.0)
"""


def test_custom_towers_to_train_know_where_their_features_are(tmp_path, monkeypatch):
    module = "own_tower_to_train"
    (tmp_path / f"{module}.py").write_text(TO_TRAIN)
    monkeypatch.syspath_prepend(str(tmp_path))
    choice = TowerChoice(ModelChoice(f"{module}:Tower"), pooled=False, projected=False)
    half, _ = load_halves(choice, None)
    found = half.boxes(Image.new("RGB", (8, 4)))
    assert half.local_features == len(found) == 6
    np.testing.assert_allclose(found[0], [0.25, 0, 0.25 + 0.5 / 3, 0.5], atol=1e-6)
    sys.modules.pop(module)


def test_custom_towers_are_mean_pooled_and_invalid_ones_refused(tmp_path, monkeypatch):
    module = "own_towers_of_a_test"
    (tmp_path / f"{module}.py").write_text(OWN)
    monkeypatch.syspath_prepend(str(tmp_path))
    towers = OwnTowers(f"{module}:Towers", prompt="x {}")
    wrong = OwnTowers(f"{module}:Wrong")
    picture = Image.new("RGB", (8, 4), (255, 0, 0))
    np.testing.assert_allclose(towers.encode_pictures([towers.prepare(picture)] * 2), [[1, 0, 0]] * 2)
    rows, cut = towers.encode_texts(["ab"])  # one word of padding is left out of the mean
    np.testing.assert_allclose(rows, np.full((1, 3), 3**-0.5), atol=1e-6)
    assert (cut, len(towers.about["fingerprint"])) == (0, 64)
    for refused, argument, reason in (
        (OwnTowers, f"{module}:Lame", "without encode_pictures"),
        (OwnTowers, f"{module}:fails", "RuntimeError: no such weights"),
        (OwnTowers, "no_such_module:x", "ModuleNotFoundError"),
        (OwnTowers, "os; x", "package.module:function"),
        (partial(OwnTowers, expected="0"), f"{module}:Towers", towers.about["fingerprint"][:12]),
        (wrong.encode_pictures, [picture, picture], "shape (1, 3) for 2 pictures"),
        (wrong.encode_pictures, [picture], "NaN, Inf"),
    ):
        assert reason in str(refusal(refused, argument))

    sys.modules.pop(module)


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_a_gpu_computes_in_bfloat16_and_the_cpu_in_float32(device, clip):
    if device == "cuda" and not torch.cuda.is_available():
        pytest.skip("no GPU here")
    towers = DualEncoder(str(clip), device=device)
    assert towers.about["precision"] == ("float32" if device == "cpu" else "bfloat16")
    prepared = [towers.prepare(Image.new("RGB", (50, 40), colour)) for colour in ("red", "blue")]
    exact = DualEncoder(str(clip), precision="float32").encode_pictures(prepared)
    tolerance = 1e-6 if device == "cpu" else 0.05
    np.testing.assert_allclose(towers.encode_pictures(prepared), exact, atol=tolerance)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return write_tiny_bert(tmp_path_factory.mktemp("sentences") / "model", " ".join(CAPTIONS).split())


def test_sentence_embeddings_are_the_mean_of_word_pieces(model):
    from transformers import AutoModel, AutoTokenizer

    space = sentence_space(str(model))
    tokenizer = AutoTokenizer.from_pretrained(model)
    network = AutoModel.from_pretrained(model).eval()
    for caption, row in zip(CAPTIONS, space.encode(CAPTIONS), strict=True):
        states = network(**tokenizer(caption, return_tensors="pt")).last_hidden_state
        mean = states[0].detach().numpy().mean(0)
        np.testing.assert_allclose(row, mean / np.linalg.norm(mean), atol=1e-5)
    assert (space.name, space.to_files()) == ("sentence embeddings of model", {})
    cut = space.encode(["dog " * 60, "dog " * 70])  # longer than the model reads
    np.testing.assert_allclose(cut[0], cut[1], atol=1e-6)


def test_a_folder_without_a_model_is_refused_and_fingerprints_ignore_paths(tmp_path, model):
    moved = shutil.copytree(model, tmp_path / "moved")
    assert model_fingerprint(moved) == model_fingerprint(model)
    _config("{}")(moved)
    assert model_fingerprint(moved) != model_fingerprint(model)
    reasons = {tmp_path: "config.json", tmp_path / "nowhere": "--text-space", moved: f"--text-space {moved}"}
    for folder, reason in reasons.items():
        assert reason in str(refusal(lambda name: sentence_space(name).encode(CAPTIONS), str(folder)))
