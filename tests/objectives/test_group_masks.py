"""Pairs of one group and pairs with equal texts are not negatives of each other: in the batch, the bank and the prototypes
of every loss, against loops over Python floats; a catalogue has the loss of one id per product."""

import pytest
import torch
from torch.autograd import gradcheck

from coder_core.objectives import LOSSES, CoderLoss, PrototypeLoss, SampleWeights, make_loss
from coder_core.objectives.memory import CoupledBank
from coder_core.objectives.pairs import same_image_negatives
from coder_core.objectives.prototypes import NO_LABEL, Partners
from coder_core.ops import normalise
from tests.objectives.test_table import VALUES, by_loops
from tests.reference import prototypes, step

PRODUCTS_AND_TEXTS = [(0, 0), (0, 1), (1, 1), (2, 2), (3, 3), (4, 0)]
# Ids of the image (product and texts) and of the caption (product and text): image 2 has the texts 2 and 3, so that
# pair 3 is no negative of pair 4, whose text is 3; image 3 does not have text 2.
OWNED = [((p, t, t), (p, t, t)) for p, t in PRODUCTS_AND_TEXTS]
OWNED[3] = ((2, 2, 3), (2, 2, 2))
WIDTH = 4
PRODUCTS = 8


def rows(pairs, seed):
    """Draw (2, pairs, WIDTH) embeddings in float64."""
    return torch.randn(2, pairs, WIDTH, generator=torch.Generator().manual_seed(seed)).double()


@pytest.mark.parametrize("name", LOSSES)
def test_every_loss_leaves_out_texts_that_an_image_has_too(name):
    count = 5 if name == "npairs-hinge" else 6  # its loop counts 5 pairs
    ids = OWNED[:count]
    images, texts = rows(count, seed=3)
    module = make_loss(name, VALUES).double()
    expected = by_loops(name, images, texts, ids)
    assert module(images, texts, torch.tensor(ids)).item() == pytest.approx(expected, rel=1e-10)
    assert expected != by_loops(name, images, texts, PRODUCTS_AND_TEXTS[:count]), "the texts matter"
    sides = images.requires_grad_(), texts.requires_grad_()
    assert gradcheck(lambda *of: module(*of, torch.tensor(ids)), sides)


def test_partners_are_the_pairs_that_are_not_negatives():
    ids = torch.tensor(OWNED)
    rows_found, others = Partners(ids).of(torch.arange(len(ids)))
    found = set(zip(rows_found.tolist(), others.tolist(), strict=True))
    assert found == {tuple(pair) for pair in (~same_image_negatives(ids, ids)).nonzero().tolist()}
    assert {(3, 4), (4, 3)} < found
    bank = CoupledBank(8, WIDTH)
    bank.enqueue(torch.eye(6, WIDTH), torch.eye(6, WIDTH), ids)
    assert bank.image_ids[:6].tolist() == ids.tolist()


@pytest.mark.parametrize("name", LOSSES)
def test_every_loss_with_ids_of_products_and_texts_equals_its_loop(name):
    ids = PRODUCTS_AND_TEXTS if name != "npairs-hinge" else PRODUCTS_AND_TEXTS[:5]  # its loop counts 5 pairs
    images, texts = rows(len(ids), seed=3)
    module = make_loss(name, VALUES).double()
    expected = by_loops(name, images, texts, ids)
    columns = torch.tensor(ids)
    assert module(images, texts, columns).item() == pytest.approx(expected, rel=1e-10)
    by_product = module(images, texts, columns[:, 0]).item()
    by_text = module(images, texts, columns[:, 1]).item()
    assert expected not in (by_product, by_text), "the example distinguishes the columns"
    sides = images.requires_grad_(), texts.requires_grad_()
    assert gradcheck(lambda *of: module(*of, columns), sides)


@pytest.mark.parametrize("diversity", ["std", "entropy"])
def test_pairs_in_the_bank_with_an_equal_product_or_text_are_not_negatives(diversity):
    module = CoderLoss(
        0.2, 0.1, diversity, bank_size=13, dimension=WIDTH, weight_bank=0.5, diversity_gradient=True
    ).double()
    queue = [torch.zeros(0, WIDTH, dtype=torch.float64)] * 2
    queue_ids = []
    ids = [list(of_pair) for of_pair in PRODUCTS_AND_TEXTS]
    for number in range(4):
        batch = rows(len(ids), number)
        if number == 3:
            sides = batch[0].clone().requires_grad_(), batch[1].clone().requires_grad_()
            columns = torch.tensor(ids)
            keys = {"image_keys": batch[0], "text_keys": batch[1]}  # without keys, positives have no gradient
            module.eval()  # the bank stays as it is
            assert gradcheck(lambda *of, columns=columns, keys=keys: module(*of, columns, **keys), sides)
        actual = module(*batch, torch.tensor(ids))
        units = normalise(batch)
        switches = {"kind": diversity, "temperature": 0.2, "margin": 0.1}
        sums = step.coupled(units, units, queue, ids, queue_ids, **switches)
        assert actual.item() == pytest.approx((3.0 * sums[0] + 0.5 * sums[1]) / len(ids), rel=1e-9)
        queue = [torch.cat([old, new])[-13:] for old, new in zip(queue, units, strict=True)]
        queue_ids = (queue_ids + ids)[-13:]
        ids = [[product + 1, text] for product, text in ids]


