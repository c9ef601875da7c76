"""Taggers: textblob without a network or downloads, the others with a way out when they are not installed."""

from __future__ import annotations

import builtins
import subprocess
import sys
from typing import Any

import pytest

from coder_core.console.faults import InputError
from coder_core.model.concepts.tagging import tag_captions

CAPTIONS = [["two", "young", "men", "are", "playing", "guitar"], [], ["a", "dog", "'s", "tail"]]


def test_textblob_tags_every_word_of_every_caption() -> None:
    seen: list[tuple[int, int]] = []
    tags = list(tag_captions(CAPTIONS, progress=lambda done, total: seen.append((done, total))))
    assert [[word for word, _ in line] for line in tags] == CAPTIONS
    assert [tag for _, tag in tags[0]] == ["CD", "JJ", "NNS", "VBP", "VBG", "NN"]
    assert seen == [(3, 3)]


def test_textblob_needs_no_network_and_no_data_of_nltk() -> None:
    """In a process whose sockets are closed and whose NLTK has no data folder."""
    program = (
        "import socket\n"
        "def refuse(*a, **k): raise AssertionError('a socket was opened')\n"
        "socket.socket.connect = refuse; socket.create_connection = refuse; socket.getaddrinfo = refuse\n"
        "from coder_core.model.concepts.tagging import tag_captions\n"
        "import nltk; nltk.data.path.clear()\n"
        "print(list(tag_captions([['a', 'dog', 'runs']])))\n"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    assert "('dog', 'NN')" in ended.stdout


def test_nltk_without_its_model_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    import nltk

    monkeypatch.setattr(nltk.data, "path", [])
    with pytest.raises(InputError, match="averaged_perceptron_tagger_eng, or take --concept-tagger textblob"):
        list(tag_captions(CAPTIONS, "nltk"))


def test_spacy_that_is_not_installed_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without_spacy(name: str, *arguments: Any, **named: Any) -> Any:
        if name.partition(".")[0] == "spacy":
            raise ImportError(name)
        return real(name, *arguments, **named)

    monkeypatch.setattr(builtins, "__import__", without_spacy)
    with pytest.raises(InputError, match="--concept-tagger spacy: spaCy is not installed"):
        list(tag_captions(CAPTIONS, "spacy"))
