"""Two processes of one GPU add a tensor by NCCL, which may refuse to share a card: torchrun --nproc-per-node 2 -m
benchmarks.gpu_processes."""

import torch
from torch import distributed


def main() -> int:
    """Print the sum of both ranks' numbers. Return 1 if it is wrong."""
    torch.cuda.set_device(0)
    distributed.init_process_group("nccl")
    numbers = torch.full((4,), float(distributed.get_rank() + 1), device="cuda")
    distributed.all_reduce(numbers)
    right = numbers.tolist() == [3.0] * 4
    print(f"rank {distributed.get_rank()}: {numbers.tolist()}", flush=True)
    distributed.destroy_process_group()
    return 0 if right else 1


if __name__ == "__main__":
    raise SystemExit(main())
