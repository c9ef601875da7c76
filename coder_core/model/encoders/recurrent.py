"""Captions through a bidirectional GRU: one feature per word, the mean of both directions (vsepp, vse_infty)."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from coder_core.model.encoders import gru_kernel
from coder_core.model.encoders.dropout import Dropout


class RecurrentWords(nn.Module):
    """Word ids -> (B, T, D) word features.

    Args:
        words: size of the vocabulary.
        word_size: size of a word vector.
        dimension: D.
        layers: of the GRU.
        dropout: on the components of the word vectors.
        vectors: (words, word_size) initial word vectors; random when None.
    """

    def __init__(
        self,
        words: int,
        word_size: int,
        dimension: int,
        *,
        layers: int = 1,
        dropout: float = 0.0,
        vectors: Tensor | None = None,
    ) -> None:
        super().__init__()
        self.vectors = nn.Embedding(words, word_size)
        if vectors is None:
            nn.init.uniform_(self.vectors.weight, -0.1, 0.1)
        else:
            with torch.no_grad():
                self.vectors.weight.copy_(vectors)
        self.dropout = Dropout(dropout)
        self.gru = nn.GRU(word_size, dimension, layers, batch_first=True, bidirectional=True)

    def forward(self, words: Tensor, lengths: Tensor) -> Tensor:
        """(B, T) int64 ids, (B,) lengths -> (B, T, D), zero at padded positions."""
        if words.device.type == "cpu":
            return gru_kernel.word_states(self, words, lengths)
        return mean_states(self.gru, self.dropout(self.vectors(words)), lengths)


def mean_states(gru: nn.GRU, features: Tensor, lengths: Tensor) -> Tensor:
    """Mean of a bidirectional GRU's two directions: (B, T, I), (B,) -> (B, T, H), zero at padded positions."""
    packed = pack_padded_sequence(features, lengths.cpu(), batch_first=True, enforce_sorted=False)
    states, _ = pad_packed_sequence(gru(packed)[0], batch_first=True, total_length=features.shape[1])
    forward, backward = states.chunk(2, dim=-1)
    return (forward + backward) / 2
