"""Known causes of misses, injected into Flickr8k's dev split, and the causes that the error budget finds.

    python -m benchmarks.causes RUN FOLDER

RUN was trained on the region features of Flickr8k (f8k_precomp) and is evaluated on its dev split; FOLDER receives a run
of the changed split. Of the 1,000 images, 100 are cut into two overlapping views that share their five captions (each
caption keeps the label of one view: the other is a match whose label was removed), and 50 get a copy under another name
that takes over two of their captions. Of the other captions, 500 are exchanged between images and 500 are replaced by
vague ones. The table has the causes of the misses that these changes explain: rows are the truth, columns what was found.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from coder_core.api import Run, open_run
from coder_core.data.augmentation import cut
from coder_core.data.embeddings import Embeddings
from coder_core.runs.analysis.import_embeddings import import_run

SPLIT = "dev"
TWINS = 100  # images cut into two views
COPIES = 50
EXCHANGED = 500
VAGUE = 500
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
    exchanged, vague_rows = free[:EXCHANGED], free[EXCHANGED : EXCHANGED + VAGUE]
    label[exchanged] = label[np.roll(exchanged, 1)]
    vague = np.zeros(len(captions), bool)
    vague[vague_rows] = True
    texts = list(captions)
    for row in vague_rows.tolist():
        texts[row] = cut(captions[row]) + ENDINGS[random.integers(len(ENDINGS))]
    return Changed(label, shows, twin, copy, vague, texts, names, of_images)


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
