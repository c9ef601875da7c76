"""Picture files: names inside the folder, photo formats, pixels as a viewer shows them."""

import struct
import subprocess
import sys
import zlib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from coder_core.data.dataset import read_split
from coder_core.data.pictures import decode, open_picture
from tests.support.precomp_folders import places, reason, refusal, write_split

ROOT = Path(__file__).resolve().parents[2]
UNSAFE = ["../x.jpg", "a/../../x.jpg", "/etc/passwd", "..", "a\\..\\b.jpg"]
UNSAFE += ["\\\\host\\x", "C:/x.jpg", "~/x.jpg", "a\0b"]
NAMES = ["a.png", "b.png", "c.png", "d.png"]
TURNED = Image.Exif()
TURNED[0x0112] = 6  # a camera turned on its side


@pytest.fixture
def folder(tmp_path):
    """A folder with four pictures."""
    (tmp_path / "images").mkdir()
    for name in NAMES:
        Image.new("RGB", (4, 3)).save(tmp_path / "images" / name)
    return tmp_path / "images"


def test_names_and_links_out_of_the_picture_folder_are_never_served(folder):
    (folder.parent / "x.jpg").write_bytes(b"outside")
    for name in UNSAFE:
        assert refusal(open_picture, folder, name).faults[0].place == f"picture {name!r}"
        if "\0" not in name:
            data = write_split(folder.parent / "data", ids=["a.jpg", name, "c.jpg", "d.jpg"])
            assert places(data) == [f"image 1, picture {name!r}"]
    (folder / NAMES[0]).rename(folder.parent / NAMES[0])
    (folder / NAMES[0]).symlink_to(folder.parent / NAMES[0])
    (folder / "sub").symlink_to(folder.parent)
    for name in (NAMES[0], f"sub/{NAMES[0]}"):
        assert refusal(open_picture, folder, name).faults[0].place == str(folder / name)
    (warning,) = read_split(write_split(folder.parent / "data", ids=NAMES), "train", pictures=folder).faults
    assert warning.severity == "warning"
    assert "1 of 4 pictures are links" in warning.found


def test_a_picture_folder_beside_the_data_is_found_and_missing_pictures_are_counted(tmp_path, folder):
    names = [NAMES[0], *(f"p{row}.png" for row in range(1, 14))]
    data = write_split(tmp_path / "data", array=np.ones((14, 2, 2), np.float32), ids=names)
    (warning,) = read_split(data, "train", pictures=folder).faults
    assert (warning.severity, "13 of 14" in warning.found) == ("warning", True)
    assert ("'p10.png'" in warning.found, "'p11.png'" in warning.found) == (True, False)
    data = write_split(tmp_path / "f8k_precomp", ids=NAMES)
    for path in (data, tmp_path):
        assert read_split(path, "train").picture_folder.resolve() == folder.resolve()
    write_split(data, ids=["x.png", *NAMES[1:]])
    assert read_split(data, "train").picture_folder is None
    assert str(tmp_path / "none") in reason(data, pictures=tmp_path / "none")


@pytest.mark.parametrize("ending", ["jpg", "png", "webp"])
def test_photo_formats_are_read_and_downscaled_and_truncated_ones_refused(folder, ending):
    path = folder / f"a.{ending}"
    Image.new("RGB", (400, 200), (200, 30, 30)).save(path)
    assert open_picture(folder, path.name).size == (400, 200)
    small = open_picture(folder, path.name, size=100)
    assert (small.mode, small.size) == ("RGB", (100, 50))
    assert np.abs(np.array(small).astype(int) - [200, 30, 30]).max() < 12
    Image.fromarray(np.random.default_rng(0).integers(0, 256, (64, 64, 3), dtype=np.uint8)).save(path)
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    assert refusal(open_picture, folder, path.name).faults[0].place == str(path)


def test_endings_are_optional_and_other_formats_or_too_many_pixels_refused(folder):
    assert open_picture(folder, "a").size == (4, 3)
    for name in ("none.png", "x" * 5_000):
        assert refusal(open_picture, folder, name).faults[0].place.startswith(f"{folder}, ")
    file = folder / "a.jpg"
    for kind in ("BMP", "GIF", "PPM", "HTML"):
        if kind == "HTML":
            file.write_text("<!doctype html><title>404</title>")
        else:
            Image.new("RGB", (4, 4)).save(file, format=kind)
        assert refusal(open_picture, folder, "a.jpg").faults[0].place == str(file)
    # Over 50 megapixels; 20 of WEBP, whose decoder holds four copies
    for width, height in ((10_000, 10_000), (10_000, 5_001), (60_000, 60_000)):
        (folder / "a.png").write_bytes(png_of(width, height))
        assert f"{width:,} × {height:,}" in str(refusal(open_picture, folder, "a.png")) or width == 60_000
    Image.new("RGB", (5_001, 4_000)).save(folder / "a.webp", lossless=True, quality=0, method=0)
    assert "20,000,000" in refusal(open_picture, folder, "a.webp").faults[0].expected


