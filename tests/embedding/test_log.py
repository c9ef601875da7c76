"""Runs written by other people's training loops."""

import warnings

import numpy as np
import pytest
import torch
from PIL import Image

import coder_core
from coder_core.api import open_run
from coder_core.runs.analysis.read import open_analysis
from tests.support.precomp_folders import refusal
from tests.support.run_folders import reseal

CAPTIONS = [f"a thing that is number {number}" for number in range(6)]


def rows(seed=0, images=3, texts=6):
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(count, 4, generator=generator) * 5 for count in (images, texts)]


def test_logged_epochs_become_a_run(tmp_path, monkeypatch):
    pictures = [tmp_path / f"{number}.jpg" for number in range(3)]
    for picture in pictures:
        Image.new("RGB", (8, 8)).save(picture)

    folder = tmp_path / "runs" / "mine"
    named = {"captions": CAPTIONS, "pictures": pictures, "config": {"lr": 0.1}}
    for epoch in (1, 2):
        images, texts = rows(epoch)
        images = images.bfloat16().requires_grad_()
        texts = texts.half()
        metrics = coder_core.log_split(folder, "val", images, texts, epoch=epoch, **named)

    objectives = coder_core.__getattr__("objectives")  # an attribute before anything imports it
    assert hasattr(objectives, "CoderLoss")
    run = open_run(folder)
    scores = torch.nn.functional.normalize(images.float()) @ torch.nn.functional.normalize(texts.float()).T
    own = scores[torch.arange(6) // 2, torch.arange(6)]
    assert metrics["t2i_r1"] == pytest.approx(100 * float((own >= scores.amax(0)).float().mean()))
    assert run.metrics["dev"]["rsum"] == metrics["rsum"]
    assert run.history["epoch"].tolist() == [1, 2]
    assert run.history["metrics.rsum"].iloc[-1] == metrics["rsum"]
    assert run.picture("dev", 1) is not None
    assert run.summary.origin["files"]["lr"] == "0.1"
    monkeypatch.chdir(tmp_path)
    images, texts = rows()
    owners = torch.tensor([2, 1, 1, 0, 0, 0])
    named = {"captions": CAPTIONS, "image_of_text": owners}
    coder_core.log_split("mine", "test", images.double().numpy(), texts, **named)
    run = open_run(tmp_path / "checkpoints" / "mine")
    assert run.image_of_text("test").tolist() == owners.tolist()
    assert run.history.empty


def test_dev_is_what_the_curves_show_and_a_repeated_epoch_replaces_all_later_ones(tmp_path):
    run = tmp_path / "runs" / "mine"
    images = rows()[0]

    def logged(split, epoch, seed):
        texts = rows(seed)[1] + seed * images.repeat_interleave(2, 0)
        metrics = coder_core.log_split(run, split, images, texts, captions=CAPTIONS, epoch=epoch)
        return metrics["rsum"], dict(open_run(run).history[["epoch", "metrics.rsum"]].values.tolist())

    assert [list(logged("train", epoch, 2)[1]) for epoch in (1, 2, 3)] == [[1], [1, 2], [1, 2, 3]]
    first, curve = logged("Dev", 1, 0)
    assert curve == {1: first}
    assert logged("train", 1, 2) != logged("test", 2, 0)
    second, curve = logged("dev", 2, 1)
    assert curve == logged("train", 2, 2)[1] == {1: first, 2: second}
    assert list(logged("dev", 3, 2)[1]) == [1, 2, 3]
    third, curve = logged("dev", np.int64(2), 2)  # continued from epoch 1
    assert curve == {1: first, 2: third}
    assert logged("dev", 1.0, 2)[1] == {1: third}
    assert len({first, second, third}) == 3


def test_embeddings_that_cannot_be_right_give_warnings(tmp_path):
    n = 40
    generator = torch.Generator().manual_seed(0)
    images = torch.randn(n, 16, generator=generator)
    texts = images.repeat_interleave(2, 0) + 0.1 * torch.randn(2 * n, 16, generator=generator)
    pairs = images.repeat_interleave(2, 0)
    owners = torch.arange(n).repeat_interleave(2)

    def places(images, texts, **named):
        captions = [f"caption {number}" for number in range(len(texts))]
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            metrics = coder_core.log_split(tmp_path / "run", "dev", images, texts, captions=captions, **named)
        return metrics["t2i_r1"], [str(one.message).partition(":")[0] for one in caught]

    assert places(images, texts) == places(pairs, texts) == (100, [])
    order = torch.randperm(2 * n, generator=generator)
    assert places(pairs[order], texts[order], pictures=[f"{i}" for i in owners[order]]) == (100, [])
    assert places(images.flip(0), texts)[1] == ["R@1"]
    assert places(texts, texts)[1] == ["images and texts"]
    assert places(pairs[order], texts[order]) == (0, ["ties"])
    assert places(pairs * (1 + 0.01 * torch.rand(pairs.shape, generator=generator)), texts)[1] == ["images"]
    assert places(torch.ones(2 * n, 16), texts)[1] == ["images", "ties"]
    texts[:9] = texts[0]  # different captions, one embedding
    assert places(images, texts)[1] == ["texts"]


@pytest.mark.parametrize("name", ["captions", "images", "imported"])
def test_half_a_character_in_a_resealed_run_is_an_error_at_its_file(name, tmp_path):
    images, texts = rows()
    coder_core.log_split(tmp_path / "run", "dev", images, texts, captions=CAPTIONS, pictures=["a", "b", "c"])
    file = tmp_path / "run/analysis/dev" / f"{name}.json"
    written = file.read_text()
    file.write_text(written.replace('"', '"\\ud800', 1))
    reseal(file.parent)
    error = refusal(open_analysis(tmp_path / "run", "dev").document, name)
    assert error.faults[0].place == str(file)
    assert "half a character (a lone surrogate) in" in error.faults[0].found
    file.write_text(written.replace('"', '"\\ud83d\\ude00', 1))  # a whole one
    reseal(file.parent)
    assert "😀" in str(open_analysis(tmp_path / "run", "dev").document(name))


def test_epochs_counted_from_0_are_refused_with_the_remedy(tmp_path):
    images, texts = rows()
    error = refusal(coder_core.log_split, tmp_path / "run", "dev", images, texts, captions=CAPTIONS, epoch=0)
    assert "a whole number from 1. Count from 1: epoch=epoch + 1" in str(error)


@pytest.mark.parametrize(
    ("change", "where"),
    [
        ({"texts": torch.ones(6, 5)}, "texts"),
        ({"texts": torch.ones(6, 4).long()}, "texts"),
        ({"images": torch.ones(4, 4)}, "texts"),
        ({"images": torch.full((3, 4), torch.nan)}, "images"),
        ({"texts": torch.zeros(6, 4)}, "texts"),
        ({"captions": CAPTIONS[:5]}, "captions"),
        ({"captions": "abcdef"}, "captions"),
        ({"image_of_text": [0, 1, 2]}, "image_of_text"),
        ({"image_of_text": np.array([0, 1, 2, 3, 0, 0])}, "image_of_text"),
        ({"image_of_text": np.array([0, 1, 1, 0, 0, 0])}, "image_of_text"),
        *(({"captions": [*CAPTIONS[:5], empty]}, "captions") for empty in (" ", None, float("nan"))),
        *(({"epoch": epoch}, "epoch") for epoch in (0, -3, 1.5, "1", float("inf"))),
        ({"captions": [*CAPTIONS[:5], "caf\udce9"]}, "captions"),
        ({"pictures": ["a.jpg", "b.jpg", "\ud800.jpg"]}, "pictures"),
        ({"config": {"note": "\udfff"}}, "config"),
        ({"pictures": ["a.jpg"]}, "pictures"),
        ({"pictures": [__file__, __file__, "a.jpg"]}, "pictures"),
        ({"run": "a name that no folder has "}, "run"),
        ({"run": ""}, "run"),
    ],
)
def test_invalid_logs_are_named_and_write_nothing(change, where, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    images, texts = rows()
    arguments = {"run": "mine", "split": "dev", "images": images, "texts": texts, "captions": CAPTIONS}
    assert refusal(coder_core.log_split, **arguments | change).faults[0].place.startswith(where)
    assert list(tmp_path.iterdir()) == []
