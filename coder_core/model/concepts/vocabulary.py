"""Choose concepts, the most frequent objects, properties and motions. CODER supplement A.2, after CVSE (2020).

The paper prints the ratio of objects, motions and properties as 7:2:1; CVSE ships 210 objects, 60 properties and 30
motions. Objects are nouns, properties adjectives (no adverbs, as in CVSE's list), motions verbs.
"""

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
    """A concept, named by its base form."""

    word: str
    kind: Kind
    count: int  # train captions that name it in any form
    forms: tuple[str, ...]
    """Its forms in the captions, most frequent first; a form of several words has single spaces."""


@dataclass(frozen=True)
class ConceptVocabulary:
    """The g concepts of a run: objects, then properties, then motions, the most frequent of each first. Every word and
    every form occurs once; `source` is the tagger, or "list"."""

    concepts: tuple[Concept, ...]
    source: Source
    number: dict[str, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        number = {form: index for index, concept in enumerate(self.concepts) for form in concept.forms}
        object.__setattr__(self, "number", number)

    def __len__(self) -> int:
        return len(self.concepts)

    @property
    def words(self) -> list[str]:
        """Base forms of the g concepts."""
        return [concept.word for concept in self.concepts]

    def read(self, captions: Iterable[Sequence[str]]) -> list[list[int]]:
        """Return the concept numbers of each caption with repeats: those of single words in order, then of phrases."""
        number = self.number
        longest = _longest(self.number)
        phrases = (_phrases(caption, longest) for caption in captions)
        return [[number[form] for form in of_caption if form in number] for of_caption in phrases]


def choose_concepts(
    captions: Iterable[Tagged], size: int, *, source: Source
) -> tuple[ConceptVocabulary, list[Fault]]:
    """Choose the `size` most frequent concepts of captions tagged by `source`, 7 : 2 : 1; warn if a kind has too few.

    A word has its most frequent kind; forms with the same base form are one concept. A base form with several kinds
    ("a walk", "walking") gets the kind with the most captions. Equal counts are ordered alphabetically. InputError:
    fewer than two concepts.
    """
    texts = [list(caption) for caption in captions]
    kinds, forms = _count([[word for word, _ in text] for text in texts], _forms(_majority(texts)))
    of_kind: dict[Kind, list[Concept]] = {kind: [] for kind in KINDS}
    for base, counts in kinds.items():
        kind = max(KINDS, key=lambda kind: counts[kind])
        of_kind[kind].append(Concept(base, kind, counts.total(), forms[base]))
    concepts: list[Concept] = []
    faults: list[Fault] = []
    for kind, quota in quotas(size).items():
        frequent = [concept for concept in of_kind[kind] if concept.count >= LEAST_CAPTIONS]
        best = sorted(frequent, key=lambda concept: (-concept.count, concept.word))[:quota]
        concepts += best
        if len(best) < quota:
            found = f"found only {len(best)} of {quota} {kind} concepts in the training captions"
            problem = f"{found}; training continues with those {len(best)}"
            fix = "lower --concepts, or pass --concept-list"
            faults.append(Fault("--concepts", problem, fix=fix, severity="warning"))
    if len(concepts) < 2:
        problem = f"found {len(concepts)} in the training captions"
        fix = "give a --concept-list, or --concepts 0 for no concept branch"
        raise InputError.at("--concepts", problem, "two or more", fix)
    return ConceptVocabulary(tuple(concepts), source), faults


def listed_concepts(
    words: Mapping[Kind, Sequence[str]],
    tokens: Mapping[str, Sequence[str]],
    captions: Sequence[Sequence[str]],
) -> tuple[ConceptVocabulary, list[Fault]]:
    """Build concepts from a hand-written list, in its order; other forms of a listed word in the captions count as that
    concept. `tokens`: each listed word as it is tokenised in captions ("t-shirt" as "t", "shirt"). Return the concepts
    and a warning about those in no caption."""
    phrase = {word: " ".join(tokens[word]) for kind in KINDS for word in words.get(kind, ())}
    seen = Counter(word for caption in captions for word in caption)
    owner: dict[str, tuple[str, Kind]] = {}
    for kind in KINDS:
        bases: dict[str, str] = {}
        for word in words.get(kind, ()):
            owner[phrase[word]] = (word, kind)
            bases.setdefault(base_form(phrase[word], kind, seen), word)
        for form in seen.keys() - set(phrase.values()) - owner.keys():
            if (base := base_form(form, kind, seen)) in bases:
                owner[form] = (bases[base], kind)
    kinds, forms = _count(captions, owner)
    concepts = [
        Concept(word, kind, kinds[word].total(), forms.get(word, (phrase[word],)))
        for kind in KINDS
        for word in words.get(kind, ())
    ]
    absent = [concept.word for concept in concepts if concept.count == 0]
    faults = []
    if absent:
        problem = f"{len(absent)} of {len(concepts)} are in no training caption: {', '.join(absent[:10])}"
        fix = "they are kept, but are connected to no other concept"
        faults.append(Fault("--concept-list", problem, fix=fix, severity="warning"))
    return ConceptVocabulary(tuple(concepts), "list"), faults


def quotas(size: int) -> dict[Kind, int]:
    """Return the number of concepts of each kind, 7 : 2 : 1 of `size`; the remainder are objects."""
    counts = {kind: size * share // sum(SHARES.values()) for kind, share in SHARES.items()}
    return counts | {"object": size - counts["property"] - counts["motion"]}


def _majority(captions: Sequence[Tagged]) -> dict[str, tuple[str, Kind, int]]:
    """Map each word to the most frequent tag of its most frequent kind, that kind, and its count; skip other words."""
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
            majority[word] = (tag, kind, counts.total())
    return majority


def _forms(words: Mapping[str, tuple[str, Kind, int]]) -> Forms:
    adjectives = {word: count for word, (_, kind, count) in words.items() if kind == "property"}
    # "shorts" is not a form of "short"; but nouns and verbs share their forms ("a ride", "rides", "riding").
    nouns_and_verbs = {word: count for word, (_, kind, count) in words.items() if kind != "property"}
    seen = {"object": nouns_and_verbs, "property": adjectives, "motion": adjectives | nouns_and_verbs}
    forms = {}
    for word, (tag, kind, _) in words.items():
        base = base_form(word, kind, seen[kind], tag=tag)
        if base not in STOP_WORDS:
            forms[word] = (base, kind)
    return forms


def _count(
    captions: Sequence[Sequence[str]], forms: Forms
) -> tuple[dict[str, Counter[Kind]], dict[str, tuple[str, ...]]]:
    """Return base form → captions that name it, by kind, and base form → its forms in them, most frequent first."""
    of_base: dict[str, Counter[Kind]] = defaultdict(Counter)
    of_form: dict[str, Counter[str]] = defaultdict(Counter)
    longest = _longest(forms)
    for caption in captions:
        kinds: dict[str, Kind] = {}
        for form in _phrases(caption, longest):
            if form in forms:
                base, kind = forms[form]
                kinds.setdefault(base, kind)
                of_form[base][form] += 1
        for base, kind in kinds.items():
            of_base[base][kind] += 1
    ranked = (
        (base, sorted(counts.items(), key=lambda item: (-item[1], item[0])))
        for base, counts in of_form.items()
    )
    return of_base, {base: tuple(form for form, _ in counts) for base, counts in ranked}


def _longest(forms: Iterable[str]) -> int:
    """Return the number of words in the longest form."""
    return max((form.count(" ") + 1 for form in forms), default=1)


def _phrases(caption: Sequence[str], longest: int) -> Iterator[str]:
    """Yield the words of a caption, then its phrases of two to `longest` words."""
    yield from caption
    for length in range(2, longest + 1):
        for start in range(len(caption) - length + 1):
            yield " ".join(caption[start : start + length])
