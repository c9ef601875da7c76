"""Known causes of misses, injected into Flickr8k's dev split, and the causes that the error budget finds.

    python -m benchmarks.causes RUN FOLDER [SEED …]
    python -m benchmarks.causes --log RUN FOLDER [SEED …]
    python -m benchmarks.causes --fit RUN FOLDER
    python -m benchmarks.causes --seeds RUN RUN
    python -m benchmarks.causes --verdicts RUN

RUN was trained on the region features of Flickr8k (f8k_precomp) and is evaluated on its dev split; FOLDER receives a run
of the split as each seed changes it (1, 2 and 3 unless given). Of the 1,000 images, 100 are cut into two overlapping views
that share their five captions (each caption keeps the label of one view: the other is a match whose label was removed),
and 50 get a copy under another name that takes over two of their captions. Of the other captions, 500 are exchanged
between images and 500 are replaced by vague ones. The tables have the misses at R@1 that these changes explain, over all
seeds: rows are the truth, columns the cause that was found, in percent of the row.

With --log: the same changes in a search log. 2,000 of the captions, drawn at random, are the queries. Each is judged right for
the one image of its label, so that the other view, the copy and the image that an exchanged query describes have no
judgement, and wrong for two random images. One more table has what a reviewer would find who looks at the queries in the
order of their suspicion.

With --fit: the weights by which captions, and pictures, tell a match without a label, and those by which an exchanged
caption finds its image. By captions: the verdicts on pairs without a label in docs/flickr8k_dev_reviews.jsonl, and 300
random pairs, which do not match. By pictures: captions with the other view of their picture in the split as seed 0
changes it, and, as mismatches, 500 first results of misses. Exchanged captions are those of the split as seeds 0, 10 and
11 change it.

With --verdicts RUN: R@1 of captions under complete labels, estimated from 100 verdicts by each of 200 simulated reviewers
whose draws differ. The truth of every first result is known, because it is drawn: from the run's own guesses, or from three
distortions of them.

With --seeds: the median difference of a query's margins in two runs that differ in the seed, in standard deviations of
the margins of the first run.
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table
from scipy.optimize import minimize
from scipy.special import log_softmax
from sklearn.linear_model import LogisticRegression

from coder_core.api import Run, causes, data_quality, open_run
from coder_core.api.causes.budget import COPY, PROBABLE, UNLABELLED, VAGUE, WRONG, wrong_and_vague
from coder_core.api.causes.evidence import PairEvidence
from coder_core.api.causes.unlabelled import inverse_places, likeness, match_probability
from coder_core.api.reviews import ReviewedSplit
from coder_core.api.sides import DIRECTIONS, Direction
from coder_core.data.augmentation import cut
from coder_core.data.dataset import read_split
from coder_core.data.embeddings import Embeddings
from coder_core.data.reviews import read_reviews
from coder_core.embedding.log import log_split
from coder_core.runs.analysis.import_embeddings import import_run

SPLIT = "dev"
REVIEWS = Path(__file__).resolve().parents[1] / "docs" / "flickr8k_dev_reviews.jsonl"
RANDOM = 300
FIT_SEEDS = (0, 10, 11)
RIDGE = 1e-3
TWINS = 100  # images cut into two views
COPIES = 50
MOVED_CAPTIONS = 500
VAGUE_CAPTIONS = 500
GRID = 6  # the 36 regions of a picture are windows of two by two cells of a grid of seven by seven
VIEW = 4  # columns of windows in a view
CELLS = 7
NOISE = 0.05  # of the features of every second copy, in their standard deviations, as saving the picture again changes them
ENDINGS = ("", " outside", " in the picture", " is here", " looking at something", " near another one")


@dataclass(frozen=True)
class Changed:
    """A split with known causes. Rows are those of the changed split, with n images and m captions."""

    owner: np.ndarray  # (m,) the image of every caption by its label
    shows: np.ndarray  # (m,) an image that every caption describes
    twin: np.ndarray  # (n,) the other view of every image; −1 for none
    copy: np.ndarray  # (n,) the copy, or the original of a copy; −1 for none
    vague: np.ndarray  # (m,) bool
    captions: list[str]
    names: list[str]
    regions: list[np.ndarray]  # of every image, (R, F)


def change(
    regions: np.ndarray, captions: list[str], owner: np.ndarray, names: list[str], seed: int
) -> Changed:
    """Change a split of (n, 36, F) regions. The seed determines what is changed, and how."""
    random = np.random.default_rng(seed)
    regions = regions.astype(np.float32)
    count = len(regions)
    order = random.permutation(count)
    twins, copied, rest = np.split(order, [TWINS, TWINS + COPIES])
    of_images = list(regions)
    label = owner.copy()
    names = list(names)
    twin = np.full(count + TWINS + COPIES, -1)
    copy = np.full(count + TWINS + COPIES, -1)
    for number, image in enumerate(np.concatenate([twins, copied]).tolist(), count):
        grid = of_images[image].reshape(GRID, GRID, -1)
        stem = Path(names[image]).stem
        if number < count + TWINS:
            of_images[image] = grid[:, :VIEW].reshape(GRID * VIEW, -1)
            of_images.append(grid[:, -VIEW:].reshape(GRID * VIEW, -1))
            twin[[image, number]] = number, image
            names.append(f"{stem}-view.jpg")
        else:
            noise = NOISE * (number % 2) * regions.std() * random.normal(size=of_images[image].shape)
            of_images.append((of_images[image] + noise).astype(np.float32))
            copy[[image, number]] = number, image
            names.append(f"{stem}-copy.jpg")
        moved = random.permutation(np.flatnonzero(owner == image))[:2]
        label[moved] = number

    shows = label.copy()
    free = random.permutation(np.flatnonzero(np.isin(owner, rest)))
    exchanged, vague_rows = free[:MOVED_CAPTIONS], free[MOVED_CAPTIONS : MOVED_CAPTIONS + VAGUE_CAPTIONS]
    label[exchanged] = label[np.roll(exchanged, 1)]
    vague = np.zeros(len(captions), bool)
    vague[vague_rows] = True
    texts = list(captions)
    for row in vague_rows.tolist():
        texts[row] = cut(captions[row]) + ENDINGS[random.integers(len(ENDINGS))]

    return Changed(label, shows, twin, copy, vague, texts, names, of_images)


def changed_split(run: Run, seed: int) -> Changed:
    """Change the split that a run was evaluated on."""
    regions = np.asarray(read_split(Path(run.config["data"]["data"]), SPLIT).features)
    names = list(run.image_names(SPLIT))
    return change(regions, list(run.captions(SPLIT)), run.image_of_text(SPLIT), names, seed)


def save_pictures(run: Run, changed: Changed, folder: Path) -> None:
    """Save the pictures of a changed split: views as crops, copies at a lower quality."""
    folder.mkdir(parents=True, exist_ok=True)
    count = run.count(SPLIT, "image")
    width = (VIEW + 1) / CELLS
    for number, name in enumerate(changed.names):
        twin = int(changed.twin[number])
        copy = int(changed.copy[number])
        source = number if number < count else max(twin, copy)
        picture = run.open_picture(SPLIT, source)
        if twin >= 0:
            left = 0.0 if number < count else 1 - width
            picture = picture.crop(
                (round(left * picture.width), 0, round((left + width) * picture.width), picture.height)
            )
        picture.save(folder / name, quality=60 if number >= count else 95)


def embed(run: Run, changed: Changed, folder: Path) -> Run:
    """Embed a changed split with the run's model, and import it as a run in `folder`."""
    images = np.stack([run.model.encode_images(regions[None])[0] for regions in changed.regions])
    texts = run.encode_text(changed.captions)
    pictures = folder / "pictures"
    save_pictures(run, changed, pictures)
    embeddings = Embeddings(images, texts, changed.captions, changed.owner, changed.names, pictures)
    path, _ = import_run(embeddings, folder, f"{run.name}-changed", SPLIT, overwrite=True)
    return open_run(path)


