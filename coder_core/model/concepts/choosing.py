"""Choose the concepts of a run from its captions: the most frequent objects, properties and motions. CODER supplement
A.2, after CVSE (2020).

1. Tag every word with its part of speech (Penn Treebank), offline. textblob's package contains its model; spaCy and NLTK
   need theirs installed. Nothing is downloaded.
2. Reduce words to base forms, "dogs" to "dog" and "riding" to "ride", by spelling rules checked against the captions. If
   a rule gives several candidates ("rid" or "ride"?), the most frequent one in the captions is used. A library does
   worse: on Flickr8k's 30,000 train captions simplemma 2.0 replaces 18 of the 400 concepts. It turns "playing" (1,483
   captions) into "playe" and does not reduce "sitting" (1,013) to "sit", two of the most frequent motions. It ignores
   parts of speech and the captions, so it invents "sunglass" and "stripe". Both take about a second.
3. Count base forms and choose the most frequent. The paper prints the ratio of objects, motions and properties as 7:2:1;
   CVSE ships 210 objects, 60 properties and 30 motions. Objects are nouns, properties adjectives (no adverbs, as in
   CVSE's list), motions verbs.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from coder_core.console.faults import Fault, InputError
from coder_core.console.output import Progress, silent

Tagger = Literal["textblob", "spacy", "nltk"]
Captions = Sequence[Sequence[str]]
TagWords = Callable[[Captions], list[list[str]]]  # captions → a tag for every word
SPACY_MODEL = "en_core_web_sm"
CAPTIONS_AT_ONCE = 1000
DETERMINERS = frozenset({"DT", "PRP$"})
PAST = frozenset({"VBD", "VBN"})

Kind = Literal["object", "property", "motion"]
# share of a plural's count that its singular must reach: a stray "pant" is not the singular of "pants"
LEAST_SINGULAR = 0.05
VOWELS = "aeiou"
KINDS: tuple[Kind, ...] = ("object", "property", "motion")
SHARES: dict[Kind, int] = {"object": 7, "property": 2, "motion": 1}
LEAST_CAPTIONS = 2  # a concept of a single caption has no co-occurrence to learn from
Source = Literal["textblob", "spacy", "nltk", "list"]
Tagged = Sequence[tuple[str, str]]
Forms = Mapping[str, tuple[str, Kind]]  # form → base form and kind


def tag_captions(
    captions: Captions, tagger: Tagger = "textblob", *, progress: Progress = silent
) -> Iterator[list[tuple[str, str]]]:
    """Yield each caption's (word, tag) pairs; `captions` are lower-case words. InputError: the library or its model is
    not installed; the message has the command that installs it."""
    tag = TAGGERS[tagger]()
    for start in range(0, len(captions), CAPTIONS_AT_ONCE):
        part = captions[start : start + CAPTIONS_AT_ONCE]
        for words, tags in zip(part, tag(part), strict=True):
            yield list(zip(words, in_context(words, tags), strict=True))
        progress(min(start + CAPTIONS_AT_ONCE, len(captions)), len(captions))


def in_context(words: Sequence[str], tags: Sequence[str]) -> list[str]:
    """Correct three lexicon mistakes: verb tags in "a spotted dog", "a red blossom on …" and "left of a dog"."""
    corrected = list(tags)
    for i, (word, tag) in enumerate(zip(words, tags, strict=True)):
        before = corrected[i - 1] if i else ""
        after = tags[i + 1] if i + 1 < len(tags) else ""
        described = before in DETERMINERS or (before == "JJ" and bool(DETERMINERS & {*corrected[:i]}))
        if word == "left" and tag in PAST:
            corrected[i] = tag if after in DETERMINERS else "NN"
        elif tag in PAST and (described or before in ("CD", "JJ")) and after[:2] in ("NN", "JJ", "VB"):
            corrected[i] = "JJ"
        elif tag == "VB" and described and after in ("", "IN", "CC"):
            corrected[i] = "NN"
    return corrected


def _textblob() -> TagWords:
    from textblob.en.taggers import PatternTagger

    tagger = PatternTagger()

    def tag(captions: Captions) -> list[list[str]]:
        tagged = (tagger.tag(" ".join(words), tokenize=False) if words else [] for words in captions)
        return [[tag for _, tag in caption] for caption in tagged]

    return tag


def _nltk() -> TagWords:
    with _installed("nltk", "NLTK", "python -m pip install nltk"):
        import nltk
    with _installed(
        "nltk", "NLTK's tagging model", "python -m nltk.downloader averaged_perceptron_tagger_eng"
    ):
        nltk.pos_tag(["dog"])

    def tag(captions: Captions) -> list[list[str]]:
        tagged = nltk.pos_tag_sents([list(words) for words in captions])
        return [[tag for _, tag in caption] for caption in tagged]

    return tag


def _spacy() -> TagWords:
    with _installed("spacy", "spaCy", "python -m pip install spacy"):
        import spacy
        from spacy.tokens import Doc
    with _installed("spacy", f"spaCy's model {SPACY_MODEL}", f"python -m spacy download {SPACY_MODEL}"):
        language: Any = spacy.load(SPACY_MODEL, exclude=["parser", "ner", "lemmatizer"])

    def tag(captions: Captions) -> list[list[str]]:
        documents = (Doc(language.vocab, words=list(words)) for words in captions)
        return [[token.tag_ for token in doc] for doc in language.pipe(documents, batch_size=256)]

    return tag


TAGGERS: dict[Tagger, Callable[[], TagWords]] = {"textblob": _textblob, "spacy": _spacy, "nltk": _nltk}


@contextmanager
def _installed(tagger: str, part: str, command: str) -> Iterator[None]:
    """Turn the failure to load a library or its model into an InputError with the command that installs it."""
    try:
        yield
    except (ImportError, LookupError, OSError):
        fix = f"{command}, or use --concept-tagger textblob"
        place = f"--concept-tagger {tagger}"
        raise InputError.at(place, f"{part} is not installed", "an installed tagger", fix) from None


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
