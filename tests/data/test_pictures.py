"""Picture files: names that stay inside, formats that are photos, pixels that are what a person sees."""

import struct
import subprocess
import sys
import zlib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from coder_core.data.dataset import read_split
from coder_core.data.pictures import open_picture
from tests.support.precomp_folders import reason, refusal, write_split

ROOT = Path(__file__).resolve().parents[2]
UNSAFE = ["../x.jpg", "a/../../x.jpg", "/etc/passwd", "..", "a\\..\\b.jpg"]
UNSAFE += ["\\\\host\\x", "C:/x.jpg", "~/x.jpg", "a\0b"]


@pytest.fixture
def folder(tmp_path):
    made = tmp_path / "images"
    made.mkdir()
    return made


def paint(folder, *names):
    for name in names:
        Image.new("RGB", (4, 3)).save(folder / name)


@pytest.mark.parametrize("name", UNSAFE)
def test_names_that_lead_out_are_refused(folder, name):
    (folder.parent / "x.jpg").write_bytes(b"outside")
    assert refusal(open_picture, folder, name).faults[0].place == f"picture {name!r}"
    if "\0" not in name:
        data = write_split(folder.parent / "data", ids=["a.jpg", name, "c.jpg", "d.jpg"])
        assert "image 1, picture" in reason(data)


def test_links_out_of_the_folder_are_read_around_and_never_served(folder):
    paint(folder.parent, "outside.png")
    paint(folder, "b.png", "c.png", "d.png")
    (folder / "inside.png").symlink_to(folder.parent / "outside.png")
    (folder / "sub").symlink_to(folder.parent)
    for name in ("inside.png", "sub/outside.png"):
        assert refusal(open_picture, folder, name).faults[0].place == str(folder / name)
    data = write_split(folder.parent / "data", ids=["inside.png", "b.png", "c.png", "d.png"])
    (warning,) = read_split(data, "train", pictures=folder).faults
    assert warning.severity == "warning"
    assert "1 of 4 pictures are links" in warning.found


def test_missing_pictures_are_counted_and_the_first_ten_named(tmp_path, folder):
    names = [f"p{row}.png" for row in range(14)]
    paint(folder, names[0])
    data = write_split(tmp_path / "data", array=np.ones((14, 2, 2), np.float32), ids=names)
    (warning,) = read_split(data, "train", pictures=folder).faults
    assert warning.severity == "warning"
    assert "13 of 14" in warning.found
    assert ("'p10.png'" in warning.found, "'p11.png'" in warning.found) == (True, False)


def test_a_picture_folder_beside_the_data_is_found(tmp_path, folder):
    paint(folder, "a.png", "b.png", "c.png", "d.png")
    data = write_split(tmp_path / "f8k_precomp", ids=["a.png", "b.png", "c.png", "d.png"])
    for path in (data, tmp_path):
        assert read_split(path, "train").picture_folder.resolve() == folder.resolve()
    write_split(data, ids=["x.png", "b.png", "c.png", "d.png"])
    assert read_split(data, "train").picture_folder is None
    assert str(tmp_path / "none") in reason(data, pictures=tmp_path / "none")


def test_a_name_may_omit_its_ending(folder):
    paint(folder, "12.png")
    assert open_picture(folder, "12").size == (4, 3)
    for name in ("none.png", "x" * 5_000):
        assert refusal(open_picture, folder, name).faults[0].place.startswith(f"{folder}, ")


@pytest.mark.parametrize("ending", ["jpg", "png", "webp"])
def test_photo_formats_are_read_and_made_smaller_and_a_cut_one_is_refused(folder, ending):
    path = folder / f"a.{ending}"
    Image.new("RGB", (400, 200), (200, 30, 30)).save(path)
    assert open_picture(folder, path.name).size == (400, 200)
    small = open_picture(folder, path.name, size=100)
    assert (small.mode, small.size) == ("RGB", (100, 50))
    assert np.abs(np.array(small).astype(int) - [200, 30, 30]).max() < 12
    random = np.random.default_rng(0).integers(0, 256, (64, 64, 3), dtype=np.uint8)
    Image.fromarray(random).save(path)
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    assert refusal(open_picture, folder, path.name).faults[0].place == str(path)


@pytest.mark.parametrize("kind", ["BMP", "GIF", "TIFF", "PPM", "HTML"])
def test_other_formats_are_refused(folder, kind):
    if kind == "HTML":
        (folder / "a.jpg").write_text("<!doctype html><title>404</title>")
    else:
        Image.new("RGB", (4, 4)).save(folder / "a.jpg", format=kind)
    assert refusal(open_picture, folder, "a.jpg").faults[0].place == str(folder / "a.jpg")


