"""The examples for other people's trainers, on tiny models."""

import json
import re
from runpy import run_path

import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image

from coder_core.api import open_run
from coder_core.objectives import CoderLoss
from tests.support.tiny_towers import write_tiny_clip

NO_ACCELERATOR = pytest.mark.filterwarnings("ignore:.*pin_memory")
RANDOM_WEIGHTS = pytest.mark.filterwarnings("ignore:.*collapsed")  # embeddings of one direction
CAPTIONS = [f"thing {number}" for number in range(8)]
NUMBER = re.compile(r"-?\d+(\.\d+)?")


@pytest.fixture
def example(tmp_path, monkeypatch, pytestconfig):
    """Function that runs an example, which writes to the test's folder."""

    def load(name):
        path = pytestconfig.rootpath / "examples" / f"{name}.py"
        monkeypatch.chdir(tmp_path)
        return run_path(str(path))

    return load


@pytest.fixture
def script(tmp_path, monkeypatch, pytestconfig, capsys):
    """Function that runs an example as `python examples/NAME.py ARGUMENTS` does, in the test's folder, and checks that it
    prints the lines that examples/README.md shows, up to their numbers."""

    def run(name, *arguments):
        path = pytestconfig.rootpath / "examples" / f"{name}.py"
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr("sys.argv", [str(path), *map(str, arguments)])
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
        run_path(str(path), run_name="__main__")
        readme = (path.parent / "README.md").read_text("utf-8")
        shown = documented_lines(readme, name)
        printed = [NUMBER.sub("N", line) for line in capsys.readouterr().out.splitlines()]
        assert [line for line in printed if line in shown] == shown

    return run


def documented_lines(readme, name):
    """Return what an example prints according to the README, with N for every number."""
    section = readme.split(f"## {name}.py\n")[1].split("\n## ")[0]
    command, *lines = re.findall(r"^    (.+)$", section, re.MULTILINE)
    assert command.startswith(f"$ python examples/{name}.py ")
    assert lines
    return [NUMBER.sub("N", line) for line in lines]


def write_pairs(folder):
    """Write four pictures with two captions each, and the table of them; return the table's file."""
    names = [file.name for file in write_pictures(folder)]
    table = pd.DataFrame({"image": names * 2, "caption": CAPTIONS})
    table.to_csv(folder / "pairs.csv", index=False)
    return folder / "pairs.csv"


def write_vectors(folder):
    """Write embeddings of four images and eight captions, and the captions; return the three files."""
    random = np.random.default_rng(0)
    np.save(folder / "i.npy", random.normal(size=(4, 6)))
    np.save(folder / "t.npy", random.normal(size=(8, 5)))
    (folder / "c.txt").write_text("\n".join(CAPTIONS))
    return [folder / name for name in ("i.npy", "t.npy", "c.txt")]


def write_tiny_open_clip(folder):
    """Write a folder of an open_clip model of 32 × 32 pixels with random weights; return its name for open_clip."""
    import open_clip

    tower = {"layers": 1, "width": 64}
    vision = {**tower, "image_size": 32, "patch_size": 8, "head_width": 64}
    text = {**tower, "context_length": 8, "vocab_size": 49408, "heads": 1}
    settings = {"embed_dim": 16, "vision_cfg": vision, "text_cfg": text}
    folder.mkdir()
    document = {"model_cfg": settings, "preprocess_cfg": {"mean": [0.5] * 3, "std": [0.25] * 3}}
    (folder / "open_clip_config.json").write_text(json.dumps(document))
    torch.manual_seed(0)
    torch.save(open_clip.CLIP(16, vision, text).state_dict(), folder / "open_clip_pytorch_model.bin")
    return f"local-dir:{folder}"


def pictures_of(run):
    """Return whether each of a run's four pictures can be read."""
    return [run.picture("train", image) is not None for image in range(4)]


def write_pictures(folder):
    folder.mkdir(exist_ok=True)
    files = [folder / f"{number}.png" for number in range(4)]
    for number, file in enumerate(files):
        Image.new("RGB", (32, 32), (60 * number, 0, 90)).save(file)
    return files


def test_plain_pytorch(example, tmp_path):
    example("plain_pytorch")["main"](*write_vectors(tmp_path), epochs=2)
    assert open_run(tmp_path / "checkpoints" / "plain-pytorch").history["epoch"].tolist() == [1, 2]


