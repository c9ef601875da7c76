"""Loss modules against the loops over single anchors; their memory, their state and their errors."""

import math
import re

import pytest
import torch

from coder_core.objectives import (
    BoostingLoss,
    CoderLoss,
    InfoNCELoss,
    NeighbourWeights,
    PrototypeLoss,
    SampleWeights,
    SigmoidLoss,
    TripletLoss,
)
from coder_core.ops import normalise
from tests.reference import boosting, losses, prototypes, step
from tests.reference import neighbourhood as reference
from tests.reference.pairs import kept, negatives, transposed
from tests.support.loss_modules import BATCH, IMAGE_IDS, WIDTH, made

IDS = IMAGE_IDS.tolist()
PLAIN = {
    "triplet": (TripletLoss(0.3), lambda *of: losses.triplet_hardest(*of, margin=0.3)),
    "triplet-sum": (TripletLoss(0.3, hardest=False), lambda *of: losses.triplet_sum(*of, margin=0.3)),
    "infonce": (InfoNCELoss(0.2), lambda *of: losses.info_nce(*of, temperature=0.2)),
    "sigmoid": (SigmoidLoss(0.5, -1.0), lambda *of: losses.pairwise_sigmoid(*of, scale=2.0, bias=-1.0)),
}
DCL_I = CoderLoss(0.2, diversity=None, weight_batch=1.0)
BANKED = CoderLoss(bank_size=8, dimension=WIDTH)
PLAIN["dcl-i"] = DCL_I, lambda *of: losses.diversity_contrastive(*of, temperature=0.2)


def embeddings(seed=0, pairs=BATCH):
    """Draw (2, pairs, WIDTH) float64 rows of any length."""
    generator = torch.Generator().manual_seed(seed)
    return 3 * torch.randn(2, pairs, WIDTH, generator=generator, dtype=torch.float64)


def matrices(images, texts):
    scores = (normalise(images) @ normalise(texts).T).tolist()
    return scores, transposed(scores)


@pytest.mark.parametrize("name", PLAIN)
def test_losses_match_the_mean_of_loops_over_pairs_and_directions(name):
    module, loop = PLAIN[name]
    images, texts = embeddings()
    ways = matrices(images, texts)
    mask = negatives(IDS, IDS)
    expected = [sum(loop(kept(rows[i], mask[i]), rows[i][i]) for rows in ways) for i in range(BATCH)]
    assert module(images, texts, IMAGE_IDS).item() == pytest.approx(sum(expected) / BATCH)
    weights = torch.arange(BATCH, dtype=torch.float64)
    weighted = sum(weight * value for weight, value in zip(weights.tolist(), expected, strict=True)) / BATCH
    assert module(images, texts, IMAGE_IDS, weights=weights).item() == pytest.approx(weighted)
    half = module(images.bfloat16(), texts.bfloat16(), IMAGE_IDS)
    assert half.dtype == torch.float32
    assert half.item() == pytest.approx(sum(expected) / BATCH, rel=0.05, abs=0.05)
    assert torch.equal(module(images, texts, IMAGE_IDS), module(images, texts, IMAGE_IDS - 2**62))
    with torch.autocast("cpu", torch.bfloat16):
        rounded = module(image_embeddings=images.float(), text_embeddings=texts.float(), image_ids=IMAGE_IDS)
    assert rounded.item() == pytest.approx(sum(expected) / BATCH, rel=1e-5)


@pytest.mark.parametrize("precision", [torch.bfloat16, torch.float32])
def test_states_of_any_precision_take_embeddings_of_any_precision(precision):
    """Without ids no slot of the bank shows an image of the batch; images and captions may differ in precision."""
    images, texts = embeddings()
    expected = [CoderLoss(bank_size=13, dimension=WIDTH).double() for _ in range(2)]
    coder = CoderLoss(bank_size=13, dimension=WIDTH).to(precision)
    for number in range(3):
        values = expected[0](images, texts), expected[1](images, texts, torch.arange(BATCH) + 100 * number)
        assert torch.equal(*values)
        assert coder(images, texts.float()).item() == pytest.approx(values[0].item(), rel=0.02)
    classes = PrototypeLoss(3, WIDTH, BATCH).to(precision)
    assert [classes(images, texts, torch.arange(BATCH)).item() > 0 for _ in range(2)] == [False, True]


