"""The single-branch interaction model: words attend to an image's regions. Diao et al. 2024 (DBL), section III-A.

The positive part of the cosine of region k and word l is divided by its norm over the caption's words ("word-wise", as
in SCAN); a softmax over the regions turns it into weights (eq. 1):

    M_lk = [t_l · v_k]₊ / ‖[t · v_k]₊‖,   v'_l = Σ_k softmax_k(λ · M_lk) v_k

An alignment vector compares each word with what it attends to; their mean gives the score (eq. 2):

    a_l = norm(W₁ |t_l − v'_l|² + b₁),   S = tanh(W₂ · mean_l a_l + b₂)

Regions and words are unit rows; v'_l is not normalised, as printed.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from coder_core.model.scoring.scorer import Scorer
from coder_core.ops import normalise, padding_mask

BLOCK = 1 << 22  # numbers of attended features in a block: 16 MiB, of which a handful of copies live
ROWS = 64  # images in a block; few of them leave room for more captions, which makes larger products


class InteractionScorer(Scorer):
    """Word-to-region attention, alignment vectors, tanh.

    Pairs are scored in blocks, so that memory does not grow with their number; training recomputes a block in the
    backward pass.

    Args:
        dimension: D of regions and words.
        size: of an alignment vector (DBL: 256).
        sharpness: λ of the attention (DBL: 9).
        block: numbers of attended features in a block.
    """

    by_pair = True
    local = True

    def __init__(
        self, dimension: int, *, size: int = 256, sharpness: float = 9.0, block: int = BLOCK
    ) -> None:
        super().__init__()
        self.align = nn.Linear(dimension, size)
        self.score = nn.Linear(size, 1)
        self.sharpness, self.block = sharpness, block
        for layer in (self.align, self.score):
            nn.init.xavier_uniform_(layer.weight)
            nn.init.zeros_(layer.bias)

    def forward(
        self,
        images: Tensor,
        texts: Tensor,
        image_lengths: Tensor | None = None,
        text_lengths: Tensor | None = None,
    ) -> Tensor:
        """(n, R, D) regions, (m, T, D) words, (n,) and (m,) lengths -> (n, m) in (−1, 1)."""
        if image_lengths is None or text_lengths is None:
            raise ValueError("regions and words are padded: their lengths are needed")
        padded = padding_mask(image_lengths, images.shape[1])
        order = torch.argsort(
            text_lengths, stable=True
        )  # captions of similar length together: little padding
        lengths = text_lengths[order]
        columns, start = [], 0
        while start < len(order):
            # The last caption of a block is its longest, so the block may have to shrink once it is known.
            stop = min(start + self._texts_at_once(images, int(lengths[start])), len(order))
            stop = min(stop, start + self._texts_at_once(images, int(lengths[stop - 1])))
            longest = int(lengths[stop - 1])
            words = texts[order[start:stop], :longest]
            columns.append(self._all_images(images, padded, words, lengths[start:stop]))
            start = stop
        return torch.cat(columns, 1)[:, torch.argsort(order)]

    def _texts_at_once(self, images: Tensor, longest: int) -> int:
        return max(1, self.block // max(1, min(len(images), ROWS) * longest * images.shape[2]))

    def _all_images(self, images: Tensor, padded: Tensor, words: Tensor, lengths: Tensor) -> Tensor:
        parts = zip(images.split(ROWS), padded.split(ROWS), strict=True)
        if torch.is_grad_enabled():
            return torch.cat(
                [checkpoint(self._block, *part, words, lengths, use_reentrant=False) for part in parts]
            )
        return torch.cat([self._block(*part, words, lengths) for part in parts])

    def _block(self, images: Tensor, padded: Tensor, words: Tensor, lengths: Tensor) -> Tensor:
        """(n, R, D), (n, R) bool, (c, T, D), (c,) -> (n, c)."""
        (n, regions, _), (c, longest, _) = images.shape, words.shape
        is_word = ~padding_mask(lengths, longest)  # (c, T)
        flat = words.flatten(0, 1)
        cosines = (images.flatten(0, 1) @ flat.T).view(n, regions, c, longest)
        weights = normalise(torch.where(is_word, cosines.relu(), 0.0)) * self.sharpness
        weights = weights.masked_fill(padded[:, :, None, None], float("-inf")).softmax(1)
        attended = weights.view(n, regions, c * longest).transpose(1, 2) @ images  # (n, c · T, D)
        aligned = normalise(self.align((attended - flat).square())).view(n, c, longest, -1)
        mean = (aligned * is_word.unsqueeze(-1)).sum(2) / lengths.unsqueeze(1)
        return torch.tanh(self.score(mean)).squeeze(-1)
