"""Two trained runs for the commands that evaluate."""

import pytest

from coder_core.training.launch import start_run
from tests.support.tiny_runs import quiet, tiny_config, write_tiny_data


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Two finished runs with different seeds, trained on the same small data, which also has a test split."""
    root = tmp_path_factory.mktemp("evaluate")
    data = write_tiny_data(root / "data")
    for part in ("ims.npy", "caps.txt"):
        (data / f"test_{part}").write_bytes((data / f"dev_{part}").read_bytes())
    configs = [tiny_config(data, name, seed=seed, epochs=1) for name, seed in (("one", 1), ("two", 2))]
    return [start_run(config, root / "runs", quiet()) for config in configs]
