"""The examples for other people's trainers, on tiny models."""

from runpy import run_path

import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image

from coder_core.api import open_run
from coder_core.objectives import CoderLoss
from tests.support.tiny_towers import write_tiny_clip

CAPTIONS = [f"thing {number}" for number in range(8)]


@pytest.fixture
def example(tmp_path, monkeypatch, pytestconfig):
    """Function that runs an example, which writes to the test's folder."""

    def load(name):
        path = pytestconfig.rootpath / "examples" / f"{name}.py"
        monkeypatch.chdir(tmp_path)
        return run_path(str(path))

    return load


def write_pictures(folder):
    files = [folder / f"{number}.png" for number in range(4)]
    for number, file in enumerate(files):
        Image.new("RGB", (32, 32), (60 * number, 0, 90)).save(file)
    return files


def test_plain_pytorch(example, tmp_path):
    random = np.random.default_rng(0)
    np.save(tmp_path / "i.npy", random.normal(size=(4, 6)))
    np.save(tmp_path / "t.npy", random.normal(size=(8, 5)))
    (tmp_path / "c.txt").write_text("\n".join(CAPTIONS))
    example("plain_pytorch")["main"](*(tmp_path / name for name in ("i.npy", "t.npy", "c.txt")), epochs=2)
    assert open_run(tmp_path / "checkpoints" / "plain-pytorch").history["epoch"].tolist() == [1, 2]


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
    parts["log"](model, "mine", "dev", pictures, tokens, CAPTIONS, range(8))
    assert open_run(tmp_path / "checkpoints" / "mine").image_of_text("dev").tolist() == list(range(8))
