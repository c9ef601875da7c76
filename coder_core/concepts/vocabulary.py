"""Captions → concepts: the most frequent objects, properties and motions. CODER supplement A.2, after CVSE (2020).

The paper prints the ratio of objects, motions and properties as 7:2:1; CVSE ships 210 objects, 60 properties and 30
motions. Objects are nouns, properties adjectives (no adverbs, as in CVSE's list), motions verbs.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from coder_core.concepts.lemmas import Kind, base_form, kind_of_tag
from coder_core.concepts.stop_words import STOP_WORDS
from coder_core.console.faults import Fault, InputError

KINDS: tuple[Kind, ...] = ("object", "property", "motion")
SHARES: dict[Kind, int] = {"object": 7, "property": 2, "motion": 1}
LEAST_CAPTIONS = 2  # a concept of a single caption stands together with nothing twice

Source = Literal["textblob", "spacy", "nltk", "list"]
Tagged = Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Concept:
    """One concept.

    Args:
        word: its name, the base form.
        kind: "object", "property" or "motion".
        count: train captions that hold it in any form.
        forms: the forms that captions hold, most frequent first; a form of several words holds single spaces.
    """

    word: str
    kind: Kind
    count: int
    forms: tuple[str, ...]


@dataclass(frozen=True)
class ConceptVocabulary:
    """The concepts of a run: objects, then properties, then motions, the most frequent of each first.

    Args:
        concepts: g of them, no word twice, no form twice.
        source: the tagger, or "list".
    """

    concepts: tuple[Concept, ...]
    source: Source
    number: dict[str, int] = field(init=False, repr=False, compare=False)
    _longest: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        number = {form: index for index, concept in enumerate(self.concepts) for form in concept.forms}
        object.__setattr__(self, "number", number)
        object.__setattr__(self, "_longest", max((form.count(" ") + 1 for form in number), default=1))

    def __len__(self) -> int:
        return len(self.concepts)

    @property
    def words(self) -> list[str]:
        """The g names."""
        return [concept.word for concept in self.concepts]

    @property
    def kinds(self) -> list[Kind]:
        """The g kinds."""
        return [concept.kind for concept in self.concepts]

    def read(self, caption: Sequence[str]) -> list[int]:
        """The numbers of the concepts that a caption's words name, in order, with repeats."""
        number = self.number
        found = [number[word] for word in caption if word in number]
        for length in range(2, self._longest + 1):
            parts = (" ".join(caption[start : start + length]) for start in range(len(caption) - length + 1))
            found += [number[part] for part in parts if part in number]
        return found


def choose_concepts(captions: Iterable[Tagged], size: int, *, source: Source) -> tuple[ConceptVocabulary, list[Fault]]:
    """The most frequent concepts of tagged captions, 7 : 2 : 1.

    A word is of the kind it has most often; its forms are one concept under their base form. A base form found under
    several kinds ("a walk", "walking") belongs to the kind that names it in most captions. Equal counts: alphabetical.

    Args:
        captions: each a sequence of (word, Penn Treebank tag).
        size: g wanted; where a kind has too few, there are fewer, with a warning.
        source: the tagger.

    Raises:
        InputError: fewer than two concepts.
    """
    texts = [list(caption) for caption in captions]
    forms = _forms(_majority(texts))
    counts = _captions_holding([[word for word, _ in caption] for caption in texts], forms)
    kinds = _kind_of_base(counts)
    wanted = quotas(size)
    chosen: list[Concept] = []
    faults: list[Fault] = []
    for kind in KINDS:
        candidates = [(base, count) for base, count in kinds[kind].items() if count >= LEAST_CAPTIONS]
        best = sorted(candidates, key=lambda pair: (-pair[1], pair[0]))[: wanted[kind]]
        chosen += [Concept(base, kind, count, tuple(counts.forms[base])) for base, count in best]
        if len(best) < wanted[kind]:
            found = f"the training captions hold {len(best)} of kind {kind}, {wanted[kind]} were asked for"
            fix = "the branch goes on with fewer; give a --concept-list or fewer --concepts"
            faults.append(Fault("--concepts", found, fix=fix, severity="warning"))
    if len(chosen) < 2:
        fix = "give a --concept-list, or --concepts 0 for no concept branch"
        raise InputError(Fault("--concepts", f"found {len(chosen)} in the training captions", "two or more", fix))
    return ConceptVocabulary(tuple(chosen), source), faults