def test_cmyk_becomes_rgb(folder):
    Image.new("CMYK", (4, 4), (0, 255, 255, 0)).save(folder / "a.jpg")
    red, green, blue = open_picture(folder, "a.jpg").getpixel((0, 0))
    assert red > 200
    assert max(green, blue) < 80


@pytest.mark.parametrize("mode", ["RGBA", "LA", "P"])
def test_transparency_is_laid_over_white(folder, mode):
    picture = Image.new("RGBA", (4, 4), (0, 0, 0, 0))
    picture.putpixel((1, 1), (0, 0, 0, 255))
    picture.convert(mode).save(folder / "a.png")
    opened = open_picture(folder, "a.png")
    assert opened.getpixel((0, 0)) == (255, 255, 255)
    assert opened.getpixel((1, 1)) == (0, 0, 0)


def test_sixteen_bits_are_scaled_not_cut_off(folder):
    values = np.array([[0, 257, 32_768, 65_535]], dtype=np.uint16)
    Image.fromarray(values).save(folder / "a.png")
    assert np.array(open_picture(folder, "a.png"))[0, :, 0].tolist() == pytest.approx([0, 1, 127, 255], abs=1)


def test_a_photo_of_a_camera_turned_on_its_side_is_turned_back(folder):
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.new("RGB", (40, 20), "white").save(folder / "a.jpg", exif=exif)
    assert open_picture(folder, "a.jpg").size == (20, 40)
    assert open_picture(folder, "a.jpg", size=10).size == (5, 10)


def png_of(width, height):
    """A PNG that claims a size, with next to no data."""

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + header + chunk(b"IDAT", zlib.compress(b"\0" * 10)) + chunk(b"IEND", b"")


@pytest.mark.parametrize(("width", "height"), [(10_000, 10_000), (10_000, 5_001), (60_000, 60_000)])
def test_over_fifty_megapixels_is_refused_before_decoding(folder, width, height):
    (folder / "a.png").write_bytes(png_of(width, height))
    assert f"{width:,} × {height:,}" in str(refusal(open_picture, folder, "a.png")) or width == 60_000


PEAK = """
import sys
from coder_core.data.pictures import open_picture
def peak():
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM")) / 1024
before = peak()
open_picture(sys.argv[1], sys.argv[2], size=400)
print(peak() - before)
"""
PEAKS = {
    ("RGBA", "png"): 300,
    ("P", "png"): 150,
    ("I;16", "png"): 200,
    ("RGB", "jpg"): 60,
    ("CMYK", "jpg"): 60,
}


@pytest.mark.skipif(sys.platform != "linux", reason="reads the peak of memory from /proc")
@pytest.mark.parametrize(("mode", "ending"), PEAKS)
def test_a_small_file_of_49_megapixels_takes_the_memory_of_one_copy(folder, mode, ending):
    """Decoded it is 187 MiB; a JPEG is decoded at a reduced size."""
    picture = Image.new(mode, (7_000, 7_000))
    transparent = {"transparency": 0} if mode == "P" else {}
    picture.save(folder / f"a.{ending}", compress_level=1, **transparent)
    program = [sys.executable, "-c", PEAK, folder, f"a.{ending}"]
    run = subprocess.run(program, cwd=ROOT, capture_output=True, text=True, check=True)
    assert float(run.stdout) < PEAKS[mode, ending]


def test_a_large_webp_is_refused_because_its_decoder_holds_four_copies(folder):
    Image.new("RGB", (5_001, 4_000)).save(folder / "a.webp", lossless=True, quality=0, method=0)
    assert "20,000,000" in refusal(open_picture, folder, "a.webp").faults[0].expected


@pytest.mark.parametrize("mode", ["RGB", "RGBA", "L", "P", "I;16"])
@pytest.mark.parametrize("size", [None, 7, 30])
def test_bands_of_rows_join_to_the_whole_picture_turned_upright(folder, mode, size, monkeypatch):
    random = np.random.default_rng(0)
    colours = Image.fromarray(random.integers(0, 256, (83, 61, 4), dtype=np.uint8))
    picture = Image.fromarray(random.integers(0, 2**16, (83, 61), dtype=np.uint16))
    if mode != "I;16":
        picture = colours.convert("RGB" if mode == "P" else mode).convert(mode)
    exif = Image.Exif()
    exif[0x112] = 6  # a camera turned on its side
    picture.save(folder / "a.png", exif=exif)
    whole = open_picture(folder, "a.png", size=size)
    monkeypatch.setattr("coder_core.data.pictures.BAND_PIXELS", 300)
    assert np.array_equal(np.array(open_picture(folder, "a.png", size=size)), np.array(whole))
    assert max(whole.size) == (size or 83)
    assert whole.size[0] > whole.size[1]
