"""Tag the words of captions with their parts of speech (Penn Treebank), offline.

textblob's package contains its model. spaCy and NLTK need theirs installed; nothing is downloaded.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal

from coder_core.console.faults import InputError
from coder_core.console.progress import Progress, silent

Tagger = Literal["textblob", "spacy", "nltk"]
Captions = Sequence[Sequence[str]]
SPACY_MODEL = "en_core_web_sm"
CAPTIONS_AT_ONCE = 1000
DETERMINERS = frozenset({"DT", "PRP$"})
PAST = frozenset({"VBD", "VBN"})


def tag_captions(
    captions: Captions, tagger: Tagger = "textblob", *, progress: Progress = silent
) -> Iterator[list[tuple[str, str]]]:
    """Yield each caption's (word, tag) pairs; `captions` are lower-case words. InputError: the library or its model is
    not installed; the message has the command that installs it."""
    tag = {"textblob": _textblob, "spacy": _spacy, "nltk": _nltk}[tagger]()
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


def _textblob() -> Callable[[Captions], list[list[str]]]:
    from textblob.en.taggers import PatternTagger

    tagger = PatternTagger()
    return lambda captions: [
        [tag for _, tag in tagger.tag(" ".join(words), tokenize=False)] if words else [] for words in captions
    ]


def _nltk() -> Callable[[Captions], list[list[str]]]:
    try:
        import nltk
    except ImportError:
        raise _missing("nltk", "NLTK", "python -m pip install nltk") from None
    try:
        nltk.pos_tag(["dog"])
    except LookupError:
        command = "python -m nltk.downloader averaged_perceptron_tagger_eng"
        raise _missing("nltk", "NLTK's tagging model", command) from None
    return lambda captions: [
        [tag for _, tag in caption] for caption in nltk.pos_tag_sents([list(words) for words in captions])
    ]


def _spacy() -> Callable[[Captions], list[list[str]]]:
    try:
        import spacy
        from spacy.tokens import Doc
    except ImportError:
        raise _missing("spacy", "spaCy", "python -m pip install spacy") from None
    try:
        language: Any = spacy.load(SPACY_MODEL, exclude=["parser", "ner", "lemmatizer"])
    except OSError:
        command = f"python -m spacy download {SPACY_MODEL}"
        raise _missing("spacy", f"spaCy's model {SPACY_MODEL}", command) from None

    def tag(captions: Captions) -> list[list[str]]:
        documents = (Doc(language.vocab, words=list(words)) for words in captions)
        return [[token.tag_ for token in doc] for doc in language.pipe(documents, batch_size=256)]

    return tag


def _missing(tagger: str, part: str, command: str) -> InputError:
    fix = f"{command}, or use --concept-tagger textblob"
    return InputError.at(f"--concept-tagger {tagger}", f"{part} is not installed", "an installed tagger", fix)
