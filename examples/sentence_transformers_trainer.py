"""CODER's loss in the trainer of sentence-transformers, for models that embed pictures and texts.

python examples/sentence_transformers_trainer.py PAIRS.csv [MODEL]     columns image (a file beside the table), caption

The trained model is saved in sentence-transformers/, and its embeddings as a run that the app can open. In a program of
your own:

    loss = CoderPairs(SentenceTransformer("sentence-transformers/clip-ViT-B-32"), temperature=0.05)
    SentenceTransformerTrainer(model, arguments, dataset, loss=loss).train()

The columns of `dataset` are image, caption and label, an integer that captions of the same image share. With the argument
batch_sampler=BatchSamplers.NO_DUPLICATES no image occurs twice in a batch; without it, such pairs are not used as negatives.
"""

import sys
from pathlib import Path

import pandas as pd
from datasets import Dataset
from PIL import Image
from sentence_transformers import (
    SentenceTransformer,
    SentenceTransformerTrainer,
    SentenceTransformerTrainingArguments,
)
from torch import nn

from coder_core import log_split
from coder_core.objectives import CoderLoss


class CoderPairs(nn.Module):
    """CODER's loss for (image, caption) pairs; `settings` are passed to `CoderLoss`."""

    def __init__(self, model, **settings):
        super().__init__()
        self.model = model
        self.loss = CoderLoss(**settings)

    def forward(self, sentence_features, labels):
        images, texts = (self.model(features)["sentence_embedding"] for features in sentence_features)
        return self.loss(images, texts, labels)


def log(model, run, split, pictures, captions, image_of_text, **named):
    """Save a split as a run that the app can open; `pictures` are files."""
    images = model.encode([str(picture) for picture in pictures])
    texts = model.encode(captions)
    return log_split(
        run, split, images, texts, captions=captions, image_of_text=image_of_text, pictures=pictures, **named
    )


def main(pairs, name="sentence-transformers/clip-ViT-B-32", *, run="sentence-transformers", epochs=1):
    """Train a model on the pairs of a table; save it and a run."""
    table = pd.read_csv(pairs)
    image_of_text, names = pd.factorize(table["image"])
    files = [Path(pairs).parent / name for name in names]
    captions = list(table["caption"])

    pictures = [Image.open(files[image]) for image in image_of_text]
    dataset = Dataset.from_dict({"image": pictures, "caption": captions, "label": image_of_text.tolist()})
    model = SentenceTransformer(name)
    settings = {"num_train_epochs": epochs, "per_device_train_batch_size": 64, "report_to": []}
    arguments = SentenceTransformerTrainingArguments(run, save_strategy="no", **settings)
    loss = CoderPairs(model, temperature=0.05)
    SentenceTransformerTrainer(model, arguments, dataset, loss=loss).train()
    model.save(run)
    metrics = log(model, run, "train", files, captions, image_of_text)
    print(f"R@sum {metrics['rsum']:.1f}")


if __name__ == "__main__":
    main(*sys.argv[1:])
