"""Vague captions: which of them, how, and that nothing else of a run's data changes."""

from __future__ import annotations

from pathlib import Path

import pytest

from coder_core.config.schema import Config, with_settings
from coder_core.data.augmentation import COARSE, COARSE_OF, coarsen, cut, make_vague
from coder_core.training.prepare import prepare
from tests.support.tiny_runs import write_tiny_data

CAPTIONS = [f"{number} dogs chase a red ball" for number in range(100)]


def changed(captions: list[str]) -> set[int]:
    return {
        row for row, (vague, caption) in enumerate(zip(captions, CAPTIONS, strict=True)) if vague != caption
    }


@pytest.mark.parametrize("share", [0.0, 0.1, 0.25, 1.0])
def test_the_share_is_exact_and_half_of_it_is_cut(share: float) -> None:
    vague = make_vague(CAPTIONS, share, seed=3)
    assert len(changed(vague)) == round(share * 100)
    assert vague.count("animals") == round(share * 100) // 2


def test_a_larger_share_holds_the_smaller_one_and_another_seed_chooses_others() -> None:
    small, large, other = (
        make_vague(CAPTIONS, share, seed) for share, seed in ((0.2, 1), (0.4, 1), (0.2, 2))
    )
    assert changed(small) < changed(large)
    assert all(large[row] == small[row] for row in changed(small))
    assert changed(other) != changed(small)
    assert make_vague(CAPTIONS, 0.2, 1) == small


@pytest.mark.parametrize(
    ("caption", "coarse", "short"),
    [
        ("A man rides an old bike .", "A person rides an old vehicle .", "a person"),
        ("A dog", "An animal", "an animal"),
        ("An elephant in a T-shirt", "An animal in a clothes", "an animal"),
        ("Children near the lake", "people near the water", "people"),
        ("it is dark", "it is dark", "a picture"),
        ("", "", "a picture"),
    ],
)
def test_nouns_become_coarser_and_articles_fit(caption: str, coarse: str, short: str) -> None:
    assert coarsen(caption) == coarse
    assert cut(caption) == short


def test_a_word_has_one_coarser_word_that_is_not_made_coarser_again() -> None:
    assert len(COARSE_OF) == sum(len(words.split()) for words in COARSE.values())
    assert not set(COARSE) & set(COARSE_OF)


def test_a_run_reads_vague_train_captions_and_the_same_data(tmp_path: Path) -> None:
    folder = write_tiny_data(tmp_path)
    values = {"data": str(folder), "word-threshold": 1, "dimension": 8, "word-size": 6, "batch-size": 8}
    plain, vague = (
        prepare(with_settings(Config(), {**values, "vague-captions": share, "threads": 1}))
        for share in (0.0, 0.5)
    )
    assert vague.data.train.captions == make_vague(plain.data.train.captions, 0.5, seed=0)
    assert vague.data.train.captions != plain.data.train.captions
    assert vague.data.dev is not None
    assert plain.data.dev is not None
    assert vague.data.dev.captions == plain.data.dev.captions
    assert vague.data.checksums == plain.data.checksums  # of the data as it is on disk
