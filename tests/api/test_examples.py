"""The examples in the docstrings of `coder_core.api` hold."""

import pytest

from tests.support.examples import assert_examples_hold, modules_with_examples


@pytest.mark.parametrize("name", modules_with_examples("coder_core.api"))
def test_examples_hold(name):
    assert_examples_hold(name)
