"""What holds for every test."""

from __future__ import annotations

from hypothesis import settings

# No test asserts a time: the first example of a process pays for torch's start, and a busy machine for its neighbours.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")
