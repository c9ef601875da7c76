"""Embeddings, scores and losses of a batch; memories and teachers; boosting in loops over single pairs."""

import torch

from coder_core.model.coder import Embedded
from coder_core.training.prepare import make_boosting, make_memory, prepare
from coder_core.training.step import Objective, instance_loss
from tests.reference import boosting as reference
from tests.reference import imitation
from tests.reference.pairs import kept, negatives, transposed


def embed(model, batch):
    """Embed a batch in float64, without gradient."""
    with torch.no_grad():
        embedded = model(batch.regions, batch.region_lengths, batch.words, batch.word_lengths)
    return Embedded(*(None if rows is None else rows.double() for rows in embedded))


def with_memory(config):
    """Return data, model and the memory of a configuration with a bank."""
    prepared = prepare(config)
    return prepared, make_memory(config, prepared, instance_loss(config))


def compute_losses(model, batch, config, parts=(), **values):
    """Return the losses of a batch with these parts; `values` are those of `Objective.losses`."""
    return Objective(config, parts).losses(model, batch, **values)


def started(config):
    """Return data, model and a teacher that has moved away from the model."""
    prepared = prepare(config)
    boosting = make_boosting(config, prepared)
    torch.manual_seed(1)
    with torch.no_grad():
        for parameter in boosting.branch.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return prepared, boosting


def take(prepared, part, config, batch, epoch=5.0):
    """Return the losses of a batch, with one part of the objective or without."""
    torch.manual_seed(4)  # the seed of dropout
    return compute_losses(prepared.model, batch, config, [part] if part else [], epoch=epoch)


def scores(model, batch):
    """Return all scores of a batch as lists; scorers get one pair at a time, without padding."""
    with torch.no_grad():
        images = model.encode_images(batch.regions, batch.region_lengths)
        texts = model.encode_texts(batch.words, batch.word_lengths)
    if images.ndim == 2:
        return (images.double() @ texts.double().T).tolist()
    rows = []
    local = model.scorer.local
    for i, r in enumerate(batch.region_lengths.tolist()):
        image = images[i : i + 1, :r] if local else images[i : i + 1]
        row = []
        for j, t in enumerate(batch.word_lengths.tolist()):
            text = texts[j : j + 1, :t] if local else texts[j : j + 1]
            row.append(model.scorer(image, text, torch.tensor([r]), torch.tensor([t])).item())
        rows.append(row)
    return rows


def by_loops(form, target, teacher, ids, *, margin=0.2, split=0.5, temperatures=(0.1, 0.04)):
    """Return the loss against a teacher, summed over pairs and both directions."""
    student_temperature, _ = temperatures
    imitations = {
        "dr": (imitation.dr, (student_temperature, 4)),
        "rkd": (imitation.rkd, ()),
        "dml": (imitation.dml, (student_temperature,)),
        "dino": (imitation.dino, temperatures),
        "dino-reversed": (imitation.dino_reversed, temperatures),
    }

    def hinges(own, taught):
        branches = own[1:], taught[1:], own[0], taught[0]
        return reference.loss(form, *branches, margin=margin, split=split, is_soft=False)

    function, switches = imitations.get(form, (hinges, ()))
    total = 0.0
    for branches in ((target, teacher), (transposed(target), transposed(teacher))):
        for i, mask in enumerate(negatives(ids, ids)):
            total += function(*([rows[i][i], *kept(rows[i], mask)] for rows in branches), *switches)
    return total


def weights(model):
    return {name: value.clone() for name, value in model.state_dict().items()}


def same(ours, theirs):
    return all(torch.equal(ours[name], theirs[name]) for name in ours)
