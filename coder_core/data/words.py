"""Words of captions: split captions, number the words (the vocabulary of the train captions, flat token arrays), and give
them vectors, read from a text file of GloVe, word2vec or fastText or learned from the captions."""

from __future__ import annotations

import json
import math
import re
import unicodedata
from array import array
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from coder_core.console.faults import MOST_FAULTS_SHOWN, Fault, InputError, stop_on_errors
from coder_core.data.lines import LONGEST_CAPTION_WORDS, parse_json_text, plain_file, shown

if TYPE_CHECKING:
    from scipy import sparse

PAD = 0
UNKNOWN = 1
SPECIAL_WORDS = ("<pad>", "<unknown>")
FORMAT = "coder-words-1"

# "don't" → do n't, "man's" → man 's, as in the Penn Treebank and therefore in GloVe; "3.5" and "1,000" stay whole.
SPOKEN_WORD = re.compile(r"[^\W\d_]+?(?=n't\b)|n't\b|'(?:s|re|ve|ll|d|m)\b|\d+(?:[.,:]\d+)+|[^\W_]+")
LONGEST_LINE = 2**20
LARGEST = float(np.finfo(np.float32).max)
ENOUGH_COVERAGE = 0.8
HEADER = re.compile(rb"\d+ (\d+)")  # of word2vec: the number of words and of dimensions
LINE = "a text line: the word, then its numbers, separated by single spaces"
CONTEXT_POWER = 0.75  # Levy, Goldberg & Dagan 2015, context distribution smoothing
WINDOW = 5  # largest distance of two words that are counted together
SINGULAR_POWER = 0.5  # the same paper, eigenvalue weighting


def tokenise(caption: str) -> list[str]:
    """Split a caption into lower-case words without punctuation. Deterministic; needs no download.

    >>> tokenise("A man's T-shirt doesn't cost 3.50 dollars!")
    ['a', 'man', "'s", 't', 'shirt', 'does', "n't", 'cost', '3.50', 'dollars']
    """
    return SPOKEN_WORD.findall(spoken(caption))


def spoken(text: str) -> str:
    """Return a text in lower case and Unicode's form NFC, with one kind of apostrophe: what `tokenise` splits."""
    if not text.isascii():
        text = unicodedata.normalize("NFC", text).replace("’", "'")
    return text.lower()


@dataclass(frozen=True)
class Tokens:
    """m captions as word numbers."""

    ids: np.ndarray  # (total,) int32, all captions one after the other
    offsets: np.ndarray  # (m + 1,) int64; caption j is ids[offsets[j]:offsets[j + 1]], never empty

    @property
    def lengths(self) -> np.ndarray:
        """(m,) int64 words per caption."""
        return np.diff(self.offsets)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def unknown_share(self) -> float:
        """Return the share of the words that are not in the vocabulary."""
        return float((self.ids == UNKNOWN).mean()) if len(self.ids) else 0.0

    def all_unknown(self) -> np.ndarray:
        """Return (·,) int64 rows of the captions without a known word."""
        count = np.concatenate(([0], np.cumsum(self.ids != UNKNOWN)))
        return np.flatnonzero(count[self.offsets[1:]] == count[self.offsets[:-1]])


