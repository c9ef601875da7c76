"""Changes to the training data: crops and flips that keep captions true, and captions made vague or exchanged.

A crop keeps at least 90% of the picture's area, and a picture is flipped only if its caption names no side. Vague
captions make ambiguity an experimental variable: half of them keep their sentence with coarser nouns ("a poodle in a
pond" → "an animal in a water"); the other half keep a single noun ("an animal"). Both fit many images. Exchanged
captions make the labels wrong, as in data from the web.
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
from PIL import Image

from coder_core.console.faults import InputError
from coder_core.data.words import tokenise

Augment = Literal["none", "crop", "crop-flip"]
SMALLEST_SHARE = 0.9  # of the picture's area that a crop keeps, as in open_clip's training
_SIDED = (
    "left right lefts rights leftmost rightmost lefthand righthand lefthanded righthanded leftward rightward leftwards "
    "rightwards lefty righty clockwise counterclockwise anticlockwise"
)
SIDED = frozenset(_SIDED.split())  # words that become false when the picture is mirrored
# streams of the random numbers that choose captions
VAGUE_STREAM = 9
EXCHANGE_STREAM = 14
EMPTY = "a picture"  # replaces a caption without a known noun
UNCOUNTED = ("people", "animals", "vehicles", "clothes", "water", "things")  # words without an article
_LINES = Path(__file__).with_name("coarse_words.txt").read_text("utf-8").splitlines()
COARSE: dict[str, str] = dict(line.split(": ") for line in _LINES)  # coarse word → the words it replaces
COARSE_OF = {word: coarse for coarse, words in COARSE.items() for word in words.split()}
_WORD = re.compile(r"[\w'-]+")
_ARTICLE = re.compile(r"\b(an?) (?=([\w'-]+))", re.IGNORECASE)


class Change(NamedTuple):
    """A crop and a flip. side: share of width and height that is kept. left, top: offset, as a share of the rest."""

    side: float
    left: float
    top: float
    flip: bool


def draw_changes(kind: Augment, captions: list[str], random: np.random.Generator) -> list[Change]:
    """Draw a change for each of B pictures; a picture whose caption names a side is never flipped. The number of random
    draws does not depend on the captions."""
    draws = random.random((len(captions), 4))
    sides = np.sqrt(SMALLEST_SHARE + (1 - SMALLEST_SHARE) * draws[:, 0])
    crops = np.column_stack([sides, draws[:, 1:3]]).tolist()
    may_flip = (draws[:, 3] < 0.5).tolist() if kind == "crop-flip" else [False] * len(captions)
    flips = [flip and not names_side(caption) for flip, caption in zip(may_flip, captions, strict=True)]
    return [Change(side, left, top, flip) for (side, left, top), flip in zip(crops, flips, strict=True)]


def names_side(caption: str) -> bool:
    """True if a caption contains a word such as left, rightmost or clockwise."""
    return not SIDED.isdisjoint(tokenise(caption))


def change_picture(picture: Image.Image, change: Change) -> Image.Image:
    """Crop a picture, then mirror it if `change.flip` is true."""
    picture = picture.crop(_crop_box(*picture.size, change))
    return picture.transpose(Image.Transpose.FLIP_LEFT_RIGHT) if change.flip else picture


def change_pixels(pixels: np.ndarray, change: Change) -> np.ndarray:
    """Crop and mirror (height, width, 3) pixels as `change_picture` does; the result is a view."""
    height, width, _ = pixels.shape
    left, top, right, bottom = _crop_box(width, height, change)
    pixels = pixels[top:bottom, left:right]
    return pixels[:, ::-1] if change.flip else pixels


def _crop_box(width: int, height: int, change: Change) -> tuple[int, int, int, int]:
    """Return left, top, right and bottom of a crop, in pixels of a picture of this size."""
    cropped_width = max(1, round(change.side * width))
    cropped_height = max(1, round(change.side * height))
    left = round(change.left * (width - cropped_width))
    top = round(change.top * (height - cropped_height))
    return left, top, left + cropped_width, top + cropped_height


def coarsen(caption: str) -> str:
    """Replace every noun on the list by its coarser word; the rest of the sentence stays.

    >>> coarsen("A poodle jumps into a pond .")
    'An animal jumps into a water .'
    """
    coarse = _WORD.sub(lambda word: COARSE_OF.get(word[0].lower(), word[0]), caption)
    return _ARTICLE.sub(lambda article: _with_article(article[1], article[2]), coarse)


def cut(caption: str) -> str:
    """Reduce a caption to the coarser word of its first noun on the list, or to "a picture" if it has none.

    >>> cut("A poodle jumps into a pond .")
    'an animal'
    """
    words = (COARSE_OF.get(word.lower(), word.lower()) for word in _WORD.findall(caption))
    coarse = next((word for word in words if word in COARSE), None)
    if coarse is None:
        return EMPTY
    return coarse if coarse in UNCOUNTED else _with_article("a", coarse) + coarse


def make_vague(captions: Sequence[str], share: float, seed: int) -> list[str]:
    """Copy the m captions and make round(share · m) of them vague; the seed determines which ones and how. A larger
    share includes every vague caption of a smaller one.

    >>> make_vague(["two dogs in a lake", "a boy on a bike"], share=0.5, seed=1)
    ['two animals in a water', 'a boy on a bike']
    """
    order = np.random.default_rng((seed, VAGUE_STREAM)).permutation(len(captions))
    vague = list(captions)
    for position, row in enumerate(order[: round(share * len(captions))]):
        vague[row] = (cut if position % 2 else coarsen)(captions[row])
    return vague


def exchange_captions(image_of_text: np.ndarray, share: float, seed: int) -> np.ndarray:
    """Exchange a share of the captions between images; the seed determines which.

    A larger share includes every caption of a smaller one, with other partners. Returns (m,) int64: for every row, the
    row whose caption it gets, of another image in round(share · m) rows and its own in the rest. InputError: more than
    half of the exchanged captions belong to one image, so one of them would have to stay.

    >>> exchange_captions(np.array([0, 0, 1, 1]), share=0.5, seed=1)
    array([0, 2, 1, 3])
    """
    generator = np.random.default_rng((seed, EXCHANGE_STREAM))
    order = np.arange(len(image_of_text))
    rows = generator.permutation(len(order))[: round(share * len(order))]
    images = image_of_text[rows]
    sources = generator.permutation(len(rows))
    if 2 * np.bincount(images, minlength=1).max() > len(rows) and share > 0:
        fact = f"exchanges {len(rows):,} captions, more than half of which belong to one image"
        fix = "give a larger share"
        raise InputError.at(f"--wrong-captions {share:g}", fact, "captions of several images", fix)
    for position in np.flatnonzero(images == images[sources]):
        if images[position] == images[sources[position]]:  # unless an earlier exchange moved it
            fits = (images != images[position]) & (images[sources] != images[position])
            partner = generator.choice(np.flatnonzero(fits))
            sources[[position, partner]] = sources[[partner, position]]

    order[rows] = rows[sources]
    return order


def _with_article(article: str, word: str) -> str:
    """Return the article that fits a word, in the case of the given one and followed by a space."""
    fitting = "an" if word[0].lower() in "aeiou" else "a"
    return f"{fitting.capitalize() if article[0].isupper() else fitting} "
