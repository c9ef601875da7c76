"""Scorers that several test files share."""

import shutil

import pytest

from tests.support.cleaned_runs import VALUES, halves, train_scorers, write_told_data
from tests.support.tiny_runs import tiny_config


@pytest.fixture(scope="session")
def scored(tmp_path_factory):
    """Folder of two finished scorers, trained with five captions per image, and the configuration of their run."""
    root = tmp_path_factory.mktemp("cleaned")
    config = tiny_config(write_told_data(root / "data", 5), "mine", **VALUES)
    train_scorers(config, root)
    return root, config


@pytest.fixture
def copied(scored, tmp_path):
    """Copy the scorers to `tmp_path`; the configuration of their run."""
    for folder in halves(scored[0]):
        shutil.copytree(folder, tmp_path / folder.name)
    return scored[1]
