"""One of several processes: a few training steps of many configurations, their results in one file.

python -m tests.support.ddp_worker everything|towers FOLDER OUT.safetensors
"""

import json
import sys
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook

from coder_core.config.schema import Config
from coder_core.data.reviews import Review
from coder_core.model import parallel
from coder_core.model.encoders.regions import RegionBatchNorm
from coder_core.model.run_towers import open_towers
from coder_core.training.gradient_caching import PiecewiseModel
from coder_core.training.parts.boosting import BoostingTeacher
from coder_core.training.parts.make import make_parts
from coder_core.training.prepare import Inputs, prepare
from coder_core.training.reviewed import named_reviews
from coder_core.training.state import seed_step
from coder_core.training.step import compute_losses
from tests.support.several_processes import run_as_one_of_several
from tests.support.tiny_runs import STILL, tiny_config, with_data

STEPS, MORE_STEPS = 3, {"prototypes": 12}  # prototypes exist from the sixth step on
RATE, TOWER_RATE = 0.05, 1e-3  # of towers, a large one would grow the last bits of a step into the next
# λ far above the batch of 8, so that the weights of so few pairs differ
WEIGHTED = {
    "sample_weights": "diversity",
    "weight_scale": 5.0,
    "neighbours": 4,
    "neighbours_of_neighbours": 8,
}
SCORED_AT = 2  # the step before which weights are taken from what was embedded so far
TRIPLET: dict[str, object] = {"loss": "btr-sum", "weight_instance": 0.1}
PIECES: dict[str, object] = {"piece_size": 3, "image_layers": 1}
ONLINE: dict[str, object] = {"boosting_scenario": "online"}
CASES: dict[str, tuple[dict[str, object], int]] = {  # settings, slots of the bank
    "btr-hardest": ({"loss": "btr-hardest", "warmup_epochs": 0.4, "weight_instance": 1.0}, 0),
    "infonce": ({"loss": "infonce"}, 0),
    "sigmoid": ({"loss": "sigmoid", "weight_instance": 0.1}, 0),
    "sigmoid-online": (
        ONLINE | {"loss": "sigmoid", "weight_instance": 0.1, "boosting": "rm", "boosting_weight": 0.01},
        0,
    ),
    "pieces": ({"loss": "dcl", **PIECES}, 13),
    "concepts-pieces": ({"loss": "dcl", **PIECES}, 13),
    "pieces-online": (ONLINE | {"loss": "infonce", "boosting": "dml", "boosting_weight": 0.03, **PIECES}, 0),
    "cmpm": ({"loss": "cmpm", "weight_instance": 0.3}, 0),
    "polynomial": ({"loss": "polynomial"}, 0),
    "dcl": ({"loss": "dcl"}, 13),
    "dcl-bfloat16": ({"loss": "dcl", "twin_precision": "bfloat16"}, 13),
    "dcl-gradient": ({"loss": "dcl", "diversity_gradient": True, "diversity_from_bank": False}, 13),
    "dcl-without-bank": ({"loss": "dcl", "same_image_negatives": True}, 0),
    "concepts": ({"loss": "dcl"}, 13),
    "dcl-bank-anchors": ({"loss": "dcl", "bank_anchors": True, "diversity_gradient": True}, 13),
    "concepts-gradient": ({"loss": "dcl", "diversity_gradient": True}, 13),
    "concepts-unweighted": ({"loss": "infonce", "weight_concept": 0.0}, 0),
    "boosting": (TRIPLET | {"boosting": "am", "boosting_weight": 0.1}, 0),
    "several": ({"loss": "dcl", "embeddings": 3, "weight_heads": 0.5, "weight_mmd": 0.5}, 0),
    "interaction": ({"loss": "dcl", "weight_instance": 0.3, "scorer": "interaction"}, 0),
    "interaction-boosting": (
        TRIPLET
        | {"weight_instance": 0.05, "scorer": "interaction", "boosting": "rm", "boosting_weight": 0.05},
        0,
    ),
    "boosting-online": (
        TRIPLET | ONLINE | {"boosting": "rm-am", "boosting_weight": 0.1, "boosting_branches": 3},
        0,
    ),
    "mutual": (ONLINE | {"loss": "dcl", "boosting": "dml", "boosting_weight": 0.03}, 0),
    "dr": (TRIPLET | {"boosting": "dr", "boosting_weight": 0.02}, 0),
    "rkd": (TRIPLET | {"boosting": "rkd", "boosting_weight": 0.05}, 0),
    "dino-reversed": (TRIPLET | {"boosting": "dino-reversed", "boosting_weight": 0.03}, 0),
    "boosting-soft": ({"loss": "dcl", "boosting": "rs", "boosting_soft": True, "boosting_weight": 0.01}, 13),
    "diversity-weights": ({"loss": "npairs-hinge", "npairs_margin": 0.5, **WEIGHTED}, 0),
    "combined-weights": (
        {"loss": "dcl", **WEIGHTED, "sample_weights": "combined", "weight_modalities": "sum"},
        13,
    ),
    "combined-weights-of-parts": (
        {"loss": "dcl", **WEIGHTED, "sample_weights": "combined", "embeddings": 3},
        0,
    ),
    "hal": (TRIPLET | {"sample_weights": "hal"}, 0),
    "mithun": ({"loss": "npairs-hinge", "npairs_margin": 0.5, "sample_weights": "mithun"}, 0),
    "amrani": ({"loss": "infonce", "sample_weights": "amrani"}, 0),
    "prototypes": ({"loss": "dcl", "prototypes": 6, "epochs": 4}, 0),
    "within": ({"loss": "infonce", "within_image": 0.3, "within_text": 0.7, "neighbours": 4}, 0),
}


