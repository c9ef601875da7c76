"""CODER's loss in the trainer of sentence-transformers, for models that embed pictures and texts.

    loss = CoderPairs(SentenceTransformer("sentence-transformers/clip-ViT-B-32"), temperature=0.05)
    SentenceTransformerTrainer(model, arguments, dataset, loss=loss).train()

The columns of `dataset` are image, caption and label, an integer that captions of the same image share. With the argument
batch_sampler=BatchSamplers.NO_DUPLICATES no image occurs twice in a batch; without it, such pairs are not used as negatives.
"""

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
    images = model.encode(pictures)
    texts = model.encode(captions)
    return log_split(
        run, split, images, texts, captions=captions, image_of_text=image_of_text, pictures=pictures, **named
    )
