"""Losses, pooling, k-means, loading and ranking ÷ the matrix products or copies that they need at least."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from benchmarks.synthetic import CAPTIONS_PER_IMAGE, FEATURES, REGIONS
from benchmarks.timing import DEVICE, Line, at_most, in_a_process, in_turn, milliseconds, quotient
from coder_core.data.batches import TrainingBatches
from coder_core.data.dataset import read_split
from coder_core.data.words import Vocabulary
from coder_core.evaluation.metrics import Ranks
from coder_core.evaluation.ranking import rank
from coder_core.evaluation.recall import retrieval_metrics
from coder_core.evaluation.relevance import Relevance
from coder_core.evaluation.scores import check_scores
from coder_core.evaluation.sources import EmbeddingPair
from coder_core.model.encoders.local import LOWEST, TEMPERATURE, GeneralisedPooling, position_codes
from coder_core.objectives.diversity import anchor_diversity
from coder_core.objectives.diversity_contrastive import diversity_contrastive
from coder_core.objectives.pairs import same_image_negatives
from coder_core.objectives.prototypes import Prototypes
from coder_core.ops import normalise

BATCH = 128
BANK = 4_096
SIZE = 1_024
# images of Flickr30K's train split; prototypes
IMAGES = 29_000
COUNT = 1_000
DCL_BAR = 1.25
KMEANS_BAR = 1.3
POOLING_BAR = 2.5
LOADING_BAR = 1.25
RANKING_BAR = 1.2
LISTS_BAR = 1.7
RANKED = ((1_000, 5_000), (5_000, 25_000))
NOISE = 0.15  # standard deviation of captions around their image, as in a trained model
MEMORY_BAR = 64.0  # MiB


class Step(NamedTuple):
    """Embeddings of one training step; images first, then texts."""

    anchors: tuple[Tensor, Tensor]
    keys: tuple[Tensor, Tensor]
    banks: tuple[Tensor, Tensor]
    image_ids: Tensor
    slot_ids: Tensor


def make_step() -> Step:
    """Create random embeddings with the sizes of CODER on Flickr30K."""
    generator = torch.Generator().manual_seed(0)

    def embeddings(rows: int) -> tuple[Tensor, Tensor]:
        images, texts = normalise(torch.randn(2, rows, SIZE, generator=generator) + 0.3).to(DEVICE)
        return images, texts

    def ids(rows: int) -> Tensor:
        return torch.randint(IMAGES, (rows,), generator=generator).to(DEVICE)

    images, texts = embeddings(BATCH)
    anchors = images.requires_grad_(), texts.requires_grad_()
    return Step(anchors, embeddings(BATCH), embeddings(BANK), ids(BATCH), ids(BANK))


def four_products(step: Step) -> None:
    """Compute the scores against both banks, and products of the shape of their gradients."""
    with torch.no_grad():
        for anchors, bank in zip(step.anchors, reversed(step.banks), strict=True):
            (anchors @ bank.mT) @ bank


def dcl(step: Step) -> None:
    """Compute DCL in the batch, M-DCL against both banks, and their gradients."""
    images, texts = step.anchors
    in_batch = images @ texts.mT
    in_banks = [anchors @ bank.mT for anchors, bank in zip(step.anchors, reversed(step.banks), strict=True)]
    batch_negatives = same_image_negatives(step.image_ids, step.image_ids)
    bank_negatives = same_image_negatives(step.image_ids, step.slot_ids)
    total = torch.zeros((), device=DEVICE)
    directions = zip(step.anchors, reversed(step.keys), in_banks, (in_batch, in_batch.mT), strict=True)
    for anchors, partners, bank_scores, scores in directions:
        diversity = anchor_diversity((scores, batch_negatives), (bank_scores, bank_negatives))
        in_the_batch = scores, scores.diagonal(), batch_negatives
        in_the_bank = bank_scores, (anchors * partners).sum(1), bank_negatives
        for terms in (in_the_batch, in_the_bank):
            total = total + diversity_contrastive(*terms, diversity=diversity).mean()
    torch.autograd.grad(total, step.anchors)


def losses(rounds: int) -> list[Line]:
    """Measure DCL with two banks ÷ its four products (two score matrices and their gradients)."""
    step = make_step()
    programs = {"products": lambda _: four_products(step), "loss": lambda _: dcl(step)}
    taken = in_turn(programs, rounds, warm_up=5)
    name = "DCL + two bank losses ÷ four products"
    return [at_most(name, DCL_BAR, taken["loss"], taken["products"], "products")]


def kmeans(rounds: int) -> list[Line]:
    """Measure a pass of the online k-means over 29,000 vectors ÷ its matrix product, at two batch sizes."""
    generator = torch.Generator().manual_seed(0)
    centres = torch.randn(COUNT, SIZE, generator=generator)
    labels = torch.randint(COUNT, (IMAGES,), generator=generator)
    vectors = normalise(centres[labels] + torch.randn(IMAGES, SIZE, generator=generator)).to(DEVICE)
    ids = torch.arange(IMAGES, device=DEVICE)

    def one_pass(size: int) -> Callable[[int], object]:
        clusters = Prototypes(COUNT, SIZE, IMAGES, IMAGES).to(DEVICE)
        clusters.update(vectors, ids)

        def run(_: int) -> None:
            for part, part_ids in zip(vectors.split(size), ids.split(size), strict=True):
                clusters.update(part, part_ids, clusters.assign(part))

        return run

    table = normalise(centres).T.contiguous().to(DEVICE)
    programs: dict[str, Callable[[int], object]] = {"product": lambda _: vectors @ table}
    programs |= {str(size): one_pass(size) for size in (BATCH, 1_024)}
    taken = in_turn(programs, rounds, warm_up=1)
    name = f"k-means pass, {IMAGES:,} × {SIZE:,}, K = {COUNT:,}, batches of"
    return [
        at_most(f"{name} {size:,} ÷ its product", KMEANS_BAR, taken[str(size)], taken["product"])
        for size in (BATCH, 1_024)
    ]


class PlainPooling(GeneralisedPooling):
    """GPO as published: the same parameters and values, but no computation shared between samples."""

    def forward(self, features: Tensor, lengths: Tensor) -> Tensor:
        """Pool each sample: (B, L, D), (B,) -> (B, D)."""
        batch, longest, _ = features.shape
        padding = (torch.arange(longest) >= lengths.unsqueeze(1)).unsqueeze(-1)
        codes = position_codes(longest, self.code_size).expand(batch, -1, -1)
        packed = nn.utils.rnn.pack_padded_sequence(codes, lengths, batch_first=True, enforce_sorted=False)
        states = self.gru(packed)[0]
        hidden, _ = nn.utils.rnn.pad_packed_sequence(states, batch_first=True, total_length=longest)
        both = (hidden[..., : self.code_size] + hidden[..., self.code_size :]) / 2
        weights = torch.softmax(self.score(both).masked_fill(padding, LOWEST) / TEMPERATURE, dim=1)
        ranked = features.masked_fill(padding, LOWEST).sort(dim=1, descending=True).values
        return (ranked.masked_fill(padding, 0.0) * weights).sum(1)


def pooling(rounds: int) -> list[Line]:
    """Measure GPO's plain form ÷ the model's, forward and backward."""
    torch.manual_seed(0)
    shared = GeneralisedPooling()
    plain = PlainPooling()
    plain.load_state_dict(shared.state_dict())
    features = torch.randn(BATCH, REGIONS, SIZE, requires_grad=True)
    lengths = torch.full((BATCH,), REGIONS)
    weight = torch.randn(BATCH, SIZE)

    def run(pool: GeneralisedPooling) -> None:
        torch.autograd.grad((pool(features, lengths) * weight).sum(), [features, *pool.parameters()])

    taken = in_turn({"ours": lambda _: run(shared), "plain": lambda _: run(plain)}, rounds)
    faster = quotient(taken["plain"], taken["ours"])
    name = f"GPO, plain form ÷ ours, {BATCH} × {REGIONS} × {SIZE}"
    bar = f"≥ {POOLING_BAR:g}"
    note = f"plain {milliseconds(taken['plain']):.0f} ms"
    return [Line(name, bar, *faster, milliseconds(taken["ours"]), faster.processor >= POOLING_BAR, note)]


def loading(folder: Path, rounds: int) -> list[Line]:
    """Measure a batch from a mapped file (regions checked for zeros, words padded) ÷ one copy of its images."""
    split = read_split(folder, "train")
    tokens = Vocabulary.build(split.captions, threshold=1).encode(split.captions)
    batches = TrainingBatches(split, tokens, batch_size=BATCH, seed=0)
    images = torch.from_numpy(np.lib.format.open_memmap(folder / "train_ims.npy", mode="c")).flatten(1)
    ids = [batches(turn).image_ids for turn in range(batches.per_epoch)]
    programs = {
        "batch": lambda turn: batches(turn % batches.per_epoch),
        "copy": lambda turn: images.index_select(0, ids[turn % batches.per_epoch]),
    }
    taken = in_turn(programs, rounds)
    name = f"batch of {BATCH} × {REGIONS} × {FEATURES} from a mapped file ÷ one copy"
    return [at_most(name, LOADING_BAR, taken["batch"], taken["copy"])]


def embeddings(images: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return unit rows of images, unit rows of five captions each, and the image of every caption."""
    generator = torch.Generator().manual_seed(0)
    image_of_text = torch.arange(CAPTIONS_PER_IMAGE * images) // CAPTIONS_PER_IMAGE
    image = normalise(torch.randn(images, SIZE, generator=generator))
    text = torch.randn(len(image_of_text), SIZE, generator=generator).mul_(NOISE).add_(image[image_of_text])
    return image, normalise(text), image_of_text


