"""A run whose config.toml a newer version or a fork wrote: its results are shown, training and encoding name the key."""

import re
import shutil
import tomllib

import numpy as np
import pytest
import tomli_w

from coder_core.api import InputError, LossSettings, list_runs, open_run
from coder_core.api.retrieval import config_differences
from coder_core.runs.load import read_config
from coder_core.train import main as train
from coder_core.training.launch import start_run
from tests.support.run_folders import reseal
from tests.support.tiny_runs import quiet, tiny_config, write_tiny_data

KINDS = {
    "loss of a fork": ("objective", "loss", "mine", "[objective] key loss is 'mine'"),
    "new setting": ("training", "lookahead", 0.5, "[training] key lookahead is not known to this version"),
    "new section": ("retrieval", "rerank", [1, 2], "[retrieval] is not known to this version"),
    "list instead of a number": ("objective", "temperature", [0.1, 0.2], "key temperature is [0.1, 0.2]"),
    "impossible number": ("objective", "epsilon", -1.0, "[objective] key epsilon is -1"),
    "new measure": ("objective", "diversity", "renyi", "[objective] key diversity is 'renyi'"),
    "value instead of a section": ("cleaning", None, 3, "[cleaning] is 3"),
}


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A finished run of this version."""
    root = tmp_path_factory.mktemp("unknown")
    return start_run(tiny_config(write_tiny_data(root / "data"), "known", epochs=1), root / "runs", quiet())


@pytest.fixture(params=KINDS)
def kind(request):
    return KINDS[request.param]


@pytest.fixture
def unknown(trained, tmp_path, kind):
    """A copy with one unknown part in its configuration."""
    section, key, value, _ = kind
    folder = shutil.copytree(trained, tmp_path / "runs" / "unknown")
    document = tomllib.loads((folder / "config.toml").read_text())
    if key is None:
        document[section] = value
    else:
        document.setdefault(section, {})[key] = value
    (folder / "config.toml").write_text(tomli_w.dumps(document))
    reseal(folder)
    return folder


def test_all_that_its_analysis_holds_is_shown(trained, unknown, kind):
    section, key, value, fact = kind
    [summary] = list_runs(unknown.parent)
    assert (summary.state, summary.fault, summary.usable) == ("finished", "", True)
    [part] = summary.unknown
    assert fact in part
    run = open_run(unknown)
    known = open_run(trained)
    assert run.metrics == known.metrics
    assert run.history.equals(known.history)
    for mine, theirs in zip(run.embeddings("dev"), known.embeddings("dev"), strict=True):
        np.testing.assert_array_equal(mine, theirs)
    assert run.search(0, split="dev").equals(known.search(0, split="dev"))
    if key in ("temperature", "epsilon", "diversity", "loss"):
        assert run.loss == LossSettings()  # never a wrong number
    else:
        assert run.loss == known.loss
    if isinstance(value, str):
        assert run.config[section][key] == value
    table = config_differences({"known": known.config, "unknown": run.config})
    differing = [] if key is None else [f"{section}.{key}"]
    assert table.index.tolist() == differing


def test_training_and_encoding_name_the_key(unknown, kind, complaint):
    place, _, _ = kind[-1].partition(" is ")
    with pytest.raises(InputError, match=re.escape(place)):
        open_run(unknown).encode_text(["a red star"])
    assert place in complaint(train, ["--resume", str(unknown)])
    with pytest.raises(InputError):
        read_config(unknown)


def test_a_run_of_this_version_has_nothing_unknown(trained):
    [summary] = list_runs(trained.parent)
    assert summary.unknown == ()