def test_a_pair_repeated_in_a_batch_is_one_member_of_its_prototype():
    module = PrototypeLoss(3, WIDTH, BATCH).double()
    for numbers in (list(range(BATCH)), [0, 0, 1, 1, 2, 3, 4, 4], [7, 6, 5, 4, 4, 4, 0, 1]):
        module(*embeddings(numbers[0]), torch.tensor(numbers))
    labels = module.clusters.labels
    assert torch.equal(module.clusters.members, torch.bincount(labels[labels >= 0], minlength=3))


def test_a_temperature_is_exact_in_float64():
    images, texts = embeddings()
    expected = sum(
        losses.info_nce(kept(row, mask), row[i], temperature=0.002)
        for way in matrices(images, texts)
        for i, (row, mask) in enumerate(zip(way, negatives(IDS, IDS), strict=True))
    )
    sharp = InfoNCELoss(0.002).double()
    sharp.load_state_dict(InfoNCELoss(0.07).state_dict())
    assert sharp(images, texts, IMAGE_IDS).item() == pytest.approx(expected / BATCH, rel=1e-12)
    for learned in (InfoNCELoss(0.07, learn_scale=True), SigmoidLoss(0.07)):
        assert learned.double().scale().item() == pytest.approx(1 / 0.07, rel=1e-14)


@pytest.mark.parametrize("diversity", ["std", "entropy"])
@pytest.mark.parametrize("with_keys", [False, True])
def test_coder_uses_the_bank_before_its_own_keys_enter(diversity, with_keys):
    module = CoderLoss(0.2, 0.1, diversity, bank_size=13, dimension=WIDTH, weight_bank=0.5).double()
    queue = [torch.zeros(0, WIDTH, dtype=torch.float64)] * 2
    queue_ids = []
    for number in range(3):
        batch = embeddings(number)
        keys = embeddings(number + 10) if with_keys else batch
        given = {"image_keys": keys[0], "text_keys": keys[1]} if with_keys else {}
        actual = module(*batch, IMAGE_IDS, **given)
        partners = normalise(keys)
        switches = {"kind": diversity, "temperature": 0.2, "margin": 0.1}
        sums = step.coupled(normalise(batch), partners, queue, IDS, queue_ids, **switches)
        assert actual.item() == pytest.approx((3.0 * sums[0] + 0.5 * sums[1]) / BATCH, rel=1e-5)
        queue = [torch.cat([old, new])[-13:] for old, new in zip(queue, partners, strict=True)]
        queue_ids = (queue_ids + IDS)[-13:]


def test_a_bank_permits_backward_is_saved_and_stays_fixed_in_evaluation():
    module, again = (CoderLoss(0.2, bank_size=13, dimension=WIDTH).double() for _ in range(2))
    for number in range(2):
        batch = embeddings(number).requires_grad_()
        module(*batch, IMAGE_IDS).backward()
        assert batch.grad.isfinite().all()
    again.load_state_dict(module.state_dict())
    assert torch.equal(again(*embeddings(7)), module(*embeddings(7)))
    before = {name: value.clone() for name, value in module.state_dict().items()}
    module.eval()(*embeddings(8))
    assert all(torch.equal(value, before[name]) for name, value in module.state_dict().items())