Confusion = dict[Direction, np.ndarray]
LOG = "log"
LOG_QUERIES = 2_000
JUDGED_WRONG = 2  # images of every query
LOOKED_AT = (50, 100, 200)  # queries that a reviewer looks at, the most suspicious first


def log_of(changed: Changed, seed: int) -> tuple[Changed, np.ndarray]:
    """Draw the queries of a search log from the captions of a changed split. Return the split with these captions alone,
    and (P, 3) judgements: query, image, and grade 2 for the image of the label and 0 for images that do not match."""
    random = np.random.default_rng(seed)
    kept = np.sort(random.choice(len(changed.owner), LOG_QUERIES, replace=False))
    log = replace(
        changed,
        owner=changed.owner[kept],
        shows=changed.shows[kept],
        vague=changed.vague[kept],
        captions=[changed.captions[row] for row in kept.tolist()],
    )
    judgements = []
    for query, (owner, shown) in enumerate(zip(log.owner.tolist(), log.shows.tolist(), strict=True)):
        judgements.append((query, owner, 2))
        matching = {owner, shown, *log.twin[[owner, shown]].tolist(), *log.copy[[owner, shown]].tolist()}
        others = [
            image for image in random.permutation(len(log.names))[:10].tolist() if image not in matching
        ]
        judgements += [(query, image, 0) for image in others[:JUDGED_WRONG]]

    return log, np.array(judgements)


