"""One of several processes: train many configurations for a few steps, save the results, then train a whole run."""

import json
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook

from coder_core.data.reviews import Review
from coder_core.model.encoders.local import RegionBatchNorm
from coder_core.model.run_towers import open_towers
from coder_core.ops import parallel
from coder_core.train import main as command
from coder_core.training.gradient_caching import PiecewiseModel
from coder_core.training.parts.boosting import BoostingTeacher
from coder_core.training.prepare import Inputs, make_objective, prepare
from coder_core.training.reviewed import named_reviews
from coder_core.training.step import seed_step
from tests.support import loss_modules
from tests.support.tiny_runs import STILL, changed, tiny_config

# prototypes exist from the sixth step on
STEPS = 3
MORE_STEPS = {"prototypes": 10}
# towers: a larger rate would amplify rounding differences from step to step
RATE = 0.05
TOWER_RATE = 1e-3
SCORED_AT = 2  # an epoch begins before this step: parts compute weights from the embeddings so far
TRIPLET = {"loss": "btr-sum", "weight_instance": 0.1}
NPAIRS = {"loss": "npairs-hinge", "npairs_margin": 0.5}
BANK = {"loss": "dcl", "bank_size": 13}
PIECES = {"piece_size": 3, "image_layers": 1}
ONLINE = {"boosting_scenario": "online"}
SETS = {"embeddings": 3, "weight_heads": 0.5, "weight_mmd": 0.5}
# λ = 5 × the batch of 8, large enough for the weights of so few pairs to differ
WEIGHTED = {"sample_weights": "combined", "weight_scale": 5.0, "neighbours": 4, "neighbours_of_neighbours": 8}


def boosting(form, weight, **values):
    return {"boosting": form, "boosting_weight": weight, **values}


CASES = {
    "btr-hardest": {"loss": "btr-hardest", "warmup_epochs": 0.4, "weight_instance": 1.0},
    "sigmoid-online": ONLINE | boosting("rm", 0.01, loss="sigmoid", weight_instance=0.1),
    "pieces-online": ONLINE | PIECES | boosting("dml", 0.03, loss="infonce"),
    "cmpm-dr": boosting("dr", 0.02, loss="cmpm", weight_instance=0.3),
    "polynomial-rkd": boosting("rkd", 0.05, loss="polynomial"),
    "dcl": BANK | boosting("rs", 0.01, boosting_soft=True),
    "dcl-bfloat16": BANK | {"twin_precision": "bfloat16"},
    "dcl-gradient": BANK | {"diversity_gradient": True, "diversity_from_bank": False},
    "dcl-without-bank": {"loss": "dcl", "same_image_negatives": True},
    "dcl-bank-anchors": BANK | {"bank_anchors": True, "diversity_gradient": True},
    "concepts-pieces": BANK | PIECES | {"concepts": 10},
    "concepts-gradient": BANK | {"diversity_gradient": True, "concepts": 10},
    "concepts-amrani": {"loss": "infonce", "weight_concept": 0.0, "concepts": 10, "sample_weights": "amrani"},
    "several": SETS | WEIGHTED | {"loss": "dcl"},
    "interaction-boosting": TRIPLET | boosting("rm", 0.05, weight_instance=0.05, scorer="interaction"),
    "boosting-online": TRIPLET | ONLINE | boosting("rm-am", 0.1, boosting_branches=3, sample_weights="hal"),
    "mutual": ONLINE | boosting("dml", 0.03, loss="dcl"),
    "dino-reversed": TRIPLET | boosting("dino-reversed", 0.03, sample_weights="mithun"),
    "weights": NPAIRS | WEIGHTED | {"sample_weights": "diversity"},
    "combined-weights": BANK | WEIGHTED | {"weight_modalities": "sum"},
    "prototypes": {"loss": "dcl", "prototypes": 6, "epochs": 4},
    "within": {"loss": "infonce", "within_image": 0.3, "within_text": 0.7, "neighbours": 4},
}
LORA = {"image_tuning": "lora", "text_tuning": "lora", "loss": "dcl"}
HEAD = {"projection": "linear", "dimension": 8, "bank_size": 7, "twin_precision": "float32"}
TOWERS = {
    "full": {"image_pooling": "gpo", "augment": "crop-flip", "dimension": 24, "temperature": 0.2},
    "lora": LORA | HEAD | {"model": "siglip", "text_tuning": "frozen"},
    "any shape": LORA | {"model": "naflex", "temperature": 0.2},
}


def case_config(data, name):
    """Return the configuration of a case, without dropout, whose random numbers differ between processes."""
    usual = {"epochs": 2, "boosting_momentum": 0.9, "twin_precision": "float32", "bank_size": 0}
    return tiny_config(data, **STILL | usual | CASES[name])


