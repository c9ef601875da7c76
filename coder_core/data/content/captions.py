"""Content words of a caption: those that describe something."""

from __future__ import annotations

import re
import unicodedata

WORD = re.compile(r"\w+(?:['’-]\w+)*")
ARTICLES = frozenset({"a", "an", "the"})
SAYS_LITTLE = 1
"""Content words up to which a caption says little."""

_EMPTY = """
a an the this that these those there here it its he she they them his her their him i you we us our your my
who which what whose where when while and or but nor so as than then if not no also
is are was were be been being am do does did has have had having can could will would may might shall should must
of in on at by for with from to into onto up down out off over under near next about around against between through
during before after above below behind beside beneath across along upon within without toward towards inside outside
some any many much more most few several other another each every all both such same own one ones very too just only
picture pictures photo photos photograph photographs image images shot view scene something someone somebody anything
thing things stuff kind sort type lot lots showing shows show shown seen see look looks looking appears seems various
"""
EMPTY_WORDS = frozenset(_EMPTY.split())
"""English function words, and nouns and verbs that describe no picture."""


def plain_words(caption: str) -> list[str]:
    """The words without case and punctuation, in Unicode's compatible form.

    >>> plain_words("A DOG’s ball, on the grass.")
    ['a', "dog's", 'ball', 'on', 'the', 'grass']
    """
    return WORD.findall(unicodedata.normalize("NFKC", caption).casefold().replace("’", "'"))


def content_words(caption: str) -> int:
    """Count the words that describe something: those not in `EMPTY_WORDS`.

    >>> content_words("There is something in this picture .")
    0
    >>> content_words("a red ball on the grass")
    3
    """
    return sum(word not in EMPTY_WORDS for word in plain_words(caption))
