"""Open JPEG, PNG, WEBP and TIFF files inside a folder as upright RGB, and encode pictures as JPEG."""

import io
import os
import warnings
from pathlib import Path, PurePosixPath
from unicodedata import normalize

from PIL import ExifTags, Image, ImageOps, UnidentifiedImageError

from coder_core.console.faults import Fault, InputError
from coder_core.data.lines import FIRST_NAMED, count_cases, shown

FORMATS = ("JPEG", "PNG", "WEBP", "TIFF")
UPLOADED = ("JPEG", "PNG", "WEBP")  # formats of pictures from a browser
ENDINGS = (".jpg", ".jpeg", ".png", ".webp", ".jfif", ".jpe", ".tif", ".tiff")
OTHER_ENDINGS = (".bmp", ".gif", ".avif", ".heic")
ACCEPTED = "a whole JPEG, PNG, WEBP or TIFF file of at most 50 megapixels (WEBP: 20)"
MARKS = {b"BM": "BMP", b"GIF8": "GIF"}
MARKS |= {b"ftypavif": "AVIF", b"ftyphei": "HEIC"}
CONVERT = "convert them to JPEG, for example with ImageMagick: mogrify -format jpg FILES"
MOST_PIXELS = 50_000_000
MOST_PIXELS_OF = {"WEBP": 20_000_000}  # its decoder holds four copies of four bytes per pixel
BAND_PIXELS = 2_000_000  # converted at a time
USUAL_FOLDERS = ("images", "flickr30k-images")
NAMES_TRIED = 3
QUALITY = 86
MOST_BYTES = 10_000_000  # of an uploaded picture
INSIDE = "a name relative to the picture folder, without .. and \\"


def unsafe_reason(name: str) -> str:
    """Return why a picture name is unsafe and might lead out of its folder; "" if it is safe."""
    if not name or "\0" in name:
        return "is empty or contains a NUL"
    if "\\" in name:
        return "contains a backslash"
    if name.startswith(("/", "~")) or (name[0].isalpha() and name[1:2] == ":"):
        return "is an absolute path"
    return "contains .." if ".." in PurePosixPath(name).parts else ""


def picture_path(folder: Path, name: str) -> Path | None:
    """Find the file of a picture, or None; a name may omit its ending. InputError if it leads out of the folder."""
    reason = unsafe_reason(name)
    if reason:
        raise InputError.at(f"picture {shown(name)}", f"the name {reason}", INSIDE, "rename it")
    path = find_file(folder, name)
    if path is not None and not _inside(os.path.realpath(folder), path):
        raise InputError.at(path, "is a link out of the picture folder", INSIDE, "copy the file here")
    return path


def find_file(folder: Path, name: str) -> Path | None:
    """Find the file of a safe name, following any link; accented letters may be composed (NFC) or not (NFD)."""
    forms = [name] if name.isascii() else [name, *(normalize(form, name) for form in ("NFC", "NFD"))]
    names = (form + end for form in forms for end in ("", *ENDINGS))
    try:
        return next((path for each in names if (path := folder / each).is_file()), None)
    except OSError:  # a name too long for the file system
        return None


def _inside(real_folder: str, path: Path) -> bool:
    return os.path.realpath(path).startswith(real_folder + os.sep)


def open_picture(folder: str | Path, name: str, *, size: int | None = None) -> Image.Image:
    """Decode one picture completely, as upright RGB. CMYK and palettes are converted, transparency becomes white,
    16-bit grey is scaled to 8 bits, and EXIF rotation is applied. A larger picture is scaled down to `size` pixels on
    its longest side. InputError: missing, outside the folder, not JPEG, PNG or WEBP, cut short, or over 50 megapixels
    (WEBP: 20)."""
    path = picture_path(Path(folder), name)
    if path is None:
        where = f"{folder}, {shown(name)}"
        raise InputError.at(where, "there is no such picture", "a JPEG, PNG, WEBP or TIFF file")
    return _open(path, str(path), size)


def read_picture(content: bytes, name: str, *, size: int | None = None) -> Image.Image:
    """Decode the content of a picture file as `open_picture` does; `name` is for messages only. InputError: not JPEG,
    PNG, WEBP or TIFF, cut short, or over 50 megapixels (WEBP: 20)."""
    return _open(io.BytesIO(content), shown(name), size)


def read_scaled(content: bytes, name: str, shorter: int) -> Image.Image:
    """Decode the content of a picture file and scale it down to `shorter` pixels on its shorter side, with Pillow's
    bicubic filter; a smaller picture stays as it is. A JPEG whose sides are at least four times that long is decoded at
    a reduced scale that leaves at least twice as much (Pillow's draft mode), so its pixels differ slightly from those of
    the whole picture scaled down. InputError: as for `read_picture`."""
    picture = _open(io.BytesIO(content), shown(name), None, at_least=2 * shorter)
    least = min(picture.size)
    if least <= shorter:
        return picture
    width, height = (round(side * shorter / least) for side in picture.size)
    return picture.resize((width, height), Image.Resampling.BICUBIC)


def decode(content: bytes, name: str, *, size: int | None = None) -> Image.Image:
    """Decode an uploaded picture. InputError: over 10,000,000 bytes, TIFF, or as for
    `read_picture`."""
    if len(content) > MOST_BYTES:
        problem = f"has {len(content):,} bytes"
        expected = f"at most {MOST_BYTES:,}"
        raise InputError.at("the picture", problem, expected, "make it smaller")
    return _open(io.BytesIO(content), shown(name), size, UPLOADED)


def jpeg(picture: Image.Image) -> bytes:
    """Encode a picture as JPEG."""
    buffer = io.BytesIO()
    picture.save(buffer, "JPEG", quality=QUALITY)
    return buffer.getvalue()


