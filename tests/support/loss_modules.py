"""Results of the loss modules on a fixed batch, of which every process takes its share."""

import torch

from coder_core.objectives import CoderLoss, NeighbourWeights, PrototypeLoss, modules
from coder_core.ops import parallel

BATCH = 8
STEPS = 3
WIDTH = 6
IMAGE_IDS = torch.tensor([0, 0, 1, 2, 3, 4, 4, 5])


def made():
    """Return name → (module, function that calls it with image embeddings, caption embeddings and image ids)."""
    torch.manual_seed(3)
    plain = {
        "triplet": modules.TripletLoss(),
        "triplet-sum": modules.TripletLoss(0.3, hardest=False),
        "infonce": modules.InfoNCELoss(0.2, learn_scale=True),
        "sigmoid": modules.SigmoidLoss(0.5, -1.0),
        "coder": CoderLoss(temperature=0.2),
        "coder-bank": CoderLoss(0.2, bank_size=13, dimension=WIDTH, weight_bank=0.5),
        "dcl-i": CoderLoss(temperature=0.2, diversity=None, weight_batch=1.0),
    }
    calls = {name: (module, module) for name, module in plain.items()}
    boosting = modules.BoostingLoss("rm-am")
    prototypes = PrototypeLoss(3, WIDTH, BATCH)

    def boosted(images, texts, ids):
        return boosting(images, texts, ids, teacher_images=texts + 0.3, teacher_texts=images)

    calls["boosting"] = boosting, boosted
    weights = modules.SampleWeights("hal")
    hinge = modules.TripletLoss(hardest=False)

    def weighted(images, texts, ids):
        return hinge(images, texts, ids, weights=weights(images, texts, ids))

    numbers = torch.arange(BATCH)[share()]
    calls["prototypes"] = prototypes, lambda images, texts, _: prototypes(images, texts, numbers)
    near = [[(row + step) % BATCH for step in (2, 5)] for row in range(BATCH)]
    complementary = NeighbourWeights("combined", near, IMAGE_IDS, 6, WIDTH)

    def complemented(images, texts, ids):
        complementary.begin_epoch(1)
        return hinge(images, texts, ids, weights=complementary(images, texts, numbers))

    return calls | {"weights": (weights, weighted), "neighbours": (complementary, complemented)}


def share():
    """Return the rows of the batch that this process has."""
    each = BATCH // parallel.world_size()
    return slice(parallel.rank() * each, (parallel.rank() + 1) * each)


def results():
    """Return every loss's values, gradients and states in a few steps, combined over the processes."""
    found = {}
    for name, (module, call) in made().items():
        generator = torch.Generator().manual_seed(4)
        for step in range(STEPS):
            both = torch.randn(2, BATCH, WIDTH, generator=generator).requires_grad_()
            loss = call(*both[:, share()], IMAGE_IDS[share()])
            loss.backward()
            parameters = {key: value for key, value in module.named_parameters() if value.grad is not None}
            parallel.average_gradients([*parameters.values(), both])
            found[f"modules {name} {step} loss"] = parallel.mean(loss)
            found[f"modules {name} {step} gradient"] = both.grad
            values = {f"gradient {key}": value.grad.clone() for key, value in parameters.items()}
            values |= {f"state {key}": value.clone() for key, value in module.state_dict().items()}
            found |= {f"modules {name} {step} {key}": value for key, value in values.items()}
            module.zero_grad()
    return found