def trained(config, steps=STEPS, rate=RATE):
    """Return the losses, gradients, diversity and state of every part after each step of plain gradient descent."""
    prepared = prepare(config, Inputs(towers=open_towers(config)))
    model = prepared.model.train()
    objective = make_objective(config, prepared, torch.device("cpu"))
    parts = objective.parts
    teachers = [part.branch for part in parts if isinstance(part, BoostingTeacher)]
    with torch.no_grad():  # a teacher equal to the model would let rounding choose the hardest negative
        for parameter in (parameter for branch in teachers for parameter in branch.parameters()):
            parameter.mul_(0.9)

    embed = PiecewiseModel(model, config.training.piece_size)
    reductions = []
    if parallel.world_size() > 1:
        embed = nn.parallel.DistributedDataParallel(embed, broadcast_buffers=False)
        embed.register_comm_hook(reductions, counted_reduction)

    results = {}
    for step in range(steps):
        seed_step(config.training.seed, step, 0)
        for part in parts:
            if step == SCORED_AT:
                part.begin_epoch(1)
        batch = prepared.batches(step)
        epoch = step / prepared.batches.per_epoch
        losses = objective.losses(model, batch, epoch=epoch, embed=embed)
        losses.total.backward()
        assert len(reductions) in (0, step + 1)  # one bucket of gradients, reduced once a step
        results[f"{step} loss"] = parallel.mean(losses.total)
        results |= {f"{step} part {name}": parallel.mean(value) for name, value in losses.parts.items()}
        if losses.diversity is not None:
            results[f"{step} diversity"] = parallel.gather_rows(losses.diversity.view(2, -1).T.contiguous())
        groups = (objective.joint_parameters(), *objective.separate_parameters())
        of_parts = {name: parameter for group in groups for name, parameter in group.items()}
        parallel.average_gradients(of_parts.values())
        for name, parameter in [*model.named_parameters(), *of_parts.items()]:
            if parameter.grad is None:  # frozen, or a classifier that waits for its prototypes
                assert name in of_parts or not parameter.requires_grad, name
                continue
            results[f"{step} gradient {name}"] = parameter.grad.clone()
            with torch.no_grad():
                parameter.sub_(rate * parameter.grad)
            parameter.grad = None
        for part in parts:
            part.after_step(model, step)
            state = part.state_dict().items()
            results |= {f"{step} {part.state_file} {name}": value.clone() for name, value in state}

    return results | {f"buffer {name}": value.clone() for name, value in model.named_buffers()}


def counted_reduction(reductions, bucket):
    """Average a bucket of gradients as usual and count it. PyTorch refuses postponed annotations here."""
    reductions.append(bucket.index())
    return allreduce_hook(None, bucket)


def norm_gradients():
    """Return results of the batch norm on unequal shares: 3 and 5 rows in two processes, all 8 in a single one."""
    generator = torch.Generator().manual_seed(9)
    rows, weight = torch.randn(2, 8, 4, generator=generator) * 3 + 1
    share = slice(0, 8) if parallel.world_size() == 1 else (slice(0, 3), slice(3, 8))[parallel.rank()]
    norm = RegionBatchNorm(4)
    nn.init.uniform_(norm.weight, 0.5, 2.0, generator=generator)
    rows_of_share = rows[share].clone().requires_grad_()
    out = norm(rows_of_share)
    (out * weight[share]).square().sum().backward()
    whole = torch.zeros(3, 8, 4)
    whole[0, share] = out.detach()
    whole[1, share] = rows_of_share.grad
    whole[2, 0] = norm.weight.grad
    results = {"norm rows": parallel.mean(whole) * parallel.world_size()}
    return results | {f"norm {name}": value.clone() for name, value in norm.named_buffers()}


def verdicts(data):
    """Return the fingerprint of a new run's reviews; every process reads a file with a different number of verdicts."""
    file = data.parent / f"reviews-{parallel.rank()}.jsonl"
    captions = [f"a dog — {number}" for number in range(1 + parallel.rank())]
    given = [Review("x.jpg", caption, "wrong-caption", "anna").document() for caption in captions]
    file.write_text("".join(f"{json.dumps(document)}\n" for document in given))
    reviews = named_reviews(changed(tiny_config(data), reviews=str(file)))
    return {"verdicts": torch.tensor(list(bytes.fromhex(reviews.fingerprint)))}


def everything(data, towers):
    """Return the results of batch norm, verdicts, loss modules and all cases; keys of towers begin with "towers"."""
    from tests.support.tiny_towers import tower_config

    results = norm_gradients() | verdicts(data) | loss_modules.results()
    for case in CASES:
        values = trained(case_config(data, case), MORE_STEPS.get(case, STEPS))
        results |= {f"{case} {name}": value for name, value in values.items()}
    for case, settings in TOWERS.items():
        values = trained(tower_config(towers, **settings), 2, TOWER_RATE)
        results |= {f"towers {case} {name}": value for name, value in values.items()}
    return results


def main(data, towers, out, *flags):
    """Assert that all processes have the same results, save them in the file `out`, then train with these `flags`."""
    parallel.start(torch.device("cpu"))
    tensors = everything(Path(data), Path(towers))
    values = [value.reshape(-1).contiguous().view(torch.uint8) for value in tensors.values()]
    everywhere = parallel.gather_rows(torch.cat(values)[None])  # all at once, as there are thousands
    rows = (row.split([len(value) for value in values]) for row in (everywhere[0], everywhere[-1]))
    assert [name for name, *both in zip(tensors, *rows, strict=True) if not torch.equal(*both)] == []
    if parallel.rank() == 0:
        save_file({name: value.contiguous() for name, value in tensors.items()}, out)
    command(flags)
    parallel.finish()
