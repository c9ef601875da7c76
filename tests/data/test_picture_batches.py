"""Training batches of pictures: those that workers decode ahead are those of the same steps without workers."""

import numpy as np
import pytest
import torch

from coder_core.data import batches
from coder_core.data.batches import TrainingBatches
from coder_core.data.captioned.checking import PicturePreparation, read_picture_split
from coder_core.data.captioned.reading import read_captioned
from coder_core.data.features import UnreadableRowsError
from coder_core.data.words import Vocabulary
from tests.support.picture_folders import OF_SPLIT, flickr8k


def prepared(pixels):
    return np.asarray(pixels, np.float32).transpose(2, 0, 1)[:, ::4, ::4].copy()


def quiet(done, total, phase=""):
    pass


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Six train pictures with two captions each, decoded two at a time."""
    monkeypatch.setenv("CODER_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(batches, "DECODED_AT_ONCE", 2)
    flickr8k(tmp_path / "data")
    return tmp_path / "data"


def batches_of(folder, *, workers, **values):
    preparation = PicturePreparation(prepared, 7, None, workers, prepared)
    data = read_captioned(folder)
    split, _ = read_picture_split(data, "train", preparation, skip_broken=False, progress=quiet)
    tokens = Vocabulary.build(split.captions, threshold=1).encode(split.captions)
    return TrainingBatches(split, tokens, batch_size=10, seed=3, augment="crop-flip", **values)


@pytest.mark.parametrize("part", [0, 1])
def test_workers_decode_the_pictures_of_this_process_in_order(folder, part):
    ahead = batches_of(folder, workers=1, part=part, parts=2)
    alone = batches_of(folder, workers=0, part=part, parts=2)
    streamed = list(ahead.stream(1, 3))
    assert len(streamed) == 2
    for step, batch in enumerate(streamed, 1):
        expected = alone(step)
        for name, value in vars(batch).items():
            assert torch.equal(value, getattr(expected, name)), name
        assert batch.regions.shape == (5, 3, 10, 15)
        assert batch.region_lengths.tolist() == [7] * 5
    whole = batches_of(folder, workers=0)(1)
    assert torch.equal(streamed[0].regions, whole.regions[5 * part : 5 * part + 5])


def test_pictures_differ_from_step_to_step_only_if_they_are_changed(folder):
    changed = batches_of(folder, workers=0)
    plain = batches_of(folder, workers=0)
    plain.augment = "none"
    first = [plain(step) for step in (0, 0, 1)]
    assert torch.equal(first[0].regions, first[1].regions)
    assert not torch.equal(changed(0).regions, first[0].regions)
    assert torch.equal(changed(0).regions, changed(0).regions)
    pictures = {
        int(image): picture for image, picture in zip(first[0].image_ids, first[0].regions, strict=True)
    }
    for image, picture in zip(first[2].image_ids, first[2].regions, strict=True):
        assert torch.equal(pictures.get(int(image), picture), picture)


@pytest.mark.parametrize("workers", [0, 1])
def test_a_picture_that_disappears_is_named_while_training(folder, workers):
    data = batches_of(folder, workers=workers)
    lost = folder / "Flicker8k_Dataset" / OF_SPLIT["train"][2]
    lost.unlink()
    with pytest.raises(UnreadableRowsError, match=lost.name):
        list(data.stream(0, 1))
