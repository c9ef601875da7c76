"""Runs embedded by pretrained towers: new texts and pictures go through the same towers, own code only when allowed."""

import json
import os
import re
import shutil
import subprocess
import sys

import numpy as np
import pytest
from PIL import Image

from coder_core.api import open_run
from coder_core.data.pictures import read_picture
from coder_core.embed import main
from coder_core.runs.analysis.tables import DOCUMENT_TOWERS
from tests.support.pages import PROJECT
from tests.support.picture_folders import CAPTIONS, LAYOUTS, NAMES, PICTURES, draw
from tests.support.precomp_folders import assert_refused
from tests.support.run_folders import reseal
from tests.support.tiny_towers import write_tiny_clip

PROMPT = "see {}"
OWN = """
import numpy as np

class Towers:
    fingerprint = "made up"
    def encode_pictures(self, pictures):
        return np.stack([np.asarray(picture.resize((2, 2)), dtype=np.float32).reshape(4, 3) for picture in pictures])
    def encode_texts(self, texts):
        return np.array([[len(text), 1, 2] for text in texts], dtype=np.float32)
"""


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """A run "clip" of a tiny CLIP and a run "own" of a user's own towers, of the same twelve pictures."""
    base = tmp_path_factory.mktemp("towers")
    LAYOUTS["kaggle"](base / "data")
    write_tiny_clip(base / "clip")
    (base / "code").mkdir()
    (base / "code" / "towers_of_a_stranger.py").write_text(OWN)
    every = ["--split=dev", "--dev-share=1", "--test-share=0"]
    given = ["pictures", str(base / "data"), *every, "--workers=0", f"--root={base / 'runs'}"]
    assert main([*given, f"--model={base / 'clip'}", "--name=clip", f"--prompt={PROMPT}"]) == 0
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(base / "code"))
        assert main([*given, "--tower=towers_of_a_stranger:Towers", "--name=own"]) == 0
        del sys.modules["towers_of_a_stranger"]
    return base / "runs"


def test_encoding_a_sample_again_gives_its_stored_embedding(root):
    run = open_run(root / "clip")
    v, w = run.embeddings("dev")
    np.testing.assert_allclose(run.encode_text(CAPTIONS[NAMES[3]]), w[6:8], atol=1e-6)
    row = run.encode_picture(read_picture(draw(3), "3.jpg"), split="dev")
    np.testing.assert_allclose(row, v[3], atol=1e-6)
    best = run.search(row, split="dev", modality="image", top=3)
    np.testing.assert_allclose(best["score"], np.sort(v[3] @ w.T)[::-1][:3], atol=1e-6)
    assert len(run.search(CAPTIONS[NAMES[0]][0], split="dev", top=5)) == 5


def test_the_retrieval_page_takes_text_and_picture_queries(root, opened):
    app = opened(root, "retrieval", run="clip", versus="—", ask="Free text")
    app.change(text="a ring")
    assert app.refusals() == []
    assert NAMES[0] in app.texts()
    app = opened(root, "retrieval", run="clip", versus="own", ask="Picture")
    [refusal] = app.upload("new.jpg", draw(5), "image/jpeg").refusals()
    assert "CODER_TOWERS=towers_of_a_stranger:Towers" in refusal
    assert any(caption in app.texts() for caption in CAPTIONS[NAMES[0]])


def test_custom_towers_encode_only_once_allowed(root, monkeypatch):
    monkeypatch.syspath_prepend(str(root.parent / "code"))
    assert_refused("towers_of_a_stranger:Towers", open_run(root / "own").encode_text, ["a"])
    assert "towers_of_a_stranger" not in sys.modules
    monkeypatch.setenv("CODER_TOWERS", "other:one, towers_of_a_stranger:Towers")
    row = open_run(root / "own").encode_picture(Image.new("RGB", (9, 9), (0, 9, 0)), split="dev")
    np.testing.assert_allclose(row, [0, 1, 0], atol=1e-6)


def test_the_app_and_an_opened_run_import_no_torch_or_custom_code_and_use_no_network(root):
    program = (
        "import socket, sys; socket.socket.connect = None\n"
        "from app.frame import runner, sidebar\n"
        "from app.views import overview, retrieval, start\n"
        "from coder_core.api import list_runs, open_run\n"
        "for found in list_runs(sys.argv[1]):\n"
        "    run = open_run(found.path); run.diversity('dev'); assert run.reads_pictures('dev')\n"
        "assert not {'torch', 'transformers', 'towers_of_a_stranger'} & set(sys.modules)\n"
    )
    environment = os.environ | {"PYTHONPATH": f"{PROJECT}:{root.parent / 'code'}"}
    subprocess.run([sys.executable, "-P", "-c", program, str(root)], env=environment, check=True)


def test_changed_towers_are_refused(root, tmp_path):
    folder = shutil.copytree(root / "clip", tmp_path / "clip")
    file = folder / "analysis" / "dev" / f"{DOCUMENT_TOWERS}.json"
    towers = json.loads(file.read_text())
    for key, value, clue in (
        ("model", "no/such-model", "'no/such-model'"),
        ("model", "../../no/such", "'../../no/such'"),
        ("fingerprint", "0" * 64, "clip"),
        ("fingerprint", "", "'transformers'"),
        ("kind", "pickle", "'pickle'"),
        ("prompt", 3, "prompt: is 3"),
        ("prompt", "{}{}", "--prompt: is"),
    ):
        file.write_text(json.dumps(towers | {key: value}))
        reseal(file.parent)
        run = open_run(folder)
        assert run.count("dev", "image") == PICTURES
        assert_refused(re.escape(clue), run.encode_text, ["a ring"])
