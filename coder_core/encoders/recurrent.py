"""Captions through a bidirectional GRU: one feature per word, the two directions averaged (vsepp, vse_infty)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from coder_core.cpu.dropout import Dropout
from coder_core.cpu.gru import bidirectional, bidirectional_over, lengthened, pack


class RecurrentWords(nn.Module):
    """Word ids -> (B, T, D) word features.

    Args:
        words: size of the vocabulary.
        word_size: size of a word vector.
        dimension: D.
        layers: of the GRU.
        dropout: on the components of the word vectors.
        vectors: (words, word_size) start of the word vectors; random when None.
    """

    def __init__(
        self, words: int, word_size: int, dimension: int, *, layers: int = 1, dropout: float = 0.0,
        vectors: Tensor | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.vectors = nn.Embedding(words, word_size)
        if vectors is None:
            nn.init.uniform_(self.vectors.weight, -0.1, 0.1)
        else:
            with torch.no_grad():
                self.vectors.weight.copy_(vectors)
        self.dropout = Dropout(dropout)
        self.gru = nn.GRU(word_size, dimension, layers, batch_first=True, bidirectional=True)
        self.dimension = dimension

    def forward(self, words: Tensor, lengths: Tensor) -> Tensor:
        """(B, T) int64 ids, (B,) lengths -> (B, T, D), zero at padded positions."""
        if words.device.type == "cpu":
            return self._on_cpu(words, lengths)
        features = self.dropout(self.vectors(words))
        packed = nn.utils.rnn.pack_padded_sequence(features, lengths.cpu(), batch_first=True, enforce_sorted=False)
        hidden, _ = nn.utils.rnn.pad_packed_sequence(self.gru(packed)[0], batch_first=True, total_length=words.shape[1])
        return (hidden[..., : self.dimension] + hidden[..., self.dimension :]) / 2

    def _on_cpu(self, words: Tensor, lengths: Tensor) -> Tensor:
        packing, last = pack(lengths, words.shape[1]), self.gru.num_layers - 1
        if last == 0 and not (self.training and self.dropout.p > 0):  # equal words have equal vectors: projected once
            distinct, which = torch.unique(words, return_inverse=True)
            rows = which.flatten()[torch.stack([packing.forward_words, packing.backward_words])]
            states = bidirectional_over(self.gru, 0, self.vectors(lengthened(distinct)), rows, packing, average=True)
            return states.view(*words.shape, -1)
        features = self.dropout(self.vectors(words))
        for layer in range(last):
            features = torch.cat([*bidirectional(self.gru, layer, features, packing)], dim=-1)
        return bidirectional(self.gru, last, features, packing, average=True)
