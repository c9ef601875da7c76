"""Choose concepts, the most frequent objects, properties and motions. CODER supplement A.2, after CVSE (2020).

The paper prints the ratio of objects, motions and properties as 7:2:1; CVSE ships 210 objects, 60 properties and 30
motions. Objects are nouns, properties adjectives (no adverbs, as in CVSE's list), motions verbs.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from coder_core.console.faults import Fault, InputError
from coder_core.model.concepts.lemmas import STOP_WORDS, Kind, base_form, kind_of_tag

KINDS: tuple[Kind, ...] = ("object", "property", "motion")
SHARES: dict[Kind, int] = {"object": 7, "property": 2, "motion": 1}
LEAST_CAPTIONS = 2  # a concept of a single caption has no co-occurrence to learn from

Source = Literal["textblob", "spacy", "nltk", "list"]
Tagged = Sequence[tuple[str, str]]
Forms = Mapping[str, tuple[str, Kind]]  # form → base form and kind


@dataclass(frozen=True)
class Concept:
    """One concept.

    Args:
        word: its name, the base form.
        kind: "object", "property" or "motion".
        count: train captions that name it in any form.
        forms: its forms in the captions, most frequent first; a form of several words has single spaces.
    """

    word: str
    kind: Kind
    count: int
    forms: tuple[str, ...]


@dataclass(frozen=True)
class ConceptVocabulary:
    """The concepts of a run: objects, then properties, then motions, the most frequent of each first.

    Args:
        concepts: g of them, every word and every form once.
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
        """The numbers of the concepts in a caption's words, single words first, in order, with repeats."""
        return [self.number[form] for form in _phrases(caption, self._longest) if form in self.number]


def choose_concepts(
    captions: Iterable[Tagged], size: int, *, source: Source
) -> tuple[ConceptVocabulary, list[Fault]]:
    """The most frequent concepts of tagged captions, 7 : 2 : 1.

    A word is of its most frequent kind; its forms are one concept under their base form. A base form of several kinds
    ("a walk", "walking") belongs to the kind that names it in most captions. Equal counts: alphabetical.

    Args:
        captions: each a sequence of (word, Penn Treebank tag).
        size: g; fewer, with a warning, where a kind has too few.
        source: the tagger.

    Raises:
        InputError: fewer than two concepts.
    """
    texts = [list(caption) for caption in captions]
    forms = _forms(_majority(texts))
    counts = _count_captions([[word for word, _ in caption] for caption in texts], forms)
    kinds = _kind_of_base(counts)
    wanted = quotas(size)
    chosen: list[Concept] = []
    faults: list[Fault] = []
    for kind in KINDS:
        candidates = [(base, count) for base, count in kinds[kind].items() if count >= LEAST_CAPTIONS]
        best = sorted(candidates, key=lambda pair: (-pair[1], pair[0]))[: wanted[kind]]
        chosen += [Concept(base, kind, count, tuple(counts.forms[base])) for base, count in best]
        if len(best) < wanted[kind]:
            problem = f"the training captions hold {len(best)} of kind {kind}, {wanted[kind]} were asked for"
            fix = "the branch goes on with fewer; give a --concept-list or fewer --concepts"
            faults.append(Fault("--concepts", problem, fix=fix, severity="warning"))
    if len(chosen) < 2:
        fix = "give a --concept-list, or --concepts 0 for no concept branch"
        raise InputError(
            Fault("--concepts", f"found {len(chosen)} in the training captions", "two or more", fix)
        )
    return ConceptVocabulary(tuple(chosen), source), faults


def listed_concepts(
    words: Mapping[Kind, Sequence[str]],
    tokens: Mapping[str, Sequence[str]],
    captions: Sequence[Sequence[str]],
) -> tuple[ConceptVocabulary, list[Fault]]:
    """Concepts from a hand-written list; other forms of a listed word in the captions belong to it too.

    Args:
        words: the words of each kind, in the order of their numbers.
        tokens: every listed word as the words of a caption ("t-shirt" as "t", "shirt").
        captions: the words of every caption.

    Returns:
        The concepts, and a warning about those in no caption.
    """
    listed = {word: " ".join(tokens[word]) for kind in KINDS for word in words.get(kind, ())}
    seen = Counter(word for caption in captions for word in caption)
    forms: dict[str, tuple[str, Kind]] = {}
    for kind in KINDS:
        bases: dict[str, str] = {}
        for word in words.get(kind, ()):
            forms[listed[word]] = (word, kind)
            bases.setdefault(base_form(listed[word], kind, seen), word)
        for other in seen.keys() - set(listed.values()) - forms.keys():
            if (base := base_form(other, kind, seen)) in bases:
                forms[other] = (bases[base], kind)
    counts = _count_captions(captions, forms)
    chosen = [
        Concept(word, kind, counts.of_base[word].total(), tuple(counts.forms[word]) or (listed[word],))
        for kind in KINDS
        for word in words.get(kind, ())
    ]
    absent = [concept.word for concept in chosen if concept.count == 0]
    faults = []
    if absent:
        problem = f"{len(absent)} of {len(chosen)} stand in no training caption: {', '.join(absent[:10])}"
        faults.append(
            Fault("--concept-list", problem, fix="they stay, connected with nothing", severity="warning")
        )
    return ConceptVocabulary(tuple(chosen), "list"), faults


