"""Taggers: textblob without a network or downloads, the others with the command that installs them."""

from __future__ import annotations

import builtins
import socket
from typing import Any

import pytest

from coder_core.console.faults import InputError
from coder_core.model.concepts.tagging import Tagger, tag_captions

CAPTIONS = [["two", "young", "men", "are", "playing", "guitar"], [], ["a", "dog", "'s", "tail"]]


def test_textblob_tags_every_word_without_a_network_and_without_data_of_nltk(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import nltk

    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("a socket was opened")

    for target, name in ((socket.socket, "connect"), (socket, "create_connection"), (socket, "getaddrinfo")):
        monkeypatch.setattr(target, name, refuse)
    monkeypatch.setattr(nltk.data, "path", [])
    seen: list[tuple[int, int]] = []
    tags = list(tag_captions(CAPTIONS, progress=lambda done, total: seen.append((done, total))))
    assert [[word for word, _ in line] for line in tags] == CAPTIONS
    assert [tag for _, tag in tags[0]] == ["CD", "JJ", "NNS", "VBP", "VBG", "NN"]
    assert seen == [(3, 3)]


@pytest.mark.parametrize(
    ("tagger", "missing", "said"),
    [
        ("nltk", "", "averaged_perceptron_tagger_eng, or take --concept-tagger textblob"),
        ("nltk", "nltk", "pip install nltk"),
        ("spacy", "spacy", "pip install spacy"),
    ],
)
def test_a_tagger_that_is_not_installed_says_how_to_get_it(
    tagger: Tagger, missing: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    import nltk

    monkeypatch.setattr(nltk.data, "path", [])
    real = builtins.__import__

    def without(name: str, *arguments: Any, **named: Any) -> Any:
        if name.partition(".")[0] == missing:
            raise ImportError(name)
        return real(name, *arguments, **named)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(InputError, match=said):
        list(tag_captions(CAPTIONS, tagger))
