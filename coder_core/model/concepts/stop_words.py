"""Nouns, adjectives and verbs that describe no picture and so are no concepts."""

from __future__ import annotations

_WORDS = """
be am is are was were been being do does did doing done have has had having can could will would shall should may
might must let lets seem seems appear appears
thing things something anything nothing everything someone somebody anyone anybody everyone everybody nobody one
ones other others another each every all both either neither none any some several many much more most few fewer
less least lot lots couple kind kinds sort type types piece pieces number bunch pair
such same own various different certain next last only first second third very way ways while whilst past able
who what which whom whose that this these those there here where when why how
i you he she it we they me him her us them his hers its our their theirs my mine your yours himself herself itself
themselves myself yourself ourselves
a an the and or but if as of at by for with about against between into through during before after above below to
from up down in out on off over under again further then once so than too not no nor just also
"""

STOP_WORDS = frozenset(_WORDS.split())
