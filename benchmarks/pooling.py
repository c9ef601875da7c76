"""GPO, forward and backward, against its plain form: position codes and a GRU for every sample, a strided sort."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from benchmarks.timing import Line, in_turn, milliseconds, quotient
from coder_core.model.encoders.gpo import LOWEST, GeneralisedPooling, position_codes

BATCH, REGIONS, SIZE = 128, 36, 1024
BAR = 4.0


class PlainPooling(GeneralisedPooling):
    """The form in which GPO was published: the same parameters and values, nothing shared between samples."""

    def forward(self, features: Tensor, lengths: Tensor) -> Tensor:
        """(B, L, D), (B,) -> (B, D)."""
        batch, longest, _ = features.shape
        mask = torch.arange(longest) < lengths.unsqueeze(1)
        codes = position_codes(longest, self.code_size).expand(batch, -1, -1)
        packed = nn.utils.rnn.pack_padded_sequence(codes, lengths, batch_first=True, enforce_sorted=False)
        hidden, _ = nn.utils.rnn.pad_packed_sequence(
            self.gru(packed)[0], batch_first=True, total_length=longest
        )
        both = (hidden[..., : self.code_size] + hidden[..., self.code_size :]) / 2
        scores = self.score(both).masked_fill(~mask.unsqueeze(-1), LOWEST)
        weights = torch.softmax(scores / self.temperature, dim=1)
        ranked = features.masked_fill(~mask.unsqueeze(-1), LOWEST).sort(dim=1, descending=True).values
        return (ranked.masked_fill(~mask.unsqueeze(-1), 0.0) * weights).sum(1)


def lines(rounds: int) -> list[Line]:
    """How many times faster the pooling of the model is."""
    torch.manual_seed(0)
    ours, plain = GeneralisedPooling(), PlainPooling()
    plain.load_state_dict(ours.state_dict())
    features = torch.randn(BATCH, REGIONS, SIZE, requires_grad=True)
    lengths, weight = torch.full((BATCH,), REGIONS), torch.randn(BATCH, SIZE)

    def run(pooling: GeneralisedPooling) -> None:
        torch.autograd.grad((pooling(features, lengths) * weight).sum(), [features, *pooling.parameters()])

    taken = in_turn({"ours": lambda _: run(ours), "plain": lambda _: run(plain)}, rounds)
    faster = quotient(taken["plain"], taken["ours"])
    name = f"GPO, plain form ÷ ours, {BATCH} × {REGIONS} × {SIZE}"
    note = f"plain {milliseconds(taken['plain']):.0f} ms"
    return [Line(name, f"≥ {BAR:g}", *faster, milliseconds(taken["ours"]), faster.processor >= BAR, note)]
