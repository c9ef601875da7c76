"""Opening a run has no side effects: no request, no pipe or device read, no memory for sizes that it only claims."""

import json
import shutil
import socket
from types import SimpleNamespace

import numpy as np
import pytest

from coder_core.api import open_run
from coder_core.runs.analysis.read import open_analysis
from coder_core.runs.load import load_model
from coder_core.training.launch import continue_run, start_run
from tests.support.precomp_folders import assert_refused
from tests.support.run_folders import configure, reseal
from tests.support.tiny_bert import write_tiny_bert
from tests.support.tiny_runs import WORDS, quiet, tiny_config, write_tiny_data

pytestmark = pytest.mark.timeout(120)


@pytest.fixture
def requests(monkeypatch):
    """List of every address that this process looks up or connects to; nothing is sent."""
    seen = []

    def refuse(*address, **_):
        seen.append(address)
        raise OSError("there is no network in this test")

    for name in ("getaddrinfo", "create_connection"):
        monkeypatch.setattr(socket, name, refuse)
    monkeypatch.setattr(socket.socket, "connect", refuse)
    # A refused request is retried five times, 23 s in all.
    monkeypatch.setattr("huggingface_hub.utils._http.time", SimpleNamespace(sleep=lambda seconds: None))
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    return seen


def test_a_model_named_by_a_run_is_never_downloaded_unasked(whole, requests):
    configure(whole, model={"text_encoder": "bert", "bert": "somebody/x"})
    for message, use in (
        ("is not on this machine.*hf download", lambda: open_run(whole).search("a red ring", split="dev")),
        ("is not on this machine", lambda: load_model(whole)),
        ("or add --bert somebody/x to --resume", lambda: continue_run(whole, None, quiet())),
    ):
        assert_refused(f"bert, 'somebody/x': .*{message}", use)
    assert requests == []
    # the user typed its name
    assert_refused("'somebody/x' could not be loaded", continue_run, whole, None, quiet(), download=True)
    assert requests != []


def test_a_local_bert_is_opened_without_a_request(tmp_path, requests, monkeypatch):
    """It is found by its folder, and by its name if it was downloaded before."""
    data = write_tiny_data(tmp_path / "data")
    bert = write_tiny_bert(tmp_path / "bert", WORDS)
    snapshot = tmp_path / "hub" / "models--somebody--x" / "snapshots" / "0123"
    shutil.copytree(bert, snapshot)
    (snapshot.parents[1] / "refs").mkdir()
    (snapshot.parents[1] / "refs" / "main").write_text("0123")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    config = tiny_config(data, epochs=1, text_encoder="bert", bert=str(bert))
    run = start_run(config, tmp_path / "runs", quiet())
    rows = load_model(run).encode_text(["a red star"])
    (run / "config.toml").write_text((run / "config.toml").read_text().replace(str(bert), "somebody/x"))
    reseal(run)
    shutil.rmtree(bert)
    np.testing.assert_array_equal(load_model(run).encode_text(["a red star"]), rows)
    assert requests == []


COUNTED = ("text_layers", "image_layers", "dimension", "word_size", "concepts")
SIZES = [({"model": {key: 10**9}}, f"key {key}") for key in COUNTED]
SIZES += [({"about": {"feature_size": value}}, f"key feature_size: is {value!r}") for value in (10**9, "6")]
LAYERS = {"dimension": 65_536, "text_layers": 64, "image_layers": 64}
SIZES += [({"model": LAYERS}, r"model\.safetensors: lacks")]
REGIONS = {"about": {"feature_size": 1 << 20}, "model": {"dimension": 65_536}}
SIZES += [(REGIONS, r"model\.safetensors: .* shape")]
BRANCHES = {"boosting": "rm", "boosting_scenario": "online", "boosting_branches": 64}
OF_STATES = [
    ({"memory": {"bank_size": 10**8}}, r"memory\.safetensors: has .* 100,000,000 rows"),
    ({"boosting": BRANCHES}, r"anchor\.safetensors: has 0 bytes; .* 63 branches"),
]


@pytest.mark.parametrize(("tables", "place"), [*SIZES, *OF_STATES])
def test_sizes_are_compared_with_saved_weights_before_memory_is_allocated(whole, tables, place):
    configure(whole, **tables)
    assert_refused(place, continue_run, whole, None, quiet())
    if (tables, place) in SIZES:
        assert_refused(place, load_model, whole)


def test_huge_captions_are_cut_and_invalid_captions_or_names_refused(whole):
    folder = whole / "analysis" / "dev"

    def write(file, value):
        (folder / file).write_text(json.dumps(value))
        reseal(folder)

    captions = json.loads((folder / "captions.json").read_text())
    write("captions.json", ["a" * 1_000_000, *captions[1:]])
    assert list(open_run(whole).captions("dev")) == ["a" * 3_999 + "…", *captions[1:]]
    for file, key in (("captions.json", "captions"), ("images.json", "image_names")):
        for value in (None, {}, [], ["a"], [1] * 40, "x"):
            write(file, value)
            assert_refused(file, getattr, open_analysis(whole, "dev"), key)
