"""A Lightning callback that saves every validation epoch as a run that the app can open.

python examples/lightning_callback.py IMAGES.npy TEXTS.npy CAPTIONS.txt    (n, D), (m, D), m lines; m / n captions per image

trains heads on frozen embeddings. With a module of your own:

    Trainer(callbacks=[LogSplit("my-run", "dev", captions)]).fit(module, train_batches, dev_batches)

`validation_step` returns the (B, D) embeddings of images and of captions, then (B,) the images' and (B,) the captions'
numbers in the split. The loss of `training_step` may be `coder_core.objectives.CoderLoss`, as here.
"""

import sys
from pathlib import Path

import numpy as np
import torch
from lightning import Callback, LightningModule, Trainer
from torch.utils.data import DataLoader, TensorDataset

from coder_core import log_split
from coder_core.objectives import CoderLoss


class LogSplit(Callback):
    def __init__(self, run, split, captions):
        self.names = (run, split)
        self.captions = captions
        self.parts = []

    def on_validation_batch_end(self, trainer, module, outputs, *_):
        self.parts.append(outputs)

    def on_validation_epoch_end(self, trainer, module):
        images, texts, owners, numbers = map(torch.cat, zip(*self.parts, strict=True))
        self.parts = []
        order = numbers.argsort()
        if trainer.sanity_checking:
            return
        rows = images.new_empty(int(owners.max()) + 1, images.shape[1]).index_copy(0, owners, images)
        named = {
            "captions": self.captions,
            "image_of_text": owners[order],
            "epoch": trainer.current_epoch + 1,
        }
        metrics = log_split(*self.names, rows, texts[order], **named)
        trainer.print(f"epoch {trainer.current_epoch + 1}: R@sum {metrics['rsum']:.1f}")


class Heads(LightningModule):
    """Two linear heads on frozen embeddings of images, (n, D), and captions, (m, D)."""

    def __init__(self, image_size, text_size, dimension=256):
        super().__init__()
        self.of_images = torch.nn.Linear(image_size, dimension)
        self.of_texts = torch.nn.Linear(text_size, dimension)
        self.loss = CoderLoss(temperature=0.05)

    def validation_step(self, batch, _):
        images, texts, owners, numbers = batch
        return self.of_images(images), self.of_texts(texts), owners, numbers

    def training_step(self, batch, index):
        images, texts, owners, _ = self.validation_step(batch, index)
        return self.loss(images, texts, owners)

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-3)


def main(images, texts, captions, run="lightning", epochs=3):
    """Train the heads and save every epoch as a run that the app can open."""
    v, w = (torch.from_numpy(np.load(file)).float() for file in (images, texts))
    numbers = torch.arange(len(w))
    owners = numbers // (len(w) // len(v))
    pairs = TensorDataset(v[owners], w, owners, numbers)
    lines = Path(captions).read_text("utf-8").rstrip("\n").split("\n")

    quiet = {"enable_checkpointing": False, "enable_progress_bar": False}
    trainer = Trainer(max_epochs=epochs, callbacks=[LogSplit(run, "train", lines)], **quiet)
    heads = Heads(v.shape[1], w.shape[1])
    trainer.fit(heads, DataLoader(pairs, batch_size=128, shuffle=True), DataLoader(pairs, batch_size=128))


if __name__ == "__main__":
    main(*sys.argv[1:])