def test_tiff_is_read_except_from_a_browser_or_of_floats(folder):
    Image.new("RGB", (4, 3), "red").save(folder / "scan.tif")
    assert open_picture(folder, "scan").getpixel((1, 1)) == (255, 0, 0)
    Image.fromarray(np.full((3, 4), 0xFF00, "<u2")).save(folder / "c.tiff")
    assert open_picture(folder, "c.tiff").getpixel((1, 1)) == (254, 254, 254)
    Image.new("F", (4, 3), 0.5).save(folder / "d.tif")
    assert "floating-point" in str(refusal(open_picture, folder, "d.tif"))
    assert "cannot be decoded" in str(refusal(decode, (folder / "scan.tif").read_bytes(), "upload"))
    for ending in ("jfif", "jpe"):
        Image.new("RGB", (4, 3)).save(folder / f"e.{ending}", "JPEG")
        assert open_picture(folder, f"e.{ending}").size == (4, 3)


def test_colour_modes_transparency_and_rotation_are_normalised(folder):
    Image.new("CMYK", (40, 20), (0, 255, 255, 0)).save(folder / "a.jpg", exif=TURNED)
    opened = open_picture(folder, "a.jpg")
    red, green, blue = opened.getpixel((0, 0))
    assert red > 200 > 80 > max(green, blue)
    assert opened.size == (20, 40)
    assert open_picture(folder, "a.jpg", size=10).size == (5, 10)
    values = np.array([[0, 257, 32_768, 65_535]], dtype=np.uint16)  # scaled, not cut off
    Image.fromarray(values).save(folder / "a.png")
    assert np.array(open_picture(folder, "a.png"))[0, :, 0].tolist() == pytest.approx([0, 1, 127, 255], abs=1)
    picture = Image.new("RGBA", (4, 4), (0, 0, 0, 0))
    picture.putpixel((1, 1), (0, 0, 0, 255))
    for mode in ("RGBA", "LA", "P"):  # laid over white
        picture.convert(mode).save(folder / "a.png")
        opened = open_picture(folder, "a.png")
        assert [opened.getpixel((k, k)) for k in range(2)] == [(255, 255, 255), (0, 0, 0)]


def png_of(width, height):
    """Return a PNG file that claims a size but has hardly any data."""

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + header + chunk(b"IDAT", zlib.compress(b"\0" * 10)) + chunk(b"IEND", b"")


PEAK = """
import os, sys
from coder_core.data.pictures import open_picture
def peak():
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM")) / 1024
for name in sys.argv[2:]:
    if not os.fork():
        before = peak()
        open_picture(sys.argv[1], name, size=400)
        print(peak() - before, flush=True)
        os._exit(0)
    os.wait()
"""
PEAKS = {"RGBA.png": 155, "P.png": 85, "I;16.png": 100, "RGB.jpg": 20, "CMYK.jpg": 20}  # MiB


@pytest.mark.skipif(sys.platform != "linux", reason="reads the peak of memory from /proc")
def test_decoding_16_megapixels_takes_the_memory_of_one_copy(folder):
    """Decoded it takes up to 61 MiB, converted as a whole the same again; a JPEG is decoded at a reduced size."""
    for name in PEAKS:
        mode = name.partition(".")[0]
        transparent = {"transparency": 0} if mode == "P" else {}
        Image.new(mode, (4_000, 4_000)).save(folder / name, compress_level=1, **transparent)
    program = [sys.executable, "-c", PEAK, folder, *PEAKS]
    run = subprocess.run(program, cwd=ROOT, capture_output=True, text=True, check=True)
    peaks = dict(zip(PEAKS, map(float, run.stdout.split()), strict=True))
    assert all(peaks[name] < most for name, most in PEAKS.items()), peaks


@pytest.mark.parametrize("mode", ["RGB", "RGBA", "L", "P", "I;16"])
def test_decoding_in_bands_gives_the_same_upright_picture(folder, mode, monkeypatch):
    random = np.random.default_rng(0)
    colours = Image.fromarray(random.integers(0, 256, (83, 61, 4), dtype=np.uint8))
    picture = Image.fromarray(random.integers(0, 2**16, (83, 61), dtype=np.uint16))
    if mode != "I;16":
        picture = colours.convert("RGB" if mode == "P" else mode).convert(mode)
    picture.save(folder / "a.png", exif=TURNED)
    sizes = (None, 7, 30)
    wholes = [open_picture(folder, "a.png", size=size) for size in sizes]
    monkeypatch.setattr("coder_core.data.pictures.BAND_PIXELS", 300)
    for size, whole in zip(sizes, wholes, strict=True):
        assert np.array_equal(np.array(open_picture(folder, "a.png", size=size)), np.array(whole))
        assert max(whole.size) == (size or 83)
        assert whole.size[0] > whole.size[1]
