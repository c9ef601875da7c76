"""Small data sets of features and captions, and the folder of the real Flickr8k."""

import os
import re
from pathlib import Path

import numpy as np
import pytest

from coder_core.console.faults import InputError
from coder_core.data.dataset import read_split


def features(images=4, regions=3, size=5, dtype="<f4"):
    """Return (images, regions, size) random values between 0.5 and 1.5."""
    random = np.random.default_rng(images * 1000 + regions * 10 + size)
    return (random.random((images, regions, size)) + 0.5).astype(dtype)


def write_split(folder, split="train", *, array=None, captions=None, ids=None):
    """Write one split, by default 4 images and 8 captions, and return the folder. `captions` may be raw bytes."""
    folder.mkdir(parents=True, exist_ok=True)
    array = features() if array is None else array
    np.save(folder / f"{split}_ims.npy", array)
    if captions is None:
        captions = [f"a dog number {row} runs" for row in range(2 * len(array))]
    data = captions if isinstance(captions, bytes) else "".join(f"{line}\n" for line in captions).encode()
    (folder / f"{split}_caps.txt").write_bytes(data)
    if ids is not None:
        (folder / f"{split}_ids.txt").write_text("".join(f"{line}\n" for line in ids))
    return folder


def refusal(call, *arguments, **named):
    """Return the InputError that a call raises."""
    with pytest.raises(InputError) as caught:
        call(*arguments, **named)
    return caught.value


def assert_refused(match, call, *arguments, **named):
    """Assert that the call raises an InputError whose message matches the pattern somewhere."""
    text = str(refusal(call, *arguments, **named))
    assert re.search(match, text), text


def reason(path, split="train", **named):
    """Return the message with which a data set is refused."""
    return str(refusal(read_split, path, split, **named))


def places(folder):
    """Return the places (file, line) of the errors for which the train split of a folder is refused."""
    faults = refusal(read_split, folder, "train").faults
    return [fault.place.removeprefix(f"{folder}/") for fault in faults if fault.severity == "error"]


def real_flickr8k():
    """Return the real Flickr8k folder, in $CODER_DATA or in shared/data beside the repository; else skip the test."""
    given = os.environ.get("CODER_DATA")
    base = Path(given) if given else Path(__file__).resolve().parents[2].parent / "shared/data"
    folder = base / "flickr8k" if (base / "flickr8k").is_dir() else base
    if not (folder / "f8k_precomp").is_dir():
        pytest.skip(f"no real Flickr8k data at {folder}; set CODER_DATA to the folder that holds flickr8k/")
    return folder
