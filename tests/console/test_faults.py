"""Wording of faults."""

from __future__ import annotations

import pytest

from coder_core.console.faults import Fault


@pytest.mark.parametrize(
    ("fix", "said"),
    [
        ("choose another name", "here: is not there. Choose another name"),
        ("python -m coder_core.evaluate RUN", "here: is not there. python -m coder_core.evaluate RUN"),
        ("make setup", "here: is not there. make setup"),
        ("pythons are snakes", "here: is not there. Pythons are snakes"),
    ],
)
def test_a_way_out_begins_with_a_capital_letter_unless_it_is_a_command(fix: str, said: str) -> None:
    assert str(Fault("here", "is not there", fix=fix)) == said
