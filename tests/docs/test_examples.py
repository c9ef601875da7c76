"""The examples in the docstrings of every other package hold."""

import pytest

from tests.support.examples import assert_examples_hold, modules_with_examples

ELSEWHERE = ("objectives", "evaluation", "ops", "data", "api")
NAMES = [name for name in modules_with_examples("coder_core") if name.split(".")[1] not in ELSEWHERE]


@pytest.mark.parametrize("name", NAMES)
def test_examples_hold(name):
    assert_examples_hold(name)