LORA = {"image_tuning": "lora", "text_tuning": "lora"}
TOWERS: dict[str, dict[str, Any]] = {
    "full": {"image_pooling": "gpo", "augment": "crop-flip", "dimension": 24, "temperature": 0.2},
    "lora": {
        **LORA,
        "model": "siglip",
        "text_tuning": "frozen",
        "projection": "linear",
        "dimension": 8,
        "loss": "dcl",
        "bank_size": 7,
        "twin_precision": "float32",
    },
    "any shape": {"model": "naflex", **LORA, "loss": "dcl", "temperature": 0.2},
}


def case_config(data: Path, name: str) -> Config:
    """No dropout: it draws other numbers in every process."""
    values, bank = CASES[name]
    concepts = 10 if name.startswith("concepts") else 0
    usual = {"epochs": 2, "boosting_momentum": 0.9, "twin_precision": "float32", "concepts": concepts}
    return tiny_config(data, **STILL | usual | values, bank_size=bank)


def trained(config: Config, steps: int = STEPS, rate: float = RATE) -> dict[str, Tensor]:
    """Losses, gradients, diversity, and every memory of every step, under plain gradient descent."""
    prepared = prepare(config, Inputs(towers=open_towers(config)))
    model = prepared.model.train()
    parts = make_parts(config, prepared, torch.device("cpu"))
    for part in parts:
        if isinstance(
            part, BoostingTeacher
        ):  # where both score alike, rounding would choose the hardest negative
            with torch.no_grad():
                for parameter in part.branch.parameters():
                    parameter.mul_(0.9)
    embed: nn.Module = PiecewiseModel(model, config.training.piece_size)
    reductions: list[int] = []
    if parallel.world_size() > 1:
        embed = nn.parallel.DistributedDataParallel(embed, broadcast_buffers=False)
        embed.register_comm_hook(reductions, counted_reduction)
    results: dict[str, Tensor] = {}
    for step in range(steps):
        seed_step(config.training.seed, step, 0)
        for part in parts:
            if step == SCORED_AT:
                part.begin_epoch(1)
        losses = compute_losses(
            model, prepared.batches(step), config, parts, epoch=step / prepared.batches.per_epoch, embed=embed
        )
        losses.total.backward()
        assert len(reductions) in (0, step + 1)  # one bucket of gradients, reduced once a step
        results[f"{step} loss"] = parallel.mean(losses.total)
        for name, value in losses.parts.items():
            results[f"{step} part {name}"] = parallel.mean(value)
        if losses.diversity is not None:
            both = losses.diversity.view(2, -1).T.contiguous()
            results[f"{step} diversity"] = parallel.gather_rows(both)
        of_parts = {
            name: parameter
            for part in parts
            for group in (part.joint_parameters(), *part.separate_parameters())
            for name, parameter in group.items()
        }
        parallel.average_gradients(of_parts.values())
        with torch.no_grad():
            for name, parameter in [*model.named_parameters(), *of_parts.items()]:
                if parameter.grad is None:  # frozen, or a classifier that waits for its prototypes
                    assert name in of_parts or not parameter.requires_grad, name
                    continue
                results[f"{step} gradient {name}"] = parameter.grad.clone()
                parameter.sub_(rate * parameter.grad)
                parameter.grad = None
        for part in parts:
            part.after_step(model, step)
            results |= {
                f"{step} {part.state_file} {name}": value.clone() for name, value in part.state_dict().items()
            }
    results |= {f"buffer {name}": value.clone() for name, value in model.named_buffers()}
    return results


