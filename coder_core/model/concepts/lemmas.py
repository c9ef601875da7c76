"""Reduce words to base forms, "dogs" to "dog" and "riding" to "ride", by spelling rules checked against the captions.

If a rule gives several candidates ("rid" or "ride"?), the most frequent one in the captions is used. A library does
worse: on Flickr8k's 30,000 train captions simplemma 2.0 replaces 18 of the 400 concepts. It turns "playing" (1,483
captions) into "playe" and does not reduce "sitting" (1,013) to "sit", two of the most frequent motions. It ignores parts
of speech and the captions, so it invents "sunglass" and "stripe". Both take about a second."""

from collections.abc import Mapping
from pathlib import Path
from typing import Literal

Kind = Literal["object", "property", "motion"]

# share of a plural's count that its singular must reach: a stray "pant" is not the singular of "pants"
LEAST_SINGULAR = 0.05
VOWELS = "aeiou"


def _irregular(kind: str) -> dict[str, str]:
    """Read form → base form from a file whose lines have a base form, followed by its irregular forms."""
    lines = (Path(__file__).parent / f"{kind}.txt").read_text("utf-8").splitlines()
    return {form: base for base, *forms in map(str.split, lines) for form in forms}


IRREGULAR_NOUNS = _irregular("nouns")
IRREGULAR_VERBS = _irregular("verbs")
STOP_WORDS = frozenset(Path(__file__).with_name("stop_words.txt").read_text("utf-8").split())


def kind_of_tag(tag: str) -> Kind | None:
    """Return the kind of concept of a Penn Treebank tag: noun, adjective or verb; None for other tags."""
    if tag.startswith("NN"):
        return "object"
    if tag.startswith("JJ"):
        return "property"
    return "motion" if tag.startswith("VB") else None


def base_form(word: str, kind: Kind, seen: Mapping[str, int], *, tag: str = "") -> str:
    """Return the base form of a word in lower case. `seen`: counts in the captions of all possible base forms; that of a
    noun or adjective must be among them. `tag`: Penn Treebank tag; "" guesses from the ending."""
    if kind == "object":
        return _action(word, seen) if word.endswith("ing") else _singular(word, seen)
    if kind == "property":
        return _positive(word, seen) if tag in ("", "JJR", "JJS") else word
    return _infinitive(word, seen) if tag not in ("VB", "VBP") else word


def _action(word: str, seen: Mapping[str, int]) -> str:
    """Reduce a noun in -ing to its verb if the captions have that too: "skiing" to "ski", but not "building"."""
    base = _infinitive(word, seen)
    return base if seen.get(base, 0) >= LEAST_SINGULAR * seen.get(word, 0) > 0 else word


def _singular(word: str, seen: Mapping[str, int]) -> str:
    if word in IRREGULAR_NOUNS:
        return IRREGULAR_NOUNS[word]
    if not word.endswith("s") or word.endswith(("ss", "us", "is")) or len(word) < 4:
        return word
    endings = (("s", ""), ("es", ""), ("ies", "y"), ("ves", "f"), ("ves", "fe"))
    bases = [word.removesuffix(plural) + singular for plural, singular in endings if word.endswith(plural)]
    best = _most_seen(bases, seen)
    return best if best and seen[best] >= LEAST_SINGULAR * seen.get(word, 0) else word


def _positive(word: str, seen: Mapping[str, int]) -> str:
    for ending in ("est", "er"):
        stem = word.removesuffix(ending)
        if stem != word and len(stem) > 2:
            candidates = [stem, stem + "e"]
            if stem.endswith("i"):
                candidates.append(stem[:-1] + "y")
            if stem[-1] == stem[-2]:
                candidates.append(stem[:-1])
            return _most_seen(candidates, seen) or word
    return word


def _infinitive(word: str, seen: Mapping[str, int]) -> str:
    if word in IRREGULAR_VERBS:
        return IRREGULAR_VERBS[word]
    for ending in ("ing", "ied", "ed", "ies", "es", "s"):
        stem = word.removesuffix(ending)
        if stem == word or len(stem) < 2 or not any(letter in VOWELS + "y" for letter in stem):
            continue
        if ending in ("ied", "ies"):
            return stem + "y"
        if ending == "s":
            return stem if not stem.endswith(("s", "u", "i")) else word
        if ending == "es":
            hissing = stem.endswith(("s", "sh", "ch", "x", "z", "o"))
            return _most_seen([stem, stem + "e"], seen) or (stem if hissing else stem + "e")
        doubled = len(stem) > 2 and stem[-1] == stem[-2] and stem[-1] not in VOWELS
        return _most_seen([stem, stem + "e"] + [stem[:-1]] * doubled, seen) or _guess(stem, doubled)
    return word


def _guess(stem: str, doubled: bool) -> str:
    """Return the infinitive of a stem not in the captions, after Porter 1980, step 1b: "runn" → run, "danc" → dance."""
    third_last = stem[-3:-2]
    after_consonant = third_last and third_last not in VOWELS
    if doubled:
        return stem if stem[-1] in "lsz" else stem[:-1]
    syllabic_l = stem[-1] == "l" and stem[-2] in "bcdfgkpstz"
    if stem[-1] in "cvu" or stem.endswith(("dg", "rg", "iz")) or syllabic_l:
        return stem + "e"
    if stem.endswith("at") and after_consonant:
        return stem + "e"
    syllables = sum(a not in VOWELS and b in VOWELS for a, b in zip(" " + stem, stem, strict=False))
    closed = stem[-2] in VOWELS and stem[-1] not in VOWELS + "wxy" and after_consonant
    return stem + "e" if syllables == 1 and closed else stem


def _most_seen(candidates: list[str], seen: Mapping[str, int]) -> str | None:
    best = max(candidates, key=lambda word: seen.get(word, 0))
    return best if seen.get(best, 0) else None
