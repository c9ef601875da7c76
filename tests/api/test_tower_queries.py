"""Runs whose own towers read pictures: new texts, new pictures, heat maps, and where their numbers come from."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from coder_core.api import InputError, Run, numbers_from, open_run
from coder_core.api.heat_maps import cosines, heat_map, heat_map_ways
from coder_core.api.retrieval.judged import probe_run
from coder_core.data.judgements import Probe
from coder_core.data.pictures import read_picture
from coder_core.model.towers.regions import boxes
from coder_core.training.launch import start_run
from tests.support.picture_folders import CAPTIONS, NAMES, SPLITS, draw
from tests.support.tiny_runs import quiet
from tests.support.tower_runs import tower_config, write_towers_and_data

DEV = [name for name in NAMES if SPLITS[name] == "dev"]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory, own_threads: None) -> Path:
    """ "tuned": both towers of CLIP, pooled as they were; "pooled": its frozen patches and a BiGRU, pooled here."""
    folder = write_towers_and_data(tmp_path_factory.mktemp("towers"))
    start_run(tower_config(folder, "tuned", epochs=1), folder / "runs", quiet())
    towers = {"text_tower": "", "text_tuning": "frozen", "image_tuning": "frozen", "projection": "linear"}
    poolings = {"image_pooling": "mean", "text_pooling": "mean"}
    sizes = {"dimension": 8, "word_size": 6, "word_threshold": 1}
    start_run(
        tower_config(folder, "pooled", epochs=1, **towers, **poolings, **sizes), folder / "runs", quiet()
    )
    return folder / "runs"


def encoded(run: Run, file: str) -> np.ndarray:
    return run.encode_picture(read_picture(draw(NAMES.index(file)), file), split="dev")


@pytest.mark.parametrize(("name", "kind"), [("tuned", "tuned towers"), ("pooled", "frozen towers")])
def test_new_texts_and_pictures_get_the_rows_they_had_as_samples(runs: Path, name: str, kind: str) -> None:
    run = open_run(runs / name)
    assert numbers_from(run.summary) == kind
    assert run.reads_pictures("dev")
    v, w = run.scoring("dev")
    np.testing.assert_allclose([encoded(run, file) for file in DEV], v, atol=1e-5)
    np.testing.assert_allclose(run.encode_text(CAPTIONS[DEV[1]]), w[2:4], atol=1e-5)
    assert len(run.search("a ring", split="dev", top=3)) == 3


def test_probes_of_pictures_outside_the_split(runs: Path, tmp_path: Path) -> None:
    run = open_run(runs / "tuned")
    train = [name for name in NAMES if SPLITS[name] == "train"][:2]
    for name in train:
        (tmp_path / name).write_bytes(draw(NAMES.index(name)))
    probes = [Probe("swap", name, CAPTIONS[name][0], CAPTIONS[DEV[1]][0]) for name in (*train, DEV[0])]
    table = probe_run(run, "dev", probes, pictures=str(tmp_path))
    assert table["picture"].tolist() == [*train, DEV[0]]
    rows = [encoded(run, name) for name in table["picture"]]
    for part in ("caption", "negative"):
        texts = run.encode_text([getattr(probe, part) for probe in probes])
        column = "score" if part == "caption" else part
        np.testing.assert_allclose(table[column], np.einsum("nd,nd->n", rows, texts), atol=1e-5)
    with pytest.raises(InputError, match="none of the 2"):
        probe_run(run, "dev", probes[:2], pictures=str(tmp_path / "empty"))


def test_words_meet_the_patches_of_a_tower_that_is_pooled_here(runs: Path) -> None:
    run, caption = open_run(runs / "pooled"), CAPTIONS[DEV[1]][1]
    assert heat_map_ways(run, "dev") == ("cosine",)
    picture = read_picture(draw(NAMES.index(DEV[1])), "new.jpg")
    heat, new = (heat_map(run, "dev", caption, image, "cosine") for image in (1, picture))
    words, patches = run.model.word_features(caption)[1], run.model.patch_features(picture)[0]
    np.testing.assert_allclose(heat.values, cosines(words, patches), atol=1e-5)
    np.testing.assert_allclose(new.values, heat.values, atol=1e-5)
    pooled = patches.mean(0) / np.linalg.norm(patches.mean(0))
    np.testing.assert_allclose(pooled, run.scoring("dev")[0][1], atol=1e-5)
    np.testing.assert_allclose(heat.boxes, boxes((1 / 6, 0, 5 / 6, 1), 4, 4), atol=1e-6)
    tuned = open_run(runs / "tuned")
    assert heat_map_ways(tuned, "dev") == ()
    with pytest.raises(InputError, match="pools inside its towers"):
        heat_map(tuned, "dev", caption, 1, "cosine")