def quotas(size: int) -> dict[Kind, int]:
    """Concepts of each kind, 7 : 2 : 1 of `size`; the remainder are objects."""
    total = sum(SHARES.values())
    properties, motions = size * SHARES["property"] // total, size * SHARES["motion"] // total
    return {"object": size - properties - motions, "property": properties, "motion": motions}


def _majority(captions: Sequence[Tagged]) -> dict[str, tuple[str, int]]:
    """Word → the most frequent tag of its most frequent kind, and its count; without words of no kind."""
    tags: dict[str, Counter[str]] = defaultdict(Counter)
    for caption in captions:
        for word, tag in caption:
            tags[word][tag] += 1
    majority = {}
    for word, counts in tags.items():
        if word in STOP_WORDS or len(word) < 2 or not word.isalpha():
            continue
        kinds: Counter[Kind | None] = Counter()
        for tag, count in counts.items():
            kinds[kind_of_tag(tag)] += count
        kind = max((*KINDS, None), key=lambda kind: kinds[kind])  # the first of equals
        if kind is not None:
            tag = max(sorted(tag for tag in counts if kind_of_tag(tag) == kind), key=lambda tag: counts[tag])
            majority[word] = (tag, counts.total())
    return majority


def _forms(words: Mapping[str, tuple[str, int]]) -> Forms:
    adjectives = {word: count for word, (tag, count) in words.items() if kind_of_tag(tag) == "property"}
    # "shorts" is no form of "short"; but nouns and verbs share their forms ("a ride", "rides", "riding").
    others = {word: count for word, (_, count) in words.items() if word not in adjectives}
    everything = {**adjectives, **others}
    seen: dict[Kind, Mapping[str, int]] = {"object": others, "property": adjectives, "motion": everything}
    forms = {}
    for word, (tag, _) in words.items():
        kind = kind_of_tag(tag)
        assert kind is not None
        base = base_form(word, kind, seen[kind], tag=tag)
        if base not in STOP_WORDS:
            forms[word] = (base, kind)
    return forms


@dataclass(frozen=True)
class _FormCounts:
    of_base: dict[str, Counter[Kind]]  # captions of each base form, by kind
    forms: dict[str, list[str]]  # of each base form, most frequent first


def _count_captions(captions: Sequence[Sequence[str]], forms: Forms) -> _FormCounts:
    of_base: dict[str, Counter[Kind]] = defaultdict(Counter)
    of_form: dict[str, Counter[str]] = defaultdict(Counter)
    longest = max((form.count(" ") + 1 for form in forms), default=1)
    for caption in captions:
        kinds: dict[str, Kind] = {}
        for form in _phrases(caption, longest):
            if form in forms:
                base, kind = forms[form]
                kinds.setdefault(base, kind)
                of_form[base][form] += 1
        for base, kind in kinds.items():
            of_base[base][kind] += 1
    ordered = {
        base: [form for form, _ in sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))]
        for base, counts in of_form.items()
    }
    return _FormCounts(of_base, defaultdict(list, ordered))


def _phrases(caption: Sequence[str], longest: int) -> Iterator[str]:
    """The words of a caption, then its pairs of words, up to `longest` words."""
    yield from caption
    for length in range(2, longest + 1):
        for start in range(len(caption) - length + 1):
            yield " ".join(caption[start : start + length])


def _kind_of_base(counts: _FormCounts) -> dict[Kind, dict[str, int]]:
    """Kind → its base forms with the captions that name them under any kind."""
    bases: dict[Kind, dict[str, int]] = {kind: {} for kind in KINDS}
    for base, kinds in counts.of_base.items():
        bases[max(KINDS, key=lambda kind: kinds[kind])][base] = kinds.total()
    return bases