def test_a_bank_keeps_the_number_of_ids_and_refuses_another():
    bank = CoupledBank(4, WIDTH)
    keys = torch.eye(3, WIDTH)
    bank.enqueue(keys, keys, torch.tensor(PRODUCTS_AND_TEXTS[:3]))
    assert bank.image_ids[:3].tolist() == [list(of_pair) for of_pair in PRODUCTS_AND_TEXTS[:3]]
    restored = CoupledBank(4, WIDTH)
    restored.load_state_dict(bank.state_dict())
    assert torch.equal(restored.image_ids, bank.image_ids)
    with pytest.raises(ValueError, match=r"ids of a pair have shape \(\), those in the bank \(2,\)"):
        bank.enqueue(keys, keys, torch.arange(3))


def test_prototypes_of_pairs_with_an_equal_id_are_left_out_of_the_softmax():
    ids = PRODUCTS_AND_TEXTS
    count = len(ids)
    numbers = torch.arange(count)
    module = PrototypeLoss(4, WIDTH, count, image_ids=torch.tensor(ids), temperature=0.5).double()
    plain = PrototypeLoss(4, WIDTH, count, temperature=0.5).double()
    plain.load_state_dict(module.state_dict())
    for seed in range(3):  # seed the centroids, then label every pair
        module(*rows(count, seed), numbers)
        plain(*rows(count, seed), numbers)
    labels = module.clusters.labels.tolist()
    assert NO_LABEL not in labels
    module.eval()
    batch = rows(count, seed=7).requires_grad_()
    images, texts = normalise(batch.detach())
    classifier = (module.classifier.detach() / 0.5).tolist()
    centroids = module.clusters.centroids.tolist()
    total = 0.0
    left_out_in_all = 0
    for i, (image, text) in enumerate(zip(images.tolist(), texts.tolist(), strict=True)):
        vector = prototypes.pair_vector(image, text)
        cosines = [sum(a * b for a, b in zip(row, vector, strict=True)) for row in centroids]
        label = cosines.index(max(cosines))
        partners = [
            j for j, of_pair in enumerate(ids) if any(a == b for a, b in zip(ids[i], of_pair, strict=True))
        ]
        left_out = {labels[j] for j in partners} - {label}
        left_out_in_all += len(left_out)
        total += prototypes.cross_entropy(image, classifier, label, left_out)
        total += prototypes.cross_entropy(text, classifier, label, left_out)
    assert left_out_in_all > 0
    assert module(*batch, numbers).item() == pytest.approx(total / count, rel=1e-9)
    assert gradcheck(lambda *of: module(*of, numbers), tuple(batch))
    assert plain.eval()(*batch, numbers).item() > module(*batch, numbers).item()
    with pytest.raises(ValueError, match="5 image_ids: give one for each of the 6 pairs"):
        PrototypeLoss(4, WIDTH, count, image_ids=torch.arange(5))


def test_sample_weights_read_the_same_mask():
    images, texts = rows(len(PRODUCTS_AND_TEXTS), seed=1)
    columns = torch.tensor(PRODUCTS_AND_TEXTS)
    unique = columns + 100 * torch.arange(len(columns))[:, None] * torch.tensor([0, 1])  # texts differ
    for kind in ("hal", "mithun"):
        weights = SampleWeights(kind)
        assert torch.equal(weights(images, texts, unique), weights(images, texts, columns[:, 0]))
        assert not torch.equal(weights(images, texts, columns), weights(images, texts, columns[:, 0]))


@pytest.mark.parametrize("name", LOSSES)
def test_a_catalogue_has_the_loss_of_one_id_per_product(name):
    """Perfect embeddings of products with two pictures and one title: by image they push each other away, by product or
    by text they do not."""
    products = normalise(torch.randn(PRODUCTS, 16, generator=torch.Generator().manual_seed(0))).double()
    images = products.repeat_interleave(2, 0)
    of_product = torch.arange(PRODUCTS).repeat_interleave(2)
    of_image = torch.arange(2 * PRODUCTS)

    def loss_by(ids):
        module = make_loss(name, VALUES | {"bank_size": 32, "dimension": 16, "weight_memory": 1.0}).double()
        module(images, images, ids)
        return module(images, images, ids).item()  # compares with the bank too, if the loss has one

    by_product = loss_by(of_product)
    assert loss_by(torch.stack([of_product, of_image], 1)) == pytest.approx(by_product, abs=1e-12)
    assert loss_by(torch.stack([of_image, of_product], 1)) == pytest.approx(by_product, abs=1e-12)
    if name == "polynomial":  # 0 for a positive of cosine 1
        assert loss_by(of_image) == by_product == 0
    else:
        assert loss_by(of_image) > by_product + 0.01