@dataclass(frozen=True)
class Vocabulary:
    """The words of a model, from TRAIN captions only; saved with the run."""

    words: list[str]  # words[PAD] is "<pad>", words[UNKNOWN] is "<unknown>", then the most frequent first
    counts: list[int]  # how often each word was seen in training (0 for the two special ones)
    number: dict[str, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "number", {word: index for index, word in enumerate(self.words)})

    @classmethod
    def build(cls, captions: Iterable[str], *, threshold: int = 4) -> Vocabulary:
        """Collect the words seen at least `threshold` times, most frequent first, equal counts in alphabetical order.
        ValueError: threshold is below 1. InputError: no word is seen that often."""
        if threshold < 1:
            raise ValueError(f"word threshold must be at least 1, got {threshold}")
        seen: Counter[str] = Counter()
        for caption in captions:
            seen.update(tokenise(caption))
        frequent = (word for word, count in seen.items() if count >= threshold)
        words = sorted(frequent, key=lambda word: (-seen[word], word))
        if not words:
            most = max(seen.values(), default=0)
            problem = f"no word occurs at least {threshold} times in the training captions; the highest count is {most}"
            fix = "lower the word threshold, or give more captions"
            raise InputError.at("vocabulary", problem, "at least one word", fix)
        return cls([*SPECIAL_WORDS, *words], [0, 0, *(seen[word] for word in words)])

    @classmethod
    def from_text(cls, text: str, where: str) -> Vocabulary:
        """Read what `to_text` wrote; `where` is its file, for the InputError of a damaged text."""
        content = parse_json_text(text, where, "a vocabulary of a run", "use the words.json of the run")
        if problem := _vocabulary_problem(content):
            raise InputError.at(where, problem, f'the format "{FORMAT}"', "use the words.json of the run")
        return cls(content["words"], content["counts"])

    def to_text(self) -> str:
        """Return the vocabulary as JSON."""
        document = {"format": FORMAT, "words": self.words, "counts": self.counts}
        return json.dumps(document, ensure_ascii=False, indent=0)

    def __len__(self) -> int:
        return len(self.words)

    def known_and_unknown(self, text: str) -> tuple[list[str], list[str]]:
        """Return a text's words that are in the vocabulary, and those that are not, each once."""
        words = dict.fromkeys(tokenise(text))
        known = [word for word in words if word in self.number]
        return known, [word for word in words if word not in self.number]

    def encode(self, captions: Sequence[str], *, longest: int = LONGEST_CAPTION_WORDS) -> Tokens:
        """Number every word. A caption without a word becomes one UNKNOWN; words after `longest` are cut."""
        number = self.number
        flat = array("i")
        ends = array("q", [0])
        for caption in captions:
            flat.extend([number.get(word, UNKNOWN) for word in tokenise(caption)[:longest]] or [UNKNOWN])
            ends.append(len(flat))
        return Tokens(np.array(flat, dtype=np.int32), np.array(ends, dtype=np.int64))


def _vocabulary_problem(content: Any) -> str:
    """Return the fault of a vocabulary file's content; "" if there is none."""
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        return "is not a vocabulary file"
    words = content.get("words")
    counts = content.get("counts")
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        return "words is not a list of strings"
    if tuple(words[:2]) != SPECIAL_WORDS or len(set(words)) != len(words):
        return "words does not start with <pad> and <unknown>, or repeats a word"
    if not isinstance(counts, list) or list(map(type, counts)) != [int] * len(words):
        return "counts is not a list of one integer per word"
    return ""


@dataclass(frozen=True)
class WordVectors:
    """Vectors for a list of words."""

    matrix: np.ndarray  # (words, D) float32; zero where the file has no vector
    covered: np.ndarray  # (words,) bool, True if the file has a vector
    coverage: float  # share of the words that have a vector, <pad> and <unknown> not counted
    token_coverage: float | None = None  # the same, weighted by the words' counts; None without counts
    faults: list[Fault] = field(default_factory=list)  # warnings and notes