def test_boosting_matches_loops_and_trains_only_the_student():
    student = embeddings(1).requires_grad_()
    teacher = embeddings(2).requires_grad_()
    taught = {"teacher_images": teacher[0], "teacher_texts": teacher[1]}
    value = BoostingLoss("rm", margin=0.3)(*student, IMAGE_IDS, **taught)
    value.backward()
    assert teacher.grad is None
    switches = {"margin": 0.3, "split": 0.5, "is_soft": False}
    expected = 0.0
    for rows, taught in zip(matrices(*student.detach()), matrices(*teacher.detach()), strict=True):
        for i, mask in enumerate(negatives(IDS, IDS)):
            own = kept(rows[i], mask), kept(taught[i], mask), rows[i][i], taught[i][i]
            expected += boosting.loss("rm", *own, **switches)
    assert value.item() == pytest.approx(expected / BATCH)


def test_prototypes_classify_both_modalities_after_the_first_pass():
    module = PrototypeLoss(3, WIDTH, 2 * BATCH, temperature=0.5)
    numbers = torch.arange(BATCH)
    for number in range(2):
        assert module(*embeddings(number).float(), numbers + number * BATCH).item() == 0
    centroids = module.clusters.centroids.clone()
    batch = embeddings(2).float()
    value = module(*batch, numbers)
    images, texts = (normalise(rows).tolist() for rows in batch)
    expected = 0.0
    for image, text in zip(images, texts, strict=True):
        label = int((centroids @ torch.tensor(prototypes.pair_vector(image, text))).argmax())
        classifier = (module.classifier / 0.5).tolist()
        expected += sum(prototypes.cross_entropy(row, classifier, label) for row in (image, text)) / BATCH
    assert value.item() == pytest.approx(expected, rel=1e-5)
    value.backward()
    assert module.classifier.grad.abs().sum() > 0
    assert not torch.equal(module.clusters.centroids, centroids)


NEAR = [[(row + step) % 12 for step in (3, 5, 8)] for row in range(12)]  # two captions of each of six images
OWNER = torch.arange(12) // 2


@pytest.mark.parametrize("kind", ["diversity", "discrepancy", "combined", "combined-stats"])
@pytest.mark.parametrize("modalities", ["difference", "text"])
def test_neighbour_weights_match_loops_over_the_previous_embeddings(kind, modalities):
    settings = {"shares": (2.0, 3.0), "modalities": modalities, "neighbours_of_neighbours": 0, "scale": 4.0}
    module, again = (NeighbourWeights(kind, NEAR, OWNER, 6, WIDTH, **settings) for _ in range(2))
    images, texts = embeddings(pairs=12)
    for pairs in torch.arange(12).view(3, 4):
        module.begin_epoch(0)
        assert module(images[pairs], texts[pairs], pairs).tolist() == [1.0] * 4
    module.begin_epoch(1)
    again.load_state_dict(module.state_dict())
    rows = normalise(images)[1::2][OWNER].tolist(), normalise(texts).tolist()  # each image's last row
    pairs = torch.tensor([7, 2, 11, 0])
    settings = {"shares": (2.0, 3.0), "modalities": modalities}
    expected = reference.batch_weights(kind, *rows, NEAR, pairs.tolist(), scale=16.0, **settings)
    for weights in (module.eval(), again):
        values = weights(*embeddings(5)[:, :4], pairs)
        assert values.tolist() == pytest.approx([value / 4 for value in expected], rel=1e-4)
        assert values.std() > 0
    assert torch.equal(module.cache.texts[0], normalise(texts)[0].float())  # nothing is cached in evaluation
    assert not torch.equal(again.cache.texts[0], module.cache.texts[0])


