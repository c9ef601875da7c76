"""Encode the regions of an image: a linear layer plus an MLP (two layers, as in vse_infty). Padding is ignored."""

import math

import torch
from torch import Tensor, nn

from coder_core.model.device import factor_type
from coder_core.ops import normalise, padding_mask, parallel


class RegionBatchNorm(nn.BatchNorm1d):
    """Batch normalisation of (N, H) rows with the statistics of all processes.

    In a single process it is `nn.BatchNorm1d`. PyTorch's SyncBatchNorm does the same but needs a GPU; this class works
    on any device, so that several processes give the results of one process with the whole batch.
    """

    def forward(self, rows: Tensor) -> Tensor:
        if not self.training or parallel.world_size() == 1:
            return super().forward(rows)
        from torch.distributed.nn.functional import all_reduce  # 0.1 s to import

        count = rows.new_tensor([rows.shape[0]], dtype=torch.float32)
        total = all_reduce(torch.cat([rows.float().sum(0), count]))
        count = total[-1].detach()
        mean = total[:-1] / count
        centred = rows.float() - mean
        variance = all_reduce(centred.square().sum(0)) / count
        assert self.running_mean is not None and self.running_var is not None  # noqa: PT018
        assert self.num_batches_tracked is not None and self.momentum is not None  # noqa: PT018
        with torch.no_grad():
            self.running_mean.lerp_(mean.detach(), self.momentum)
            self.running_var.lerp_(variance.detach() * (count / (count - 1)), self.momentum)
            self.num_batches_tracked += 1
        return (centred * torch.rsqrt(variance + self.eps) * self.weight + self.bias).to(rows.dtype)


class RegionEncoder(nn.Module):
    """(B, R, F) region features -> (B, R, D): a linear layer plus an MLP of `layers`, or none with 0. Hidden layers
    have D / 2 units and batch normalisation.

    `dropout` applies to the input features; `one_mask` drops the same ones in all regions of an image. `rms` first
    divides every region's features by their root mean square; a region of zeros stays zero.
    """

    def __init__(
        self,
        feature_size: int,
        dimension: int,
        *,
        layers: int = 2,
        dropout: float = 0.0,
        rms: bool = False,
        one_mask: bool = False,
    ) -> None:
        super().__init__()
        self.rms = rms
        self.one_mask = one_mask
        self.linear = nn.Linear(feature_size, dimension)
        nn.init.xavier_uniform_(self.linear.weight)
        nn.init.zeros_(self.linear.bias)
        self.dropout = nn.Dropout(dropout)

        self.mlp = nn.Sequential()
        width = feature_size
        for _ in range(layers - 1):
            self.mlp.extend([nn.Linear(width, dimension // 2), RegionBatchNorm(dimension // 2), nn.ReLU()])
            width = dimension // 2
        if layers > 0:
            self.mlp.append(nn.Linear(width, dimension))

    def forward(self, regions: Tensor, lengths: Tensor | None = None) -> Tensor:
        """Encode regions, (B, R, F), (B,) lengths -> (B, R, D). Padding becomes zero and is left out of statistics."""
        if self.rms:
            regions = normalise(regions) * math.sqrt(regions.shape[-1])
        if self.one_mask and self.training and self.dropout.p:
            regions = regions * self.dropout(regions.new_ones(len(regions), 1, regions.shape[-1]))
        if lengths is None or int(lengths.min()) == regions.shape[1]:
            return self._encode(regions.flatten(0, 1)).view(*regions.shape[:2], -1)
        real = ~padding_mask(lengths, regions.shape[1])
        rows = self._encode(regions[real])
        return rows.new_zeros(*regions.shape[:2], rows.shape[-1]).masked_scatter(real[..., None], rows)

    def _encode(self, rows: Tensor) -> Tensor:
        """Encode regions without padding, (N, F) -> (N, D)."""
        rows = rows if self.one_mask else self.dropout(rows)
        rows = rows.to(factor_type(rows))  # once, for both layers that take them
        out: Tensor = self.linear(rows)
        if len(self.mlp) > 0:
            out = out + self.mlp(rows) if torch.is_grad_enabled() else out.add_(self.mlp(rows))
        return out