def read_word_vectors(
    path: str | Path,
    words: Sequence[str],
    *,
    counts: Sequence[int] | None = None,
    dimension: int | None = None,
) -> WordVectors:
    """Read the vectors of `words` from a text file, line by line. A word2vec header ("400000 300") is accepted. Words
    may contain spaces: lines are split from the right. The first vector of a repeated word is used; "<pad>" and
    "<unknown>" get none. `counts` of the words give the coverage of running text. InputError: the file is missing or
    not text, a line differs in width, the file's width is not `dimension`, or a number is not finite."""
    path = Path(path)
    rows = {word.encode(): row for row, word in enumerate(words) if word not in SPECIAL_WORDS}
    vectors: dict[int, np.ndarray] = {}
    faults: list[Fault] = []
    width = repeated = 0
    for number, line in _lines(path, faults):
        if number == 1 and (header := HEADER.fullmatch(line)) and int(header[1]) > 1:
            width = int(header[1])
            faults.append(Fault(f"{path} line 1", "a word2vec header, which was skipped", severity="note"))
            continue
        spaces = line.count(b" ")
        width = width or spaces
        if spaces == width > 0 and line.partition(b" ")[0] not in rows:  # nearly every line
            continue
        try:
            word, vector = _parse(line, width, rows)
        except ValueError as error:
            fix = "remove the line, or download the file again"
            faults.append(Fault(f"{path} line {number}", str(error), LINE, fix))
            if len(faults) > MOST_FAULTS_SHOWN:
                break
            continue
        if vector is not None:
            repeated += rows[word] in vectors
            vectors.setdefault(rows[word], vector)
    if dimension is not None and width not in (0, dimension):
        fix = f"use a file with {dimension} numbers per word, or set the word size to {width}"
        faults.append(Fault(str(path), f"has vectors of {width} numbers", f"{dimension}", fix))
    if repeated:
        text = f"{repeated:,} words occur more than once; the first vector of each is used"
        faults.append(Fault(str(path), text, severity="note"))
    stop_on_errors(faults)

    matrix = np.zeros((len(words), width), dtype=np.float32)
    covered = np.zeros(len(words), dtype=bool)
    for row, vector in vectors.items():
        matrix[row] = vector
        covered[row] = True
    of_words, of_text = _coverage(covered, words, counts)
    result = WordVectors(matrix, covered, of_words, of_text, faults)
    result.faults.extend(_low_coverage(path, result, words))
    return result


def _lines(path: Path, faults: list[Fault]) -> Iterator[tuple[int, bytes]]:
    """Yield (number, line), without line end and trailing spaces (fastText has one). InputError: empty or binary."""
    with plain_file(path, faults).open("rb") as file:
        number = 0
        for number, line in enumerate(iter(lambda: file.readline(LONGEST_LINE), b""), start=1):
            if b"\0" in line or len(line) == LONGEST_LINE:
                fix = "unpack it, or save it as text"
                raise InputError.at(f"{path} line {number}", "not a text file (binary?)", LINE, fix)
            line = line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line
            yield number, line.rstrip(b" \r\n")
        if number == 0:
            raise InputError.at(path, "the file is empty", LINE, "download it again")


def _parse(line: bytes, width: int, words: Container[bytes]) -> tuple[bytes, np.ndarray | None]:
    """Parse the word of a line, and its vector if it is one of `words`. ValueError: the line's fault, in words."""
    parts = line.rsplit(b" ", width) if width else []
    word, *numbers = parts or [b""]
    if width == 0 or len(numbers) < width:
        raise ValueError(f"{len(numbers)} numbers instead of {width or 'at least one'}")
    tail = word.rpartition(b" ")[2]
    if b" " in word and b"." in tail and _number(tail) is not None:
        raise ValueError(f"more than {width} numbers")
    if word not in words:
        return word, None
    values = [_number(part) for part in numbers]
    if None in values:
        bad = numbers[values.index(None)].decode("utf-8", "replace")
        raise ValueError(f"{shown(bad)} is not a finite number")
    return word, np.array(values, dtype=np.float32)


def _number(text: bytes) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) and abs(value) <= LARGEST else None


def _coverage(
    covered: np.ndarray, words: Sequence[str], counts: Sequence[int] | None
) -> tuple[float, float | None]:
    """Return the share of ordinary words that have a vector, and the same of the running text (None without counts)."""
    ordinary = np.array([word not in SPECIAL_WORDS for word in words], dtype=bool)
    of_words = float(covered[ordinary].mean()) if ordinary.any() else 0.0
    if counts is None:
        return of_words, None

    weight = np.asarray(counts, dtype=np.float64) * ordinary
    total = weight.sum()
    return of_words, float((weight * covered).sum() / total) if total else 0.0


