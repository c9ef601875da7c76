"""Neighbours in the cache: what they are known by, whole or not there, found again when damaged."""

import numpy as np
import pytest

from coder_core.config.schema import Config
from coder_core.console.progress import silent
from coder_core.data.dataset import read_split
from coder_core.runs.derived.neighbours import train_neighbourhood
from tests.support.configs import changed
from tests.support.tiny_bert import write_tiny_bert
from tests.support.tiny_runs import WORDS


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("CODER_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "neighbours"


def neighbourhood(data, *, captions=None, progress=silent, **values):
    usual = {"sample_weights": "diversity", "neighbours": 4, "text_space_size": 8}
    config = changed(Config(), **usual | values)
    split = read_split(data, "train")
    return train_neighbourhood(config, captions or split.captions, split.image_of_text, progress=progress)


def test_the_second_time_nothing_is_searched(data, cache):
    phases = [[], []]
    first, second = (
        neighbourhood(data, progress=lambda done, total, phase, seen=seen: seen.append(phase))
        for seen in phases
    )
    assert [len(set(seen)) for seen in phases] == [3, 0]
    assert np.array_equal(first.neighbours, second.neighbours)
    assert first.neighbours.shape == (40, 4)
    assert first.about(Config()) == second.about(Config())
    (folder,) = cache.iterdir()
    stored = (folder / "neighbours.npy").read_bytes()  # damaged, they are searched again and replaced
    (folder / "neighbours.npy").write_bytes(stored[:-3] + b"\xff\xff\xff")
    assert np.array_equal(neighbourhood(data).neighbours, first.neighbours)
    assert (folder / "neighbours.npy").read_bytes() == stored


def test_other_captions_another_n_or_another_space_are_another_search(data, cache, tmp_path):
    model = write_tiny_bert(tmp_path / "model", WORDS)
    split = read_split(data, "train")
    neighbourhood(data)
    neighbourhood(data, neighbours=5, neighbours_of_neighbours=0)
    neighbourhood(data, text_space_size=6)
    neighbourhood(data, text_space=str(model))
    neighbourhood(data, captions=[*split.captions[:-1], "another star"])
    assert len(list(cache.iterdir())) == 5
    neighbourhood(data, sample_weights="combined", diversity_share=2.0, seed=7)
    assert len(list(cache.iterdir())) == 5  # what does not decide the neighbours does not search again


def test_an_interrupted_search_leaves_nothing(data, cache):
    def interrupt(done, total, what=""):
        if what == "finding semantic neighbours":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        neighbourhood(data, progress=interrupt)
    assert not cache.exists() or not list(cache.iterdir())
