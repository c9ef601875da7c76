"""A new picture as a query: encoded where features come from pixels, the look-alike where they do not."""

from __future__ import annotations

import io
import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from coder_core.api import InputError, Run, decode, open_run
from coder_core.api.retrieval import look_alike
from coder_core.data.content.report import tiny_image
from coder_core.demo import make_demo
from coder_core.demo.making import STANDARD, features_of, makes_features
from tests.support.run_folders import write_run


def png(picture: Image.Image) -> bytes:
    buffer = io.BytesIO()
    picture.save(buffer, "PNG")
    return buffer.getvalue()


def test_the_demo_makes_the_features_of_a_picture_and_names_a_damaged_standard(tmp_path: Path) -> None:
    demo = make_demo(tmp_path / "demo", images=14)
    stored, names = np.load(demo / "dev_ims.npy"), (demo / "dev_ids.txt").read_text().split()
    folder = str(demo / "images")
    assert makes_features(folder)
    for row, name in enumerate(names):
        picture = decode((demo / "images" / name).read_bytes(), name)
        np.testing.assert_allclose(features_of(folder, picture), stored[row], atol=1e-5)
    assert features_of(folder, Image.new("RGB", (640, 480), "red")).shape == stored.shape[1:]
    copy = shutil.copytree(demo, tmp_path / "copy")
    for content in ("{", '{"mean": [1], "deviation": [1]}', "[]", '{"mean": "x", "deviation": 1}'):
        (copy / STANDARD).write_text(content)
        with pytest.raises(InputError, match=r"standard\.json"):
            features_of(str(copy / "images"), Image.new("RGB", (64, 64)))


def test_other_data_cannot_encode_a_picture(run: Run) -> None:
    assert not run.reads_pictures("dev")
    with pytest.raises(InputError, match="region features come from files"):
        run.encode_picture(Image.new("RGB", (64, 64)), split="dev")


def test_the_look_alike_of_a_picture_of_the_split_is_itself(run: Run, tmp_path: Path) -> None:
    pictured = open_run(write_run(tmp_path / "runs", "x", images=12))
    for image in (0, 7):
        content = (tmp_path / "runs-pictures" / f"{image}.png").read_bytes()
        nearest = look_alike(pictured, decode(content, "mine"), split="dev")
        assert (nearest.image, nearest.of) == (image, 12)
        assert nearest.likeness > 0.999
    assert look_alike(pictured, Image.new("RGB", (9, 9), "red"), split="dev", at_most=3).of == 3
    with pytest.raises(InputError, match="no readable picture"):
        look_alike(run, Image.new("RGB", (9, 9)), split="dev")


def test_a_tiny_image_has_mean_0_and_length_1_and_grey_is_safe() -> None:
    tiny = tiny_image(Image.effect_noise((40, 30), 80).convert("RGB"))
    assert tiny.mean() == pytest.approx(0, abs=1e-6)
    assert np.linalg.norm(tiny) == pytest.approx(1, abs=1e-5)
    assert np.isfinite(tiny_image(Image.new("RGB", (8, 8), "grey"))).all()


@pytest.mark.parametrize(
    ("content", "fact"),
    [
        (b"<html><script>alert(1)</script></html>", "cannot be decoded"),
        (b"", "cannot be decoded"),
        (png(Image.new("RGB", (40, 40)))[:60], "cannot be decoded"),
        (b"GIF89a" + bytes(40), "cannot be decoded"),
        (b"x" * 10_000_001, "10,000,000"),
        (png(Image.new("1", (10_000, 10_000))), "50,000,000"),
    ],
)
def test_what_is_no_picture_is_refused(content: bytes, fact: str) -> None:
    with pytest.raises(InputError, match=fact):
        decode(content, "../../evil\n.jpg")