def _low_coverage(path: Path, vectors: WordVectors, words: Sequence[str]) -> list[Fault]:
    """Return a warning if too few words have a vector."""
    if vectors.coverage >= ENOUGH_COVERAGE:
        return []
    ordinary = sum(word not in SPECIAL_WORDS for word in words)
    share = vectors.token_coverage
    running = "" if share is None else f" ({share:.0%} of the running text)"
    of_words = f"{vectors.covered.sum():,} of {ordinary:,} words, {vectors.coverage:.0%}"
    fix = "use a larger file; the other words start from random vectors"
    expected = f"at least {ENOUGH_COVERAGE:.0%}"
    return [Fault(str(path), f"has vectors for {of_words}{running}", expected, fix, severity="warning")]


def learn_word_vectors(
    captions: Sequence[str], vocabulary: Vocabulary, *, dimension: int, seed: int
) -> np.ndarray:
    """Learn word vectors from the TRAIN captions alone: positive pointwise mutual information and a truncated SVD.

    Levy, Goldberg & Dagan 2015, "Improving distributional similarity with lessons learned from word embeddings". Two
    words d places apart in a caption count 1/d. PPMI(w, c) = max(0, log P(w, c) / (P(w) P(c)^0.75)), U √Σ of its SVD.
    Returns (len(vocabulary), dimension) float32; the <pad> row and columns beyond the number of words are zero, the
    rows' root mean square norm is 1. ValueError: dimension is below 1.
    """
    from sklearn.decomposition import TruncatedSVD  # here, because it takes a second to import
    from threadpoolctl import threadpool_limits

    if dimension < 1:
        raise ValueError(f"dimension must be at least 1, got {dimension}")
    information = _positive_information(_cooccurrence(captions, vocabulary))
    size = len(vocabulary)
    vectors = np.zeros((size, dimension), dtype=np.float32)
    rank = min(dimension, size - 1)
    if information.nnz and rank:
        with threadpool_limits(1):  # the same bits on every machine, and no waiting for busy cores
            svd = TruncatedSVD(rank, random_state=seed).fit(information)
        weight = np.maximum(svd.singular_values_, 1e-12) ** (SINGULAR_POWER - 1)
        vectors[:, :rank] = (information @ svd.components_.T) * weight
    vectors[PAD] = 0
    norm = np.sqrt((vectors**2).sum(axis=1)[PAD + 1 :].mean())
    return vectors / norm if norm > 0 else vectors


def _cooccurrence(captions: Sequence[str], vocabulary: Vocabulary) -> sparse.csr_matrix:
    """Count pairs of words: (words, words), symmetric; two words d places apart in a caption count 1/d."""
    from scipy import sparse

    tokens = vocabulary.encode(captions)
    caption = np.repeat(np.arange(len(tokens)), tokens.lengths)
    shape = (len(vocabulary), len(vocabulary))
    total = sparse.csr_matrix(shape, dtype=np.float64)
    for distance in range(1, WINDOW + 1):
        same = caption[:-distance] == caption[distance:]
        pairs = tokens.ids[:-distance][same], tokens.ids[distance:][same]
        total += sparse.coo_matrix((np.full(len(pairs[0]), 1 / distance), pairs), shape=shape).tocsr()
    return (total + total.T).tocsr()


def _positive_information(counts: sparse.csr_matrix) -> sparse.csr_matrix:
    """Convert counts to PPMI with smoothed contexts, sparse."""
    pairs = counts.tocoo()
    if not pairs.nnz:
        return counts
    row = np.asarray(counts.sum(axis=1)).ravel()
    context = row**CONTEXT_POWER
    expected = (row / row.sum())[pairs.row] * (context / context.sum())[pairs.col]
    pairs.data = np.maximum(np.log(pairs.data / pairs.data.sum() / expected), 0)
    result = pairs.tocsr()
    result.eliminate_zeros()
    return result
