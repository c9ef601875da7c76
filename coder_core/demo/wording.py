"""The words of the demo captions. The first entry of a row is the common word, the others its synonyms."""

from __future__ import annotations

SHAPES = {
    "circle": ("circle", "disc"),
    "square": ("square", "box"),
    "triangle": ("triangle",),
    "star": ("star",),
    "ring": ("ring", "hoop"),
    "heart": ("heart",),
    "diamond": ("diamond", "rhombus"),
    "hexagon": ("hexagon",),
    "cross": ("cross", "plus sign"),
    "flower": ("flower", "blossom"),
    "moon": ("moon", "crescent"),
}
COLOURS = {
    "red": ("red",),
    "orange": ("orange",),
    "yellow": ("yellow",),
    "green": ("green",),
    "blue": ("blue",),
    "purple": ("purple", "violet"),
    "pink": ("pink",),
    "white": ("white",),
}
TEXTURES = {
    "striped": ("striped", "stripy"),
    "dotted": ("dotted", "spotted"),
    "checkered": ("checkered", "checked"),
}
TEXTURES_AFTER = {
    "striped": "with stripes",
    "dotted": "with dots",
    "checkered": "with a checkerboard pattern",
}
SIZES = {"small": ("small", "little", "tiny"), "large": ("large", "big")}
RELATIONS = {
    "left": ("left of", "to the left of"),
    "right": ("right of", "to the right of"),
    "above": ("above", "over"),
    "below": ("below", "under"),
    "near": ("next to", "close to", "beside"),
}
PLACES = {
    "top left": ("in the top left corner", "at the upper left"),
    "top right": ("in the top right corner", "at the upper right"),
    "bottom left": ("in the bottom left corner", "at the lower left"),
    "bottom right": ("in the bottom right corner", "at the lower right"),
    "middle": ("in the middle", "at the centre"),
}
GROUNDS = {
    "sky": ("in a blue sky", "in the sky", "against the clouds"),
    "sunset": ("at sunset", "in the evening light", "over the hills at dusk"),
    "grass": ("on grass", "on a green meadow", "on the lawn"),
    "sand": ("on sand", "on the beach", "in the desert"),
    "night": ("at night", "in a starry night", "among the stars of the night"),
    "paper": ("on paper", "on a sheet of squared paper", "on a notebook page"),
    "water": ("on water", "in the sea", "in a pool"),
    "wood": ("on wood", "on a wooden table", "on wooden boards"),
    "snow": ("on snow", "in the snow", "on a snowy field"),
}
NUMBERS = {2: "two", 3: "three", 4: "four", 5: "five"}
ANY_ONE = ("shape", "thing", "object")
ANY_MANY = ("shapes", "things", "objects")

# True of every picture: each holds two or more things on a ground.
VAGUE = (
    "a few objects on a background",
    "things here and there",
    "a picture of some simple shapes",
    "some shapes on a background",
    "shapes lying about in a picture",
    "simple figures on a simple background",
    "things in front of a background",
    "an arrangement of shapes",
    "some objects scattered around",
    "things of some shape and colour",
)
EMPTY = (
    "some shapes",
    "a picture with things in it",
    "some things",
    "a picture",
    "an image of something",
    "there are some objects",
    "shapes in a picture",
    "a few things",
    "an image with some shapes",
    "something to look at",
)


def with_article(words: str) -> str:
    """ "an orange star", "a star"."""
    return f"{'an' if words[0] in 'aeiou' else 'a'} {words}"


def plural(word: str) -> str:
    """ "two crosses", "two boxes", "two rhombuses", "two plus signs"."""
    return word + ("es" if word.endswith(("s", "x")) else "s")