def ranking(rounds: int) -> list[Line]:
    """Measure exact ranks in both directions ÷ one matrix product, and their peak memory above the embeddings."""
    lines = []
    for images, texts in RANKED:
        image, text, image_of_text = embeddings(images)
        scores = torch.empty(images, texts)
        programs: dict[str, Callable[[int], object]] = {
            "product": lambda _: torch.mm(image, text.T, out=scores),  # noqa: B023
            "metrics": lambda _: retrieval_metrics(image, text, image_of_text),  # noqa: B023
            "lists": lambda _: ranked_with_lists(image, text, image_of_text),  # noqa: B023
        }
        taken = in_turn(programs, rounds, warm_up=1)
        ratio = quotient(taken["metrics"], taken["product"])
        peak = float(in_a_process("-m", "benchmarks.kernels", str(images)))
        reached = ratio.processor <= RANKING_BAR and peak <= MEMORY_BAR
        product = f"product {milliseconds(taken['product']):.0f} ms"
        note = f"{product}; {peak:.0f} MiB above the embeddings (bar {MEMORY_BAR:g})"
        name = f"ranks both ways, {images:,} × {texts:,} ÷ their product"
        bar = f"≤ {RANKING_BAR:g}"
        lines.append(Line(name, bar, *ratio, milliseconds(taken["metrics"]), reached, note))
        name = f"ranks and ten best both ways, {images:,} × {texts:,} ÷ their product"
        lines.append(at_most(name, LISTS_BAR, taken["lists"], taken["product"], "product"))

    return lines


def ranked_with_lists(image: Tensor, text: Tensor, image_of_text: Tensor) -> Ranks:
    """Rank both ways by the labels, and list the ten best candidates of every query."""
    labels = Relevance.of_labels(image_of_text.numpy(), len(image))
    return rank(check_scores([EmbeddingPair(image, text)]), labels)


def peak_memory(images: int) -> float:
    """Return the MiB by which ranking raises this process's peak memory, after a small ranking loads the libraries."""
    image, text, image_of_text = embeddings(images)
    retrieval_metrics(image[:300], text[:1500], image_of_text[:1500])
    Path("/proc/self/clear_refs").write_text("5")  # reset the peak to the current size
    before = memory("VmRSS")
    retrieval_metrics(image, text, image_of_text)
    return memory("VmHWM") - before


def memory(field: str) -> float:
    """Return a field of this process's memory in MiB, such as VmRSS (now) or VmHWM (peak)."""
    status = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in status if line.startswith(field)) / 1024


if __name__ == "__main__":
    print(peak_memory(int(sys.argv[1])))
