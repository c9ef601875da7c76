"""CODER's loss in a plain PyTorch loop: heads on frozen embeddings, with momentum copies and a bank as in the paper.

python examples/plain_pytorch.py IMAGES.npy TEXTS.npy CAPTIONS.txt     (n, D), (m, D), m lines; m / n captions per image
"""

import sys
from pathlib import Path

import numpy as np
import torch
from torch import nn

from coder_core import log_split
from coder_core.objectives import CoderLoss, momentum_encoder, update_momentum


def main(images: str, texts: str, captions: str, run: str = "plain-pytorch", epochs: int = 3) -> None:
    """Train the heads and save every epoch as a run that the app can open."""
    v, w = (torch.from_numpy(np.load(file)).float() for file in (images, texts))
    image_of_text = torch.arange(len(w)) // (len(w) // len(v))
    heads = nn.ModuleList([nn.Linear(v.shape[1], 256), nn.Linear(w.shape[1], 256)])
    twins = momentum_encoder(heads)
    loss = CoderLoss(temperature=0.05, bank_size=1024, dimension=256)
    optimizer = torch.optim.AdamW(heads.parameters(), lr=1e-3)
    for epoch in range(1, epochs + 1):
        for batch in torch.randperm(len(w)).split(128)[: len(w) // 128 or 1]:  # no small last batch
            owners = image_of_text[batch]
            update_momentum(twins, heads, 0.97)
            keys = {"image_keys": twins[0](v[owners]), "text_keys": twins[1](w[batch])}
            value = loss(heads[0](v[owners]), heads[1](w[batch]), owners, **keys)
            optimizer.zero_grad()
            value.backward()
            optimizer.step()
        lines = Path(captions).read_text("utf-8").rstrip("\n").split("\n")
        metrics = log_split(run, "train", heads[0](v), heads[1](w), captions=lines, epoch=epoch)
        print(f"epoch {epoch}: loss of the last batch {value.item():.3f}, R@sum {metrics['rsum']:.1f}")


if __name__ == "__main__":
    main(*sys.argv[1:])