def counted_reduction(reductions, bucket):
    """The usual average of a bucket of gradients, counted. PyTorch refuses postponed annotations here."""
    reductions.append(bucket.index())
    return allreduce_hook(None, bucket)


def norm_gradients() -> dict[str, Tensor]:
    """The batch norm of unequal shares: 3 rows in the first process, 5 in the second, all 8 in one process."""
    generator = torch.Generator().manual_seed(9)
    rows, weight = torch.randn(2, 8, 4, generator=generator) * 3 + 1
    share = slice(0, 8) if parallel.world_size() == 1 else (slice(0, 3), slice(3, 8))[parallel.rank()]
    norm = RegionBatchNorm(4)
    nn.init.uniform_(norm.weight, 0.5, 2.0, generator=generator)
    mine = rows[share].clone().requires_grad_()
    out = norm(mine)
    (out * weight[share]).square().sum().backward()
    whole = torch.zeros(3, 8, 4)
    assert mine.grad is not None
    whole[0, share], whole[1, share] = out.detach(), mine.grad
    assert norm.weight.grad is not None
    whole[2, 0] = norm.weight.grad
    results = {"norm rows": parallel.mean(whole) * parallel.world_size()}
    return results | {f"norm {name}": value.clone() for name, value in norm.named_buffers()}


def verdicts(data: Path) -> dict[str, Tensor]:
    """Reviews of a new run whose file got another verdict after the first process read it."""
    file = data.parent / f"reviews-{parallel.rank()}.jsonl"
    reviews_given = [
        Review("x.jpg", f"a dog — {number}", "wrong-caption", "anna") for number in range(1 + parallel.rank())
    ]
    file.write_text("".join(f"{json.dumps(review.document())}\n" for review in reviews_given))
    reviews = named_reviews(with_data(tiny_config(data), reviews=str(file)))
    assert reviews is not None
    return {"verdicts": torch.tensor(list(bytes.fromhex(reviews.fingerprint)))}


def everything(data: Path) -> dict[str, Tensor]:
    """Return the results of all cases, the batch norm and verdicts."""
    results = norm_gradients() | verdicts(data)
    for case in CASES:
        values = trained(case_config(data, case), MORE_STEPS.get(case, STEPS))
        results |= {f"{case} {name}": value for name, value in values.items()}
    return results


def towers(folder: Path) -> dict[str, Tensor]:
    """Return the results of all towers on pictures."""
    from tests.support.tower_runs import tower_config

    results: dict[str, Tensor] = {}
    for case, values in TOWERS.items():
        values_of_case = trained(tower_config(folder, **values), rate=TOWER_RATE)
        results |= {f"{case} {name}": value for name, value in values_of_case.items()}
    return results


if __name__ == "__main__":
    of_folder = {"everything": everything, "towers": towers}[sys.argv[1]]
    run_as_one_of_several(lambda: of_folder(Path(sys.argv[2])), sys.argv[3])
