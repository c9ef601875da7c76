"""A Lightning callback that saves every validation epoch as a run that the app can open.

    Trainer(callbacks=[LogSplit("my-run", "dev", captions)]).fit(module, train_batches, dev_batches)

`validation_step` returns the (B, D) embeddings of images and of captions, then (B,) the images' and (B,) the captions'
numbers in the split. The loss of `training_step` may be `coder_core.objectives.CoderLoss`, as in plain_pytorch.py.
"""

import torch
from lightning import Callback

from coder_core import log_split


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
        log_split(*self.names, rows, texts[order], **named)