def _open(
    file: Path | io.BytesIO,
    where: str,
    size: int | None,
    formats: tuple[str, ...] = FORMATS,
    *,
    at_least: int | None = None,
) -> Image.Image:
    """Decode a picture. size: the longest side of the result. at_least: a JPEG may be decoded at a reduced scale that
    leaves this much of both sides."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)  # the cap below is stricter
            with Image.open(file, formats=formats) as picture:
                return _decode(picture, where, size, at_least)
    except InputError:
        raise
    except (OSError, ValueError, SyntaxError, EOFError, Image.DecompressionBombError) as error:
        reason = _other_format(file) if isinstance(error, UnidentifiedImageError) else str(error)[:200]
        fix = "copy it again, or convert it to JPEG"
        raise InputError.at(where, f"cannot be decoded: {reason}", ACCEPTED, fix) from None


def _other_format(file: Path | io.BytesIO) -> str:
    content = file.getvalue() if isinstance(file, io.BytesIO) else file.read_bytes()
    for mark, kind in MARKS.items():
        if content.startswith(mark) or content[4:].startswith(mark):
            return f"the format is {kind}, which is not supported"
    return "the format is unknown"


def _decode(picture: Image.Image, where: str, size: int | None, at_least: int | None = None) -> Image.Image:
    width, height = picture.size
    most = MOST_PIXELS_OF.get(picture.format or "", MOST_PIXELS)
    if width * height > most:
        problem = f"has {width:,} × {height:,} pixels, more than {most // 1_000_000} megapixels"
        raise InputError.at(where, problem, f"at most {most:,} pixels", "scale it down")
    if picture.mode == "F":
        problem = "has pixels of floating-point numbers, whose range is unknown"
        raise InputError.at(where, problem, "8 or 16 bits per channel", "convert it to JPEG or PNG")

    reduced = size if size is not None else at_least
    if reduced is not None:
        picture.draft("RGB", (reduced, reduced))  # a JPEG is decoded at a reduced scale

    picture.load()
    image = _reduce(picture, size)
    image.getexif()[ExifTags.Base.Orientation] = picture.getexif().get(ExifTags.Base.Orientation, 1)
    ImageOps.exif_transpose(image, in_place=True)
    if size is not None:
        image.thumbnail((size, size))

    return image


def _reduce(picture: Image.Image, size: int | None) -> Image.Image:
    """Convert a picture to RGB and shrink it by a whole factor that leaves at least twice `size`, a band of rows at a
    time. So only one copy of a large picture is in memory, as decoded, and not another one per conversion."""
    width, height = picture.size
    factor = max(1, max(width, height) // (2 * size)) if size is not None else 1
    reduced = Image.new("RGB", (-(-width // factor), -(-height // factor)))
    rows = max(1, BAND_PIXELS // (width * factor)) * factor
    for top in range(0, height, rows):
        band = _to_rgb(picture.crop((0, top, width, min(top + rows, height))))
        reduced.paste(band.reduce(factor) if factor > 1 else band, (0, top // factor))
    return reduced


def _to_rgb(picture: Image.Image) -> Image.Image:
    if picture.mode.startswith("I"):  # 16-bit grey: convert() would saturate at 255
        picture = picture.convert("I").point(lambda value: value * (1 / 257)).convert("L")
    if picture.has_transparency_data:
        layer = picture.convert("RGBA")
        return Image.alpha_composite(Image.new("RGBA", layer.size, "white"), layer).convert("RGB")
    return picture.convert("RGB")


def given_folder(folder: str | Path) -> Path:
    """Return the picture folder that a user named; InputError if it does not exist."""
    if not Path(folder).is_dir():
        raise InputError.at(folder, "there is no such folder", "the folder of the pictures", "check the path")
    return Path(folder)


def find_pictures(root: Path, layout: Path, given: str | Path | None, names: list[str] | None) -> Path | None:
    """Find the picture folder: the given one, or one of `USUAL_FOLDERS` beside the data with the first pictures."""
    if given is not None:
        return given_folder(given)
    first = (names or [])[:NAMES_TRIED]
    if not first or any(unsafe_reason(name) for name in first):
        return None
    parents = [root, root.resolve().parent] if root.resolve().name.endswith("precomp") else [root]
    for folder in (parent / usual for parent in parents for usual in USUAL_FOLDERS):
        if folder.is_dir() and all(find_file(folder, name) for name in first):
            return folder
    return None


def check_pictures(folder: Path | None, names: list[str] | None, *, asked: bool) -> list[Fault]:
    """Report unsafe picture names as errors; count missing pictures and links out of the folder in warnings."""
    if names is None:
        problem = "the data names no pictures, so none can be shown"
        expected = "{split}_ids.txt, or embed import --ids, with the file names"
        return [Fault(str(folder), problem, expected, severity="warning")] if asked else []

    unsafe = [(row, name, reason) for row, name in enumerate(names) if (reason := unsafe_reason(name))]
    faults = [
        Fault(f"image {row}, picture {shown(name)}", f"the name {reason}", INSIDE, "rename it")
        for row, name, reason in unsafe[:FIRST_NAMED]
    ]
    if folder is None or unsafe:
        return faults

    missing = []
    linked = []
    real_folder = os.path.realpath(folder)
    for name in names:
        path = find_file(folder, name)
        if path is None:
            missing.append(name)
        elif not _inside(real_folder, path):
            linked.append(name)

    outside = "are links out of the folder, which the app does not show"
    for cases, problem, fix in (
        (missing, "are missing", "check the picture folder; training does not need it"),
        (linked, outside, "copy them, or name their own folder"),
    ):
        faults += count_cases(folder, f"of {len(names):,} pictures {problem}", [*map(shown, cases)], fix=fix)

    return faults