def embed_log(run: Run, changed: Changed, seed: int, folder: Path) -> tuple[Run, Changed]:
    """Embed a search log with the run's model, and write it as a run in `folder`; return it and its split."""
    log, judgements = log_of(changed, seed)
    images = np.stack([run.model.encode_images(regions[None])[0] for regions in log.regions])
    pictures = folder / "pictures"
    save_pictures(run, log, pictures)
    files = [pictures / name for name in log.names]
    texts = run.encode_text(log.captions)
    path = folder / f"{run.name}-log-{seed}"
    log_split(path, LOG, images, texts, captions=log.captions, pictures=files, judgements=judgements)
    return open_run(path), log


def log_confusion(run: Run, folder: Path, seeds: Sequence[int]) -> tuple[Confusion, dict[int, list[float]]]:
    """Return `confusion` for a search log, and for the numbers `LOOKED_AT` the percentage of the most suspicious queries
    that were exchanged, one value per seed."""
    counts = nothing_counted()
    found: dict[int, list[float]] = {number: [] for number in LOOKED_AT}
    for seed in seeds:
        embedded, log = embed_log(run, changed_split(run, seed), seed, folder)
        add_misses(counts, embedded, LOG, log)
        table = data_quality.mismatches(embedded, LOG)
        exchanged = (log.shows != log.owner)[table["caption"].to_numpy()]
        for number in LOOKED_AT:
            found[number].append(100 * float(exchanged[:number].mean()))
    return counts, found


UNTOUCHED = -1


def truth_of(changed: Changed, direction: Direction, queries: np.ndarray, first: np.ndarray) -> np.ndarray:
    """Return (q,) the cause of every miss at R@1 that the changes explain, a position in `causes.CAUSES`, or `UNTOUCHED`.
    `first`: (q,) the first result of every query."""
    truth = np.full(len(queries), UNTOUCHED)
    if direction == "t2i":
        own = changed.owner[queries]
        truth[changed.vague[queries]] = VAGUE
        truth[(changed.copy[own] >= 0) & (changed.copy[own] == first)] = COPY
        truth[(changed.twin[own] >= 0) & (changed.twin[own] == first)] = UNLABELLED
        truth[changed.shows[queries] != own] = WRONG
        return truth
    of_first = changed.owner[first]
    moved = (changed.shows[first] == queries) & (of_first != queries)  # an exchanged caption of this image
    truth[(changed.copy[queries] >= 0) & (changed.copy[queries] == of_first)] = COPY
    truth[moved | ((changed.twin[queries] >= 0) & (changed.twin[queries] == of_first))] = UNLABELLED
    return truth


def nothing_counted() -> Confusion:
    """Return direction → (causes + 1, causes) zeros: the truth, `UNTOUCHED` last, and the cause found."""
    shape = len(causes.CAUSES) + 1, len(causes.CAUSES)
    return {direction: np.zeros(shape, int) for direction in DIRECTIONS}


def add_misses(counts: Confusion, embedded: Run, split: str, changed: Changed) -> None:
    """Count the misses at R@1 of a run on a changed split, by their truth and the cause found."""
    for direction in DIRECTIONS:
        misses = causes.causes_of_run(embedded, split, causes.Question(direction))
        truth = truth_of(changed, direction, misses.way.queries, misses.way.results[:, 0])
        np.add.at(counts[direction], (truth[misses.missed], misses.cause[misses.missed]), 1)


def confusion(run: Run, folder: Path, seeds: Sequence[int]) -> Confusion:
    """Return the counts of misses over all seeds, see `nothing_counted`."""
    counts = nothing_counted()
    for seed in seeds:
        changed = changed_split(run, seed)
        add_misses(counts, embed(run, changed, folder), SPLIT, changed)
    return counts