def listed_concepts(
    words: Mapping[Kind, Sequence[str]], tokens: Mapping[str, Sequence[str]], captions: Sequence[Sequence[str]]
) -> tuple[ConceptVocabulary, list[Fault]]:
    """Concepts somebody wrote down; other forms of a listed word that stand in the captions count as well.

    Args:
        words: the words of each kind, in the order they get their numbers.
        tokens: every listed word as the words of a caption ("t-shirt" as "t", "shirt").
        captions: the words of every caption.

    Returns:
        The concepts and warnings about those that no caption holds.
    """
    listed = {" ".join(tokens[word]) for kind in KINDS for word in words.get(kind, ())}
    seen = Counter(word for caption in captions for word in caption)
    forms: dict[str, tuple[str, Kind]] = {}
    for kind in KINDS:
        bases: dict[str, str] = {}
        for word in words.get(kind, ()):
            joined = " ".join(tokens[word])
            forms[joined] = (word, kind)
            bases.setdefault(base_form(joined, kind, seen), word)
        for other in seen:
            if other not in listed and other not in forms and (base := base_form(other, kind, seen)) in bases:
                forms[other] = (bases[base], kind)
    counts = _captions_holding(captions, {form: (word, kind) for form, (word, kind) in forms.items()})
    chosen = []
    for kind in KINDS:
        for word in words.get(kind, ()):
            count = counts.of_base[word].total()
            chosen.append(Concept(word, kind, count, tuple(counts.forms[word]) or (" ".join(tokens[word]),)))
    absent = [concept.word for concept in chosen if concept.count == 0]
    faults = []
    if absent:
        found = f"{len(absent)} of {len(chosen)} stand in no training caption: {', '.join(absent[:10])}"
        faults.append(Fault("--concept-list", found, fix="they stay, connected with nothing", severity="warning"))
    return ConceptVocabulary(tuple(chosen), "list"), faults


def quotas(size: int) -> dict[Kind, int]:
    """How many of each kind: 7 : 2 : 1 of `size`, what is left over goes to the objects."""
    total = sum(SHARES.values())
    properties, motions = size * SHARES["property"] // total, size * SHARES["motion"] // total
    return {"object": size - properties - motions, "property": properties, "motion": motions}


def _majority(captions: Sequence[Tagged]) -> dict[str, tuple[str, int]]:
    """Every word with the most frequent tag of its most frequent kind, and its count; words of no kind are left out."""
    tags: dict[str, Counter[str]] = defaultdict(Counter)
    for caption in captions:
        for word, tag in caption:
            tags[word][tag] += 1
    found = {}
    for word, seen in tags.items():
        if word in STOP_WORDS or len(word) < 2 or not word.isalpha():
            continue
        kinds: Counter[Kind | None] = Counter()
        for tag, count in seen.items():
            kinds[kind_of_tag(tag)] += count
        kind = max((*KINDS, None), key=lambda kind: kinds[kind])  # the first of equals
        if kind is not None:
            tag = max(sorted(tag for tag in seen if kind_of_tag(tag) == kind), key=lambda tag: seen[tag])
            found[word] = (tag, seen.total())
    return found


def _forms(words: Mapping[str, tuple[str, int]]) -> dict[str, tuple[str, Kind]]:
    """Word → its base form and kind."""
    adjectives = {word: count for word, (tag, count) in words.items() if kind_of_tag(tag) == "property"}
    # "shorts" is no form of "short"; but nouns and verbs share their forms ("a ride", "rides", "riding").
    others = {word: count for word, (_, count) in words.items() if word not in adjectives}
    everything = {**adjectives, **others}
    seen: dict[Kind, Mapping[str, int]] = {"object": others, "property": adjectives, "motion": everything}
    found = {}
    for word, (tag, _) in words.items():
        kind = kind_of_tag(tag)
        assert kind is not None
        base = base_form(word, kind, seen[kind], tag=tag)
        if base not in STOP_WORDS:
            found[word] = (base, kind)
    return found


@dataclass(frozen=True)
class _Counts:
    of_base: dict[str, Counter[Kind]]  # captions that name a base form, under each kind
    forms: dict[str, list[str]]  # of each base form, most frequent first


def _captions_holding(captions: Sequence[Sequence[str]], forms: Mapping[str, tuple[str, Kind]]) -> _Counts:
    of_base: dict[str, Counter[Kind]] = defaultdict(Counter)
    of_form: dict[str, Counter[str]] = defaultdict(Counter)
    longest = max((form.count(" ") + 1 for form in forms), default=1)
    for caption in captions:
        named: dict[str, Kind] = {}
        for length in range(1, longest + 1):
            for start in range(len(caption) - length + 1):
                form = caption[start] if length == 1 else " ".join(caption[start : start + length])
                if form in forms:
                    base, kind = forms[form]
                    named.setdefault(base, kind)
                    of_form[base][form] += 1
        for base, kind in named.items():
            of_base[base][kind] += 1
    ordered = {
        base: [form for form, _ in sorted(found.items(), key=lambda pair: (-pair[1], pair[0]))]
        for base, found in of_form.items()
    }
    return _Counts(of_base, defaultdict(list, ordered))


def _kind_of_base(counts: _Counts) -> dict[Kind, dict[str, int]]:
    """Kind → base forms with the captions that hold them under any kind."""
    found: dict[Kind, dict[str, int]] = {kind: {} for kind in KINDS}
    for base, seen in counts.of_base.items():
        found[max(KINDS, key=lambda kind: seen[kind])][base] = seen.total()
    return found