@pytest.mark.filterwarnings("ignore")  # of Lightning itself
@pytest.mark.parametrize("name", ["plain_pytorch", "lightning_callback"])
def test_scripts_of_embeddings_run_to_their_end(name, script, tmp_path):
    if name == "lightning_callback":
        pytest.importorskip("lightning")
    script(name, *write_vectors(tmp_path))
    (run,) = (tmp_path / "checkpoints").iterdir()
    assert open_run(run).history["epoch"].tolist() == [1, 2, 3]


@NO_ACCELERATOR
def test_the_script_of_transformers_runs_to_its_end(script, tmp_path):
    from transformers import CLIPModel

    model = write_tiny_clip(tmp_path / "clip")
    script("transformers_trainer", write_pairs(tmp_path), model)
    run = open_run(tmp_path / "checkpoints" / "transformers")
    assert run.history["epoch"].tolist() == [1, 2, 3]
    assert pictures_of(run) == [True] * 4
    trained = CLIPModel.from_pretrained(tmp_path / "transformers").visual_projection.weight
    assert not torch.equal(trained, CLIPModel.from_pretrained(model).visual_projection.weight)


@NO_ACCELERATOR
def test_the_script_of_sentence_transformers_runs_to_its_end(script, tmp_path):
    library = pytest.importorskip("sentence_transformers")
    pytest.importorskip("datasets")
    model = write_tiny_clip(tmp_path / "clip")
    script("sentence_transformers_trainer", write_pairs(tmp_path), model)
    run = open_run(tmp_path / "checkpoints" / "sentence-transformers")
    assert run.image_of_text("train").tolist() == [0, 1, 2, 3] * 2
    assert pictures_of(run) == [True] * 4
    trained = library.SentenceTransformer(str(tmp_path / "sentence-transformers")).encode(CAPTIONS)
    units = trained / np.linalg.norm(trained, axis=1, keepdims=True)
    assert run.embeddings("train")[1] == pytest.approx(units, abs=1e-5)


@RANDOM_WEIGHTS
def test_the_script_of_open_clip_runs_to_its_end(script, tmp_path):
    pytest.importorskip("open_clip", exc_type=ImportError)
    pairs = write_pairs(tmp_path)
    model = write_tiny_open_clip(tmp_path / "open_clip")
    script("open_clip_loop", pairs, model, tmp_path / "open_clip" / "open_clip_pytorch_model.bin")
    run = open_run(tmp_path / "checkpoints" / "open-clip")
    assert run.history["epoch"].tolist() == [1, 2, 3]
    assert run.image_of_text("train").tolist() == [0, 1, 2, 3] * 2
    assert pictures_of(run) == [True] * 4


def test_the_trainer_of_transformers(example, tmp_path):
    from transformers import AutoProcessor, CLIPModel, TrainingArguments

    files = write_pictures(tmp_path)
    table = pd.DataFrame({"image": files * 2, "caption": CAPTIONS})
    clip = write_tiny_clip(tmp_path / "clip")
    processor = AutoProcessor.from_pretrained(clip)
    model = CLIPModel.from_pretrained(clip)

    def collate(rows):
        pictures = [Image.open(row["image"]) for row in rows]
        texts = [row["caption"] for row in rows]
        inputs = processor(pictures, texts, return_tensors="pt", padding=True, truncation=True)
        return {**inputs, "image_ids": torch.tensor([files.index(row["image"]) for row in rows])}

    settings = {
        "num_train_epochs": 2,
        "per_device_train_batch_size": 4,
        "report_to": [],
        "disable_tqdm": True,
    }
    settings |= {"remove_unused_columns": False, "dataloader_drop_last": True, "save_strategy": "no"}
    arguments = TrainingArguments(str(tmp_path / "out"), use_cpu=True, **settings)
    parts = example("transformers_trainer")
    before = model.logit_scale.clone()
    trainer = parts["CoderTrainer"](model, arguments, collate, table.to_dict("records"))
    trainer.add_callback(parts["LogSplit"]("mine", "train", table, processor))
    weight = model.visual_projection.weight.clone()
    trainer.train()
    assert not torch.equal(model.visual_projection.weight, weight)
    assert torch.equal(model.logit_scale, before)  # not CLIP's own loss
    run = open_run(tmp_path / "checkpoints" / "mine")
    assert run.history["epoch"].tolist() == [1, 2]
    assert run.image_of_text("train").tolist() == [0, 1, 2, 3] * 2
    assert run.picture("train", 3) is not None


