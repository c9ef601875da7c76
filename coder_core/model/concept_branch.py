"""Make the concepts of a run from its train captions: choose, count and embed them."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from coder_core.config.schema import Config
from coder_core.console.faults import Fault, InputError
from coder_core.console.progress import Progress, silent
from coder_core.data.glove import learn_word_vectors, read_word_vectors
from coder_core.data.words import Vocabulary, tokenise
from coder_core.model.concepts.knowledge import Concepts, count_together
from coder_core.model.concepts.lemmas import Kind
from coder_core.model.concepts.tagging import tag_captions
from coder_core.model.concepts.vocabulary import ConceptVocabulary, choose_concepts, listed_concepts

RANDOM_STREAM = 4  # random stream for concepts without a word vector
LISTS: dict[str, Kind] = {"objects": "object", "properties": "property", "motions": "motion"}
LIST_FORM = '{"objects": ["dog", …], "properties": […], "motions": […]}'


def make_concepts(
    config: Config, captions: Sequence[str], *, progress: Progress = silent
) -> tuple[Concepts, list[Fault]]:
    """Choose, count and embed the concepts of a run from its TRAIN captions, identically on every process. `progress`
    covers tagging. InputError: no tagger is installed, the list is unusable, or the captions have too few concepts."""
    words = [tokenise(caption) for caption in captions]
    if config.model.concept_list:
        lists = read_concept_list(Path(config.model.concept_list))
        tokens = {word: tokenise(word) for entries in lists.values() for word in entries}
        vocabulary, faults = listed_concepts(lists, tokens, words)
    else:
        tagger = config.model.concept_tagger
        tagged = tag_captions(words, tagger, progress=progress)
        vocabulary, faults = choose_concepts(tagged, config.model.concepts, source=tagger)
    together, occurrences = count_together(vocabulary.read(words), len(vocabulary))
    vectors, missing = concept_vectors(config, vocabulary, captions)
    return Concepts(vocabulary, together, occurrences, vectors), [*faults, *missing]


def concept_vectors(
    config: Config, vocabulary: ConceptVocabulary, captions: Sequence[str]
) -> tuple[np.ndarray, list[Fault]]:
    """Return (g, word size) float32 vectors, from the run's GloVe file or learned from the captions, and a
    warning about concepts without one.

    A concept gets the vector of its word, or else the mean over its forms weighted by their counts, or else random
    numbers with the standard deviation of the other concepts' vectors.
    """
    source = config.data.word_vectors
    size = config.model.word_size
    seed = config.training.seed
    forms = [[part for form in concept.forms for part in form.split(" ")] for concept in vocabulary.concepts]
    counts: dict[str, int] = {}
    if source in ("random", "learned"):  # concept vectors are not trained, so random ones do not suit them
        words = Vocabulary.build(captions, threshold=1)
        matrix = learn_word_vectors(captions, words, dimension=size, seed=seed)
        vector_of = {word: matrix[row] for word, row in words.number.items()}
        counts = dict(zip(words.words, words.counts, strict=True))
        where = "concept vectors, learned from the captions"
    else:
        needed = sorted({word for parts in forms for word in parts} | set(vocabulary.words))
        glove = read_word_vectors(source, needed, dimension=size)
        vector_of = {word: glove.matrix[row] for row, word in enumerate(needed) if glove.covered[row]}
        where = f"concept vectors from {source}"
    vectors = np.zeros((len(vocabulary), size), np.float32)
    missing = []
    for index, (word, parts) in enumerate(zip(vocabulary.words, forms, strict=True)):
        names = [word] if word in vector_of else [part for part in parts if part in vector_of]
        if names:
            weights = [max(counts.get(name, 1), 1) for name in names]
            vectors[index] = np.average([vector_of[name] for name in names], axis=0, weights=weights)
        else:
            missing.append(index)
    if not missing:
        return vectors, []
    random = np.random.default_rng((seed, RANDOM_STREAM))
    present = np.delete(vectors, missing, axis=0)
    spread = float(present.std()) if present.size else 1.0
    vectors[missing] = random.normal(0, spread or 1.0, (len(missing), size))
    first = ", ".join(vocabulary.words[index] for index in missing[:10])
    coverage = f"{len(vocabulary) - len(missing)} of {len(vocabulary)} concepts have a vector"
    return vectors, [Fault(where, f"{coverage}; the others start at random: {first}", severity="warning")]


def read_concept_list(path: Path) -> dict[Kind, list[str]]:
    """Read a hand-written list of concepts, JSON with one list per kind; kinds may be missing. InputError: the file does
    not exist, has another form, repeats a word, or has an empty word or fewer than two words."""
    where = f"--concept-list {path}"
    try:
        content: Any = json.loads(path.read_text("utf-8-sig"))
    except (OSError, ValueError, RecursionError) as error:
        raise InputError.at(where, f"cannot be read: {error}", LIST_FORM) from None
    if not isinstance(content, dict) or not content or set(content) - set(LISTS):
        keys = ", ".join(map(str, content)) if isinstance(content, dict) else type(content).__name__
        raise InputError.at(where, f"contains {keys or 'nothing'}", LIST_FORM)
    concepts: dict[Kind, list[str]] = {}
    key_of: dict[str, str] = {}
    faults = []
    for key, kind in LISTS.items():
        words = content.get(key, [])
        if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
            raise InputError.at(f"{where} key {key}", "is not a list of words", LIST_FORM)
        concepts[kind] = words
        for position, word in enumerate(words):
            tokens = " ".join(tokenise(word))
            entry = f"{where} key {key} entry {position}"
            if not tokens:
                faults.append(Fault(entry, f"is {word!r}, which contains no word", "a word"))
            elif tokens in key_of:
                faults.append(Fault(entry, f"repeats {word!r}", fix=f"the first is in {key_of[tokens]}"))
            else:
                key_of[tokens] = key
    if not faults and len(key_of) < 2:
        faults.append(Fault(where, f"has {len(key_of)} words", "two or more"))
    if faults:
        raise InputError(faults)
    return concepts
