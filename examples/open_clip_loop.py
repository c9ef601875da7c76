"""CODER's loss in a training loop for an open_clip model, with a bank of the model's own earlier embeddings (XBM).

    model, _, preprocess = open_clip.create_model_and_transforms("ViT-B-32", pretrained="laion2b_s34b_b79k")
    train(model, batches, epochs=3, device="cuda")

`batches` yields (pictures, tokens, image_ids): stacked results of `preprocess`, `tokenizer(captions)`, (B,) integers.
"""

import torch

from coder_core import log_split
from coder_core.objectives import CoderLoss


def train(model, batches, *, epochs, device="cpu", learning_rate=1e-5, bank_size=4096):
    """Train a model and return its losses."""
    model.to(device).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=learning_rate, weight_decay=0.1)
    loss = None
    values = []
    for _ in range(epochs):
        for pictures, tokens, image_ids in batches:
            images, texts = model(pictures.to(device), tokens.to(device))[:2]
            loss = loss or CoderLoss(0.05, bank_size=bank_size, dimension=images.shape[1]).to(device)
            value = loss(images, texts, image_ids.to(device))
            optimizer.zero_grad()
            value.backward()
            optimizer.step()
            values.append(value.item())
    return values


@torch.no_grad()
def log(model, run, split, pictures, tokens, captions, image_of_text, **named):
    """Save a split as a run that the app can open, from (n, 3, H, W) pictures and (m, L) tokens."""
    model.eval()
    images = model.encode_image(pictures)
    texts = model.encode_text(tokens)
    return log_split(run, split, images, texts, captions=captions, image_of_text=image_of_text, **named)
