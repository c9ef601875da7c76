"""Scorers of image-caption pairs besides the cosine: the best of PVSE's cosines, and words that attend to regions."""

from functools import partial

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from coder_core.objectives.pairs import Scorer
from coder_core.ops import normalise, padding_mask


class PVSEScorer(Scorer):
    """The largest of the K² cosines between K unit vectors each. Song & Soleymani 2019 (PVSE), section 3.3."""

    by_pair = True

    def forward(self, images: Tensor, texts: Tensor, *_: Tensor | None) -> Tensor:
        """Return (n, m) scores of (n, K, D) images and (m, K, D) captions. Equal largest cosines share the gradient."""
        cosines = images.flatten(0, 1) @ texts.flatten(0, 1).T
        return cosines.view(*images.shape[:2], *texts.shape[:2]).amax((1, 3))


BLOCK = 1 << 22  # numbers of attended features in a block: 16 MiB, with a handful of copies in memory
ROWS = 64  # images in a block; with few images more captions fit, which makes the products larger


class InteractionScorer(Scorer):
    """Scores by word-to-region attention, alignment vectors and a tanh.

    Pairs are scored in blocks of `BLOCK` attended numbers, so that memory does not grow with the number of pairs;
    training recomputes a block in the backward pass. `size`: of an alignment vector. `sharpness`: λ of the attention.
    """

    by_pair = True
    local = True

    def __init__(self, dimension: int, *, size: int = 256, sharpness: float = 9.0) -> None:
        super().__init__()
        self.align = nn.Linear(dimension, size)
        self.score = nn.Linear(size, 1)
        self.sharpness = sharpness
        for layer in (self.align, self.score):
            nn.init.xavier_uniform_(layer.weight)
            nn.init.zeros_(layer.bias)

    def forward(self, images: Tensor, texts: Tensor, image_lengths: Tensor, text_lengths: Tensor) -> Tensor:
        """Return (n, m) scores in (−1, 1) of (n, R, D) regions and (m, T, D) words with (n,) and (m,) lengths."""
        padded = padding_mask(image_lengths, images.shape[1])
        order = torch.argsort(text_lengths, stable=True)  # similar lengths together: little padding
        lengths = text_lengths[order]
        columns = []
        start = 0
        while start < len(order):
            # A block's last caption is its longest, so the block may have to shrink once that caption is known.
            stop = min(start + self._texts_at_once(images, int(lengths[start])), len(order))
            stop = min(stop, start + self._texts_at_once(images, int(lengths[stop - 1])))
            words = texts[order[start:stop], : int(lengths[stop - 1])]
            columns.append(self._all_images(images, padded, words, lengths[start:stop]))
            start = stop
        return torch.cat(columns, 1)[:, torch.argsort(order)]

    def _texts_at_once(self, images: Tensor, longest: int) -> int:
        return max(1, BLOCK // max(1, min(len(images), ROWS) * longest * images.shape[2]))

    def _all_images(self, images: Tensor, padded: Tensor, words: Tensor, lengths: Tensor) -> Tensor:
        recomputed = partial(checkpoint, self._block, use_reentrant=False)
        run = recomputed if torch.is_grad_enabled() else self._block
        parts = zip(images.split(ROWS), padded.split(ROWS), strict=True)
        return torch.cat([run(block, padding, words, lengths) for block, padding in parts])

    def _block(self, images: Tensor, padded: Tensor, words: Tensor, lengths: Tensor) -> Tensor:
        """Return (n, c) scores of (n, R, D) regions, (n, R) bool padding, and (c, T, D) words with (c,) lengths."""
        (n, regions, _) = images.shape
        (c, longest, _) = words.shape
        is_word = ~padding_mask(lengths, longest)  # (c, T)
        flat = words.flatten(0, 1)
        cosines = (images.flatten(0, 1) @ flat.T).view(n, regions, c, longest)
        weights = normalise(torch.where(is_word, cosines.relu(), 0.0)) * self.sharpness
        weights = weights.masked_fill(padded[:, :, None, None], float("-inf")).softmax(1)
        attended = weights.view(n, regions, c * longest).transpose(1, 2) @ images  # (n, c · T, D)
        aligned = normalise(self.align((attended - flat).square())).view(n, c, longest, -1)
        mean = (aligned * is_word.unsqueeze(-1)).sum(2) / lengths.unsqueeze(1)
        return torch.tanh(self.score(mean)).squeeze(-1)
