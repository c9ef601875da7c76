"""Train captions -> the concepts of a run: joins the words and vectors of `data` with `concepts`."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from coder_core.concepts.cooccurrence import count_together
from coder_core.concepts.knowledge import Concepts
from coder_core.concepts.lemmas import Kind
from coder_core.concepts.tagging import tag_captions
from coder_core.concepts.vocabulary import ConceptVocabulary, choose_concepts, listed_concepts
from coder_core.config.schema import Config
from coder_core.console.faults import Fault, InputError
from coder_core.data.glove import learn_word_vectors, read_word_vectors
from coder_core.data.words import Vocabulary, tokenise

RANDOM_STREAM = 4  # of the numbers that fill the vectors of concepts without one
LISTS: dict[str, Kind] = {"objects": "object", "properties": "property", "motions": "motion"}
LIST_FORM = '{"objects": ["dog", …], "properties": […], "motions": […]}'


def make_concepts(
    config: Config, captions: Sequence[str], *, progress: Callable[[int, int], None] | None = None
) -> tuple[Concepts, list[Fault]]:
    """Choose, count and embed the concepts of a run. Deterministic, so every process comes to the same.

    Args:
        config: of the run; `concepts` > 0.
        captions: TRAIN captions only.
        progress: of tagging, captions done and in all.

    Raises:
        InputError: a tagger that is not installed, a list that cannot be used, too few concepts in the captions.
    """
    words = [tokenise(caption) for caption in captions]
    if config.model.concept_list:
        listed = read_concept_list(Path(config.model.concept_list))
        tokens = {word: tokenise(word) for words_of_kind in listed.values() for word in words_of_kind}
        vocabulary, faults = listed_concepts(listed, tokens, words)
    else:
        tagger = config.model.concept_tagger
        tagged = tag_captions(words, tagger, progress=progress)
        vocabulary, faults = choose_concepts(tagged, config.model.concepts, source=tagger)
    together, occurrences = count_together([vocabulary.read(caption) for caption in words], len(vocabulary))
    vectors, about = concept_vectors(config, vocabulary, captions)
    return Concepts(vocabulary, together, occurrences, vectors), faults + about


def concept_vectors(
    config: Config, vocabulary: ConceptVocabulary, captions: Sequence[str]
) -> tuple[np.ndarray, list[Fault]]:
    """(g, word size) float32 from the GloVe file of the run, else learned from the captions; with the coverage.

    A concept takes its own word's vector; when there is none, the mean of its forms', weighted by how often they occur;
    when there is none of those either, random numbers as large as the others.
    """
    source, size = config.data.word_vectors, config.model.word_size
    forms = [[part for form in concept.forms for part in form.split(" ")] for concept in vocabulary.concepts]
    if source in ("random", "learned"):  # a random start suits words that are trained; concepts are not
        known = Vocabulary.build(captions, threshold=1)
        matrix = learn_word_vectors(captions, known, dimension=size, seed=config.training.seed)
        row, count = known.number, dict(zip(known.words, known.counts, strict=True))
        found = [word in row for word in known.words]
        place = "concept vectors, learned from the captions"
    else:
        wanted = sorted({word for concept in forms for word in concept} | set(vocabulary.words))
        read = read_word_vectors(source, wanted, dimension=size)
        matrix, found = read.matrix, read.found.tolist()
        row = {word: index for index, word in enumerate(wanted)}
        count = dict.fromkeys(wanted, 1)
        place = f"concept vectors from {source}"
    vectors = np.zeros((len(vocabulary), size), np.float32)
    missing = []
    for index, (concept, own) in enumerate(zip(vocabulary.concepts, forms, strict=True)):
        exact = row.get(concept.word)
        parts = [row[word] for word in own if word in row and found[row[word]]]
        if exact is not None and found[exact]:
            vectors[index] = matrix[exact]
        elif parts:
            names = [word for word in own if word in row and found[row[word]]]
            vectors[index] = np.average(matrix[parts], axis=0, weights=[max(count[word], 1) for word in names])
        else:
            missing.append(index)
    if missing:
        random = np.random.default_rng((config.training.seed, RANDOM_STREAM))
        present = np.delete(vectors, missing, axis=0)
        spread = float(present.std()) if present.size else 1.0
        vectors[missing] = random.normal(0, spread or 1.0, (len(missing), size))
    said = f"{len(vocabulary) - len(missing)} of {len(vocabulary)} concepts have one"
    if not missing:
        return vectors, [Fault(place, said, severity="note")]
    names = [vocabulary.words[index] for index in missing[:10]]
    return vectors, [Fault(place, f"{said}; random: {', '.join(names)}", severity="warning")]


def read_concept_list(path: Path) -> dict[Kind, list[str]]:
    """A hand-written list of concepts, JSON with one list per kind; a kind may be left out.

    Raises:
        InputError: not there, not such a file, a word twice, an empty word, or fewer than two words.
    """
    try:
        content: Any = json.loads(path.read_text("utf-8-sig"))
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(Fault(f"--concept-list {path}", f"cannot be read: {error}", LIST_FORM)) from None
    if not isinstance(content, dict) or not content or set(content) - set(LISTS):
        keys = ", ".join(map(str, content)) if isinstance(content, dict) else type(content).__name__
        raise InputError(Fault(f"--concept-list {path}", f"holds {keys or 'nothing'}", LIST_FORM))
    found: dict[Kind, list[str]] = {}
    seen: dict[str, str] = {}
    faults = []
    for key, kind in LISTS.items():
        words = content.get(key, [])
        if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
            raise InputError(Fault(f"--concept-list {path} key {key}", "is not a list of words", LIST_FORM))
        found[kind] = words
        for position, word in enumerate(words):
            tokens = " ".join(tokenise(word))
            place = f"--concept-list {path} key {key} entry {position}"
            if not tokens:
                faults.append(Fault(place, f"is {word!r}, which holds no word", "a word"))
            elif tokens in seen:
                faults.append(Fault(place, f"{word!r} stands there again", fix=f"the first is in {seen[tokens]}"))
            else:
                seen[tokens] = key
    if not faults and len(seen) < 2:
        faults.append(Fault(f"--concept-list {path}", f"holds {len(seen)} words", "two or more"))
    if faults:
        raise InputError(faults)
    return found
