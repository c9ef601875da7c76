"""CODER's loss in the Trainer of transformers, and a callback that saves every epoch as a run that the app can open.

python examples/transformers_trainer.py PAIRS.csv [MODEL]     columns image (a file beside the table), caption

trains CLIP and saves it in transformers/. In a program of your own:

    trainer = CoderTrainer(CLIPModel.from_pretrained(…), arguments, collate, dataset)
    trainer.add_callback(LogSplit("my-clip", "dev", table, processor))

`collate` returns the inputs of the model and `image_ids`, (B,) integers that captions of the same image share. The arguments
must set remove_unused_columns=False and dataloader_drop_last=True. `table` has the columns image (a file) and caption.
"""

import sys
from pathlib import Path

import pandas as pd
import torch
from PIL import Image
from transformers import AutoProcessor, CLIPModel, Trainer, TrainerCallback, TrainingArguments

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
        epoch = round(state.epoch)
        metrics = log_split(*self.names, outputs.image_embeds, outputs.text_embeds, epoch=epoch, **named)
        print(f"epoch {epoch}: R@sum {metrics['rsum']:.1f}")


def main(pairs, name="openai/clip-vit-base-patch32", *, run="transformers", epochs=3, batch_size=64):
    """Train CLIP on the pairs of a table; save it, and every epoch as a run."""
    table = pd.read_csv(pairs)
    table["image"] = [str(Path(pairs).parent / name) for name in table["image"]]
    table["image_id"] = pd.factorize(table["image"])[0]
    processor = AutoProcessor.from_pretrained(name)

    def collate(rows):
        pictures = [Image.open(row["image"]).convert("RGB") for row in rows]
        captions = [row["caption"] for row in rows]
        inputs = processor(pictures, captions, return_tensors="pt", padding=True, truncation=True)
        return {**inputs, "image_ids": torch.tensor([row["image_id"] for row in rows])}

    arguments = TrainingArguments(
        run,
        num_train_epochs=epochs,
        per_device_train_batch_size=min(batch_size, len(table)),
        remove_unused_columns=False,
        dataloader_drop_last=True,  # no small last batch
        save_strategy="no",
        report_to=[],
    )
    trainer = CoderTrainer(CLIPModel.from_pretrained(name), arguments, collate, table.to_dict("records"))
    trainer.add_callback(LogSplit(run, "train", table, processor))
    trainer.train()
    trainer.save_model()
    processor.save_pretrained(run)


if __name__ == "__main__":
    main(*sys.argv[1:])