def test_the_trainer_of_sentence_transformers(example, tmp_path):
    library = pytest.importorskip("sentence_transformers")
    datasets = pytest.importorskip("datasets")
    files = [str(file) for file in write_pictures(tmp_path)]
    model = library.SentenceTransformer(str(write_tiny_clip(tmp_path / "clip")))
    columns = {
        "image": [Image.open(file) for file in files * 2],
        "caption": CAPTIONS,
        "label": [0, 1, 2, 3] * 2,
    }
    settings = {
        "num_train_epochs": 1,
        "per_device_train_batch_size": 4,
        "report_to": [],
        "save_strategy": "no",
    }
    arguments = library.SentenceTransformerTrainingArguments(str(tmp_path / "out"), use_cpu=True, **settings)
    parts = example("sentence_transformers_trainer")
    before = model.encode(CAPTIONS)
    loss = parts["CoderPairs"](model, temperature=0.1)
    dataset = datasets.Dataset.from_dict(columns)
    library.SentenceTransformerTrainer(model, arguments, dataset, loss=loss).train()
    assert np.abs(model.encode(CAPTIONS) - before).max() > 0
    metrics = parts["log"](model, "mine", "train", files, CAPTIONS, [0, 1, 2, 3] * 2)
    assert open_run(tmp_path / "checkpoints" / "mine").metrics["train"]["rsum"] == metrics["rsum"]


@pytest.mark.filterwarnings("ignore")  # of Lightning itself
def test_lightning(example, tmp_path):
    lightning = pytest.importorskip("lightning")

    class Module(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.heads = torch.nn.ModuleList([torch.nn.Linear(3, 5), torch.nn.Linear(4, 5)])
            self.loss = CoderLoss(temperature=0.1)

        def validation_step(self, batch, _):
            return [head(rows) for head, rows in zip(self.heads, batch[:2], strict=True)] + batch[2:]

        def training_step(self, batch, _):
            return self.loss(*self.validation_step(batch, 0)[:3])

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.1)

    generator = torch.Generator().manual_seed(0)
    numbers = torch.arange(8)
    order = torch.randperm(8)
    images, texts = (torch.randn(8, size, generator=generator) for size in (3, 4))
    pairs = torch.utils.data.TensorDataset(images[order // 2], texts[order], order // 2, numbers[order])
    batches = torch.utils.data.DataLoader(pairs, batch_size=4)
    outputs = ("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary")
    quiet = dict.fromkeys(outputs, False)
    log = example("lightning_callback")["LogSplit"]("mine", "dev", CAPTIONS)
    module = Module()
    lightning.Trainer(max_epochs=2, callbacks=[log], accelerator="cpu", **quiet).fit(module, batches, batches)
    run = open_run(tmp_path / "checkpoints" / "mine")
    assert run.history["epoch"].tolist() == [1, 2]
    assert run.image_of_text("dev").tolist() == [0, 0, 1, 1, 2, 2, 3, 3]
    units = torch.nn.functional.normalize(module.heads[1](texts)).detach().numpy()
    assert run.embeddings("dev")[1] == pytest.approx(units, abs=1e-5)


@RANDOM_WEIGHTS
def test_open_clip(example, tmp_path):
    open_clip = pytest.importorskip("open_clip", exc_type=ImportError)
    tower = {"layers": 1, "width": 64, "heads": 1}
    vision = {"image_size": 32, "patch_size": 8, **tower, "head_width": 64}
    text = {"context_length": 8, "vocab_size": 50}
    vision.pop("heads")
    model = open_clip.CLIP(16, vision, text | tower)
    pictures = torch.rand(8, 3, 32, 32)
    tokens = torch.randint(50, (8, 8))
    parts = example("open_clip_loop")
    batches = [(pictures[:4], tokens[:4], torch.arange(4)), (pictures[4:], tokens[4:], torch.arange(4, 8))]
    assert len(set(parts["train"](model, batches, epochs=2, bank_size=6))) == 4
    files = [*write_pictures(tmp_path), *write_pictures(tmp_path / "more")]
    parts["log"](model, "mine", "train", pictures, tokens, CAPTIONS, range(8), pictures=files)
    run = open_run(tmp_path / "checkpoints" / "mine")
    assert run.image_of_text("train").tolist() == list(range(8))
    assert pictures_of(run) == [True] * 4
