"""CODER's loss in a training loop for an open_clip model, with a bank of the model's own earlier embeddings (XBM).

python examples/open_clip_loop.py PAIRS.csv [MODEL [PRETRAINED]]     columns image (a file beside the table), caption

Every epoch is saved as a run that the app can open. In a program of your own:

    model, _, preprocess = open_clip.create_model_and_transforms("ViT-B-32", pretrained="laion2b_s34b_b79k")
    train(model, batches, epochs=3, device="cuda")

`batches` yields (pixels, tokens, image_ids): stacked results of `preprocess`, `tokenizer(captions)`, (B,) integers.
"""

import sys
from pathlib import Path

import open_clip
import pandas as pd
import torch
from PIL import Image

from coder_core import log_split
from coder_core.objectives import CoderLoss


def main(pairs, name="ViT-B-32", pretrained="laion2b_s34b_b79k", *, run="open-clip", epochs=3):
    """Train a model on the pairs of a table and save every epoch as a run."""
    table = pd.read_csv(pairs)
    image_of_text, names = pd.factorize(table["image"])
    files = [Path(pairs).parent / name for name in names]
    captions = list(table["caption"])

    model, _, preprocess = open_clip.create_model_and_transforms(name, pretrained=pretrained)
    pixels = torch.stack([preprocess(Image.open(file)) for file in files])  # for a large split, in batches
    tokens = open_clip.get_tokenizer(name)(captions)
    image_ids = torch.from_numpy(image_of_text)

    def batches():
        for rows in torch.randperm(len(captions)).split(64):
            yield pixels[image_ids[rows]], tokens[rows], image_ids[rows]

    for epoch, losses in enumerate(epochs_of_training(model, batches, epochs=epochs), 1):
        named = {"pictures": files, "epoch": epoch}
        metrics = log(model, run, "train", pixels, tokens, captions, image_of_text, **named)
        print(f"epoch {epoch}: loss of the last batch {losses[-1]:.3f}, R@sum {metrics['rsum']:.1f}")


def train(model, batches, *, epochs, device="cpu", learning_rate=1e-5, bank_size=4096):
    """Train a model on a list of batches and return its losses."""
    settings = {"device": device, "learning_rate": learning_rate, "bank_size": bank_size}
    of_epochs = epochs_of_training(model, lambda: batches, epochs=epochs, **settings)
    return [value for values in of_epochs for value in values]


def epochs_of_training(model, batches, *, epochs, device="cpu", learning_rate=1e-5, bank_size=4096):
    """Train a model on the batches that `batches()` yields in every epoch; yield the losses of an epoch at its end."""
    model.to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=learning_rate, weight_decay=0.1)
    loss = None
    for _ in range(epochs):
        model.train()
        values = []
        for pixels, tokens, image_ids in batches():
            images, texts = model(pixels.to(device), tokens.to(device))[:2]
            loss = loss or CoderLoss(0.05, bank_size=bank_size, dimension=images.shape[1]).to(device)
            value = loss(images, texts, image_ids.to(device))
            optimizer.zero_grad()
            value.backward()
            optimizer.step()
            values.append(value.item())
        yield values


@torch.no_grad()
def log(model, run, split, pixels, tokens, captions, image_of_text, **named):
    """Save a split as a run that the app can open, from (n, 3, H, W) pixels and (m, L) tokens. `named`: other arguments
    of `log_split`, such as pictures=files and epoch=1."""
    model.eval()
    device = next(model.parameters()).device
    images = model.encode_image(pixels.to(device))
    texts = model.encode_text(tokens.to(device))
    return log_split(run, split, images, texts, captions=captions, image_of_text=image_of_text, **named)


if __name__ == "__main__":
    main(*sys.argv[1:])
