"""Words by which captions are sliced: numbers, colours, spatial relations, negations."""

from __future__ import annotations

_NUMBERS = """
two three four five six seven eight nine ten eleven twelve dozen dozens several many few couple pair both half single
double triple multiple numerous another
"""

_COLOURS = """
black white grey gray red blue green yellow orange brown pink purple violet gold golden silver beige tan navy maroon
turquoise teal cream blond blonde brunette khaki crimson scarlet lavender colored coloured colorful colourful
multicolored striped plaid
"""

_SPATIAL = """
above across against along alongside among around atop before behind below beneath beside between beyond bottom front
inside left near next opposite outside over right through top toward towards under underneath upon facing middle edge
corner foreground background
"""

_NEGATIONS = "no not n't without nobody nothing none neither nor never cannot empty missing"

NUMBERS = frozenset(_NUMBERS.split())
"""Number words, besides digits. "one" is left out: it is mostly a pronoun ("one of them")."""
COLOURS = frozenset(_COLOURS.split())
SPATIAL = frozenset(_SPATIAL.split())
NEGATIONS = frozenset(_NEGATIONS.split())