def print_confusion(counts: Confusion) -> None:
    """Print a table per direction and for both, and the mean recall of the injected causes."""
    console = Console(width=170)
    tables = {DIRECTIONS[direction]: table for direction, table in counts.items()}
    tables["both"] = np.sum(list(counts.values()), axis=0)
    for title, table in tables.items():
        shown = Table("truth", "misses", *causes.CAUSES, title=title)
        recalls = []
        for row, cause in enumerate((*causes.CAUSES, "untouched")):
            number = int(table[row].sum())
            if not number:
                continue
            shares = 100 * table[row] / number
            shown.add_row(cause, f"{number:,}", *(f"{share:.1f}" for share in shares))
            if row < len(causes.CAUSES):
                recalls.append(shares[row])
        console.print(shown)
        console.print(f"macro recall {np.mean(recalls):.1f}, smallest {min(recalls):.1f}")


def print_noise(first: Run, second: Run) -> None:
    """Print the noise of margins between two runs, for both directions and K of 1, 5 and 10."""
    evidence = causes.split_evidence(first, SPLIT)
    other = causes.split_evidence(second, SPLIT)
    for direction in DIRECTIONS:
        way = evidence.way(direction)
        for at in (1, 5, 10):
            deviation = float(np.std(way.match_scores - way.scores[:, at - 1]))
            noise = causes.seed_noise(way, other.way(direction), at)
            print(f"{direction} R@{at}: {noise:.4f}, {noise / deviation:.2f} standard deviations")


def print_fit(run: Run, folder: Path) -> None:
    """Print weights and offsets of two logistic regressions on `FEATURES`."""
    random = np.random.default_rng(1)
    pairs = PairEvidence(run, SPLIT)
    reviews = read_reviews(REVIEWS)
    known = causes.Known.of(run, SPLIT, ReviewedSplit.of(run, SPLIT), reviews)
    texts = random.integers(0, run.count(SPLIT, "text"), RANDOM)
    images = random.integers(0, pairs.images, RANDOM)
    foreign = ~run.matches(SPLIT, "t2i", texts, images)
    judged = np.concatenate([known.people, known.refused, np.stack([texts, images], 1)[foreign]])
    is_match = np.arange(len(judged)) < len(known.people)
    accepted, refused = (
        match_probability(pairs.features(*rows.T)) >= 0.5 for rows in (known.people, known.refused)
    )
    print(f"verdicts for a match: {accepted.sum()} of {len(accepted)} are probable by the present weights")
    print(f"verdicts against one: {refused.sum()} of {len(refused)}")
    _print_weights("captions", pairs.features(*judged.T)[:, :2], is_match)
    changed = changed_split(run, 0)
    embedded = embed(run, changed, folder)
    views = np.flatnonzero((changed.twin[changed.owner] >= 0) & (changed.shows == changed.owner))
    matches = PairEvidence(embedded, SPLIT).features(views, changed.twin[changed.owner[views]])
    misses = causes.causes_of_run(run, SPLIT, causes.Question("t2i"))
    wrong = random.permutation(misses.way.features[misses.missed, 0])[:500]
    is_match = np.arange(len(matches) + len(wrong)) < len(matches)
    _print_weights("pictures", np.concatenate([matches, wrong])[:, 2:3], is_match)


def print_moved(run: Run, folder: Path) -> None:
    """Print weights of the conditional logit by which a caption with a wrong label belongs to one of its best images, and
    the constant of belonging to none of them."""
    every_feature: list[np.ndarray] = []
    every_truth: list[np.ndarray] = []
    every_label: list[np.ndarray] = []
    for seed in FIT_SEEDS:
        changed = changed_split(run, seed)
        evidence = causes.split_evidence(embed(run, changed, folder), SPLIT)
        way = evidence.t2i
        wrong, _ = wrong_and_vague(evidence, 1, causes.Known.nothing(len(changed.owner)))
        words, captions, _ = likeness(way.features)
        features = np.stack([words, captions, inverse_places(evidence)], -1)
        belongs = (way.results == changed.shows[way.queries][:, None]) & ~way.match
        counted = wrong[way.queries] >= PROBABLE
        every_feature.append(features[counted])
        every_truth.append(belongs[counted])
        every_label.append(way.match[counted])
    features = np.concatenate(every_feature)
    belongs = np.concatenate(every_truth)
    labelled = np.concatenate(every_label)
    truth = np.concatenate([belongs, ~belongs.any(1, keepdims=True)], 1)

    def loss(weights: np.ndarray) -> float:
        utility = features @ weights[:-1]
        utility[labelled] = -np.inf  # the label is wrong
        elsewhere = np.full((len(utility), 1), weights[-1])
        chance = log_softmax(np.concatenate([utility, elsewhere], 1), axis=1)
        return float(-chance[truth].mean()) + RIDGE * float(np.square(weights[:-1]).sum())

    weights = minimize(loss, np.ones(4)).x
    shown = ", ".join(f"{weight:.2f}" for weight in weights[:-1])
    print(f"exchanged: weights {shown}, elsewhere {weights[-1]:.2f}, from {len(features):,} captions")


