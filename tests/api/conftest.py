"""Runs that several test files of the API share and only read."""

import pytest

from coder_core.api import open_run
from tests.support.run_folders import CONCEPTS, write_run

BETA = 0.6


@pytest.fixture(scope="session")
def run(tmp_path_factory):
    """Run with 30 images of five captions each; about half of the queries have rank 1."""
    return open_run(write_run(tmp_path_factory.mktemp("lab"), "b", noise=2.0, images=30, pictures=False))


@pytest.fixture(scope="session")
def both(tmp_path_factory):
    """Run with 30 images and a concept branch."""
    return open_run(
        write_run(
            tmp_path_factory.mktemp("concepts"),
            "both",
            beta=BETA,
            concepts=CONCEPTS,
            images=30,
            pictures=False,
        )
    )
