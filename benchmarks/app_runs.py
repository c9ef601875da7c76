"""Two runs of any size for the app to show: random embeddings, an untrained model, written as training writes them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import tomli_w

from coder_core.config import Config, ModelConfig, ObjectiveConfig, to_document
from coder_core.data.words import Vocabulary
from coder_core.model.build import build_model
from coder_core.runs.analysis import write_analysis
from coder_core.runs.checkpoint import SaveStore
from coder_core.runs.run_files import create_run
from coder_core.runs.status import write_status

WIDTH = 256
FEATURES = 64
CAPTIONS_AN_IMAGE = 5
LISTED = 10
WORDS = ("a", "dog", "two", "children", "red", "ball", "on", "the", "beach", "man", "riding", "wave", "grass", "city")
NAMES = {"baseline": ("btr-hardest", 4.0), "coder": ("dcl", 3.0)}  # loss, noise of the captions


def write_runs(root: Path, images: int) -> Path:
    """A baseline and a run to compare it with, both of `images` images and five times as many captions."""
    for seed, (name, (loss, noise)) in enumerate(NAMES.items()):
        _write_run(root, name, loss, noise, images, seed)
    return root


def _write_run(root: Path, name: str, loss: str, noise: float, images: int, seed: int) -> None:
    vocabulary = Vocabulary.build([" ".join(WORDS)] * 4, threshold=1)
    model = ModelConfig(dimension=WIDTH)
    config = Config(name=name, model=model, objective=ObjectiveConfig(loss=loss))  # type: ignore[arg-type]
    document = to_document(config) | {"about": {"feature_size": FEATURES, "created": "2026-01-01T00:00:00"}}
    folder = create_run(root / name, {"config.toml": tomli_w.dumps(document), "words.json": vocabulary.to_text()})
    untrained = build_model(model, feature_size=FEATURES, words=len(vocabulary), pretrained=False)
    SaveStore(folder / "best", keep=1).write("1", {"model": untrained.state_dict()}, {"metrics": {}})
    write_status(folder, "finished", step=1, steps=1)
    random = np.random.default_rng(seed)
    owner = np.repeat(np.arange(images), CAPTIONS_AN_IMAGE)
    v = random.standard_normal((images, WIDTH), dtype=np.float32)
    w = random.standard_normal((len(owner), WIDTH), dtype=np.float32)
    w *= noise
    w += v[owner]
    for matrix in (v, w):
        matrix /= np.linalg.norm(matrix, axis=1, keepdims=True)
    image_ranks, text_ranks = (np.minimum(random.geometric(0.2, n) - 1, images - 1) for n in (images, len(owner)))
    words = np.random.default_rng(7).integers(len(WORDS), size=(len(owner), 9))  # the same in both runs
    write_analysis(
        folder, "dev", image_embeddings=v, text_embeddings=w, image_of_text=owner,
        captions=[" ".join(WORDS[i] for i in row) for row in words.tolist()],
        image_names=[f"{i}.jpg" for i in range(images)], metrics={"rsum": 200.0, "i2t_r1": 20.0, "t2i_r1": 20.0},
        fingerprint="0" * 64, image_ranks=image_ranks, text_ranks=text_ranks,
        image_best=_listed(random, image_ranks, np.arange(images) * CAPTIONS_AN_IMAGE, len(owner)),
        text_best=_listed(random, text_ranks, owner, images), source="random",
    )  # fmt: skip


def _listed(random: np.random.Generator, ranks: np.ndarray, match: np.ndarray, candidates: int) -> np.ndarray:
    """(Q, 10) candidates at random, the match at its rank. A full ranking of the largest size would take hours."""
    found = random.integers(candidates, size=(len(ranks), LISTED))
    listed = np.flatnonzero(ranks < LISTED)
    found[listed, ranks[listed]] = match[listed]
    return found
