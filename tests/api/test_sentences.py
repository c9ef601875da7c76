"""Why a query misses, in words (`coder_core.api.causes.sentences`)."""

import numpy as np
import pytest

from coder_core.api.causes import sentences
from coder_core.api.causes.evidence import PICTURE, TEXT


@pytest.mark.parametrize(
    ("is_hub", "sentence"),
    [
        ([False, False, False], "with hub correction its match has rank 2"),
        ([False, True, False], "result 2 is a hub; with hub correction its match has rank 2"),
        (
            [True, False, True],
            "two of the first three results are hubs; with hub correction its match has rank 2",
        ),
        ([True] * 5, "the first five results are hubs; with hub correction its match has rank 2"),
    ],
)
def test_hubs_are_counted_in_words(is_hub, sentence):
    assert sentences._hub(np.array(is_hub), 2) == sentence


def test_the_first_copy_is_named_by_what_it_shares():
    copies = np.array([0, TEXT, TEXT])
    picture = np.array([PICTURE, 0, TEXT])
    assert sentences._copy("t2i", copies) == "result 2 has a caption with the same text"
    assert sentences._copy("t2i", picture) == "result 1 is a near-duplicate of the matching picture"
    assert sentences._copy("i2t", copies) == "result 2 has the text of a matching caption"
    assert sentences._copy("i2t", picture) == "result 1 describes a near-duplicate of this picture"


def test_a_certain_match_is_told_from_a_probable_one():
    certain = "result 3 matches by a verdict, a judgment or its group, but has no label"
    assert sentences._unlabelled_match(np.array([0.5, 0.9, 1.0])) == certain
    probable = "result 2 probably matches, but has no label (probability 0.90)"
    assert sentences._unlabelled_match(np.array([0.5, 0.9, 0.7])) == probable
