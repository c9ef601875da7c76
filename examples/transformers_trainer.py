"""CODER's loss in the Trainer of transformers, and a callback that saves every epoch as a run that the app can open.

    trainer = CoderTrainer(CLIPModel.from_pretrained(…), arguments, collate, dataset)
    trainer.add_callback(LogSplit("my-clip", "dev", table, processor))

`collate` returns the inputs of the model and `image_ids`, (B,) integers that captions of the same image share. The arguments
must set remove_unused_columns=False and dataloader_drop_last=True. `table` has the columns image (a file) and caption.
"""

import pandas as pd
import torch
from PIL import Image
from transformers import Trainer, TrainerCallback

from coder_core import log_split
from coder_core.objectives import CoderLoss

LOSS = CoderLoss(temperature=0.05)


class CoderTrainer(Trainer):
    def compute_loss(self, model, inputs, return_outputs=False, **_):
        image_ids = inputs.pop("image_ids")
        outputs = model(**inputs)
        loss = LOSS(outputs.image_embeds, outputs.text_embeds, image_ids)
        return (loss, outputs) if return_outputs else loss


class LogSplit(TrainerCallback):
    def __init__(self, run, split, table, processor):
        self.names = (run, split)
        self.captions = list(table["caption"])
        self.image_of_text, self.files = pd.factorize(table["image"])
        pictures = [Image.open(file).convert("RGB") for file in self.files]  # for a large split, in batches
        self.inputs = processor(pictures, self.captions, return_tensors="pt", padding=True, truncation=True)

    def on_epoch_end(self, args, state, control, model, **_):
        with torch.no_grad():
            outputs = model(**self.inputs.to(model.device))
        named = {"captions": self.captions, "image_of_text": self.image_of_text, "pictures": self.files}
        log_split(*self.names, outputs.image_embeds, outputs.text_embeds, epoch=round(state.epoch), **named)