def test_gradients_reach_both_modalities_and_invalid_settings_are_refused():
    for name, (module, call) in made().items():
        batch = torch.randn(2, BATCH, WIDTH, generator=torch.Generator().manual_seed(1)).requires_grad_()
        call(*batch, IMAGE_IDS).backward()
        moved = name != "prototypes"  # which wait for a pass
        assert (batch.grad.abs().sum((1, 2)) > 0).tolist() == [moved, moved], name
        assert all(part.grad is not None for part in module.parameters() if part.requires_grad), name
    assert SampleWeights("amrani")(*embeddings()).mean().item() == pytest.approx(1)
    for make in (
        lambda: CoderLoss(bank_size=8),
        lambda: InfoNCELoss(0.0),
        lambda: BoostingLoss("rx"),
        lambda: BoostingLoss("am", split=3.0),
        lambda: SampleWeights("hall"),
        lambda: CoderLoss(0.0),
        lambda: CoderLoss(margin=math.nan),
        lambda: CoderLoss(diversity="sdt"),
        lambda: CoderLoss(positive_scale="mu"),
        lambda: BoostingLoss("rm")(*embeddings()),
        lambda: TripletLoss()(*embeddings(), weights=torch.ones(3)),
        lambda: NeighbourWeights("hal", NEAR, OWNER, 6, WIDTH),
        lambda: NeighbourWeights("diversity", NEAR, OWNER, 6, WIDTH, modalities="product"),
        lambda: NeighbourWeights("diversity", NEAR[:5], OWNER, 6, WIDTH),
        lambda: NeighbourWeights("diversity", NEAR, OWNER, 5, WIDTH),
        lambda: NeighbourWeights("diversity", NEAR, OWNER, 6, WIDTH, neighbours_of_neighbours=2),
        lambda: NeighbourWeights("diversity", NEAR, OWNER, 6, WIDTH)(*embeddings(), torch.arange(5, 13)),
        lambda: TripletLoss(-1),
        lambda: InfoNCELoss(0.005, learn_scale=True),
        lambda: TripletLoss()(*embeddings(), weights=torch.full((BATCH,), torch.nan)),
        lambda: BANKED(*embeddings(), image_keys=embeddings()[0], text_keys=embeddings()[1].log()),
        lambda: CoderLoss()(*embeddings(), image_keys=embeddings()[0], text_keys=embeddings()[1]),
        lambda: PrototypeLoss(4, WIDTH, 8)(*embeddings(), torch.arange(BATCH) - 1),
        lambda: CoderLoss(bank_size=8, dimension=WIDTH + 1)(*embeddings()),
        lambda: PrototypeLoss(4, WIDTH + 1, 8)(*embeddings(), torch.arange(BATCH)),
        lambda: BANKED(*embeddings(), image_keys=embeddings()[0]),
    ):
        with pytest.raises(
            ValueError,
            match=r"needs dimension|must be|made for|weights are|(weights|text_keys), row 0|both modalities|give",
        ):
            make()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda i, t: (i, t[:-1]), "(8, 6), text_embeddings (7, 6)"),
        (lambda i, t: (i[0], t[0]), "(6,)"),
        (lambda i, t: (i[:1], t[:1]), "drop_last"),
        (lambda i, t: (i, t, torch.zeros(BATCH, dtype=torch.long)), "8 pairs of one image"),
        (lambda i, t: (i, t, torch.zeros(BATCH)), "float32 (8,)"),
        (lambda i, t: (i, t, torch.arange(BATCH) > 3), "bool (8,)"),
        (lambda i, t: (i.float() * 1e20, t), "image_embeddings, row 0, is too long"),
        (lambda i, t: (i, t, [1, 2, 3]), "int64 (3,)"),
        (lambda i, t: (i, t, [f"{k}.jpg" for k in range(BATCH)]), "list of str: give 8 integers"),
        (lambda i, t: (i, t, torch.arange(3)), "int64 (3,)"),
        (lambda i, t: (i, t.index_fill(0, torch.tensor([5]), torch.nan)), "text_embeddings, row 5"),
        (lambda i, t: ((i * 1e5).half(), t), "image_embeddings, row 0, overflowed float16"),
    ],
)
def test_common_mistakes_are_named(change, words):
    with pytest.raises(ValueError, match=re.escape(words)):
        TripletLoss()(*change(*embeddings()))