def _print_weights(name: str, features: np.ndarray, is_match: np.ndarray) -> None:
    fitted = LogisticRegression().fit(features, is_match)
    weights = ", ".join(f"{weight:.2f}" for weight in fitted.coef_[0])
    print(f"by {name}: weights {weights}, offset {fitted.intercept_[0]:.2f}, from {len(features):,} pairs")


DISTORTIONS = {
    "as guessed": (1.0, 0.0),
    "far too low": (1.0, 2.0),
    "too certain": (0.5, 0.5),
    "hardly related": (0.3, -1.0),
}
REVIEWERS = 200


def print_verdicts(run: Run) -> None:
    """Print, for guesses of several qualities, how often the interval of a simulated reviewer has the truth."""
    columns = (
        "guesses",
        "misses that match, %",
        "R@1 of the labels",
        "complete",
        "mean estimate",
        "coverage, %",
    )
    table = Table(
        *columns, "half-width", "verdicts for ± 4 points", title=f"{run.name}, {REVIEWERS} reviewers"
    )
    for direction in DIRECTIONS:
        misses = causes.causes_of_run(run, SPLIT, causes.Question(direction))
        way = misses.way
        guesses = np.where(way.copies[:, 0] != 0, 1.0, misses.unlabelled[:, 0]).clip(1e-6, 1 - 1e-6)
        odds = np.log(guesses) - np.log1p(-guesses)
        for name, (slope, offset) in DISTORTIONS.items():
            chance = 1 / (1 + np.exp(-(slope * odds + offset)))
            is_match = np.random.default_rng(5).random(len(chance)) < chance
            truth = 100 * float((~misses.missed | is_match).mean())
            of_query = dict(zip(way.queries.tolist(), is_match.tolist(), strict=True))
            found = []
            for reviewer in range(REVIEWERS):
                drawn = causes.draw_for_verdicts(misses, seed=1000 + reviewer)
                verdicts = np.array([of_query[query] for query in drawn.queries.tolist()], float)
                found.append(causes.recall_with_verdicts(drawn, verdicts))
            matching = 100 * is_match[misses.missed].mean()
            estimate = np.mean([one.recall for one in found])
            covered = 100 * np.mean([one.low <= truth <= one.high for one in found])
            half = np.mean([(one.high - one.low) / 2 for one in found])
            numbers = (matching, found[0].labels, truth, estimate, covered, half)
            needed = f"{np.median([one.needed for one in found]):.0f}"
            table.add_row(
                f"{DIRECTIONS[direction]}, {name}", *(f"{number:.1f}" for number in numbers), needed
            )

    Console(width=170).print(table)


def main(arguments: Sequence[str]) -> int:
    """Print the tables."""
    if len(arguments) < 2:
        print(__doc__)
        return 2
    if arguments[0] == "--seeds":
        print_noise(*(open_run(name) for name in arguments[1:3]))
        return 0
    if arguments[0] == "--fit":
        print_fit(open_run(arguments[1]), Path(arguments[2]))
        print_moved(open_run(arguments[1]), Path(arguments[2]))
        return 0
    if arguments[0] == "--verdicts":
        print_verdicts(open_run(arguments[1]))
        return 0

    as_log = arguments[0] == "--log"
    run, folder, *numbers = arguments[1:] if as_log else arguments
    seeds = [int(number) for number in numbers] or [1, 2, 3]
    if as_log:
        counts, found = log_confusion(open_run(run), Path(folder), seeds)
        print_confusion(counts)
        for number, shares in found.items():
            print(f"of the {number} most suspicious queries, {np.mean(shares):.1f}% were exchanged")
        return 0

    print_confusion(confusion(open_run(run), Path(folder), seeds))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
