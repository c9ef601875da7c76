"""Make the demo data set: one folder, written under a temporary name and renamed when it is complete.

Beside the files of the precomp layout: images/, the pictures; side/{split}_vagueness.txt, one number per caption from 0
(exact) to 1 (fits every picture); side/{split}_scenes.json, the scenes; side/standard.json, mean and deviation of every
raw feature over train, which standardise new pictures; demo.json, version, seed and every file's size, written last.
"""

import hashlib
import io
import json
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from PIL import Image, ImageOps

from coder_core.console.faults import InputError
from coder_core.console.output import Progress, silent
from coder_core.console.plain_files import sync
from coder_core.demo.captions import Caption, write_captions
from coder_core.demo.drawing import draw_scene
from coder_core.demo.features import WIDTH, Array, cell_features, region_features, standardise
from coder_core.demo.scenes import SIDE, Scene, sample_scene
from coder_core.files.atomic import appearing

DEMO_FOLDER = Path(".cache/demo")
DRAWING = "drawing the demo pictures"  # phase of a progress
VERSION = 3  # raise it when the same seed gives other files
SHARES = {"dev": 0.12, "test": 0.12}  # the rest is train
CARD = "demo.json"
STANDARD = "side/standard.json"
DEMO_FILES = {CARD, "images", "side"} | {
    f"{split}_{part}" for split in ("train", "dev", "test") for part in ("ims.npy", "caps.txt", "ids.txt")
}
JPEG = {"quality": 92, "subsampling": 0}  # without subsampling, edges of colours stay sharp
WORKERS = 2


@dataclass(frozen=True)
class _Sample:
    scene: Scene
    captions: list[Caption]
    picture: bytes
    cells: Array


class _AlreadyMadeError(Exception):
    """Another process has made the same data in the meantime."""


def make_demo(folder: Path, *, seed: int = 0, images: int = 1000, progress: Progress = silent) -> Path:
    """Write the demo data set of this many pictures (12% are dev, 12% test), unless it exists already; return `folder`.
    ValueError: fewer than 10 images, or a negative seed. InputError: the folder holds something else, which is left
    untouched, or it cannot be written."""
    if images < 10:
        raise ValueError(f"images must be at least 10, got {images}")
    if seed < 0:
        raise ValueError(f"seed must not be negative, got {seed}")
    folder = Path(folder)
    if _is_finished(folder, seed, images):
        return folder
    _refuse_other_files(folder)
    with suppress(_AlreadyMadeError), appearing(folder, replace=True) as draft:
        if _is_finished(folder, seed, images):
            raise _AlreadyMadeError
        _write(draft, seed, images, progress)
    return folder


def vagueness(folder: Path, split: str) -> np.ndarray:
    """Read the vagueness of a split's captions: (m,) float64, 0 names two things in full, 1 fits every picture."""
    return np.loadtxt(Path(folder) / "side" / f"{split}_vagueness.txt", dtype=np.float64, ndmin=1)


def _sample(seed: int, index: int) -> _Sample:
    scene = sample_scene(seed, index)
    file = io.BytesIO()
    Image.fromarray(draw_scene(scene)).save(file, "JPEG", **JPEG)
    with Image.open(file) as picture:  # features are computed from the decoded file
        pixels = np.asarray(picture)
    return _Sample(scene, write_captions(scene), file.getvalue(), cell_features(pixels))


def _write(draft: Path, seed: int, images: int, progress: Progress) -> None:
    (draft / "images").mkdir()
    (draft / "side").mkdir()
    samples: list[_Sample] = []
    with ThreadPoolExecutor(WORKERS) as pool:  # NumPy and Pillow release the GIL
        for sample in pool.map(lambda index: _sample(seed, index), range(images)):
            samples.append(sample)
            progress(len(samples), images)

    features = region_features(np.stack([sample.cells for sample in samples]))
    held_out = {split: max(1, round(share * images)) for split, share in SHARES.items()}
    sizes = {"train": images - sum(held_out.values()), **held_out}
    train = features[: sizes["train"]]
    mean = train.mean((0, 1))
    deviation = train.std((0, 1))
    standard = {"mean": mean.tolist(), "deviation": deviation.tolist()}
    (draft / STANDARD).write_text(json.dumps(standard), encoding="utf-8")
    start = 0
    for split, count in sizes.items():
        rows = slice(start, start + count)
        np.save(draft / f"{split}_ims.npy", standardise(features[rows], mean, deviation))
        _write_split(draft, split, samples[rows])
        start += count

    _write_card(draft, seed, images)


def _write_split(draft: Path, split: str, samples: list[_Sample]) -> None:
    names = [f"{split}_{number:04d}.jpg" for number in range(len(samples))]
    for name, sample in zip(names, samples, strict=True):
        (draft / "images" / name).write_bytes(sample.picture)
    captions = [caption for sample in samples for caption in sample.captions]
    _write_lines(draft / f"{split}_ids.txt", names)
    _write_lines(draft / f"{split}_caps.txt", [caption.text for caption in captions])
    _write_lines(draft / "side" / f"{split}_vagueness.txt", [str(caption.vagueness) for caption in captions])
    scenes = {name: asdict(sample.scene) for name, sample in zip(names, samples, strict=True)}
    (draft / "side" / f"{split}_scenes.json").write_text(json.dumps(scenes, indent=1), encoding="utf-8")


def _write_lines(path: Path, lines: list[str]) -> None:
    path.write_bytes("".join(f"{line}\n" for line in lines).encode())


def _write_card(draft: Path, seed: int, images: int) -> None:
    """Write demo.json: version, seed, number of images, every file's size, and one sha256 over names and contents."""
    digest = hashlib.sha256()
    sizes = {}
    for path in sorted(path for path in draft.rglob("*") if path.is_file()):
        name = path.relative_to(draft).as_posix()
        content = path.read_bytes()
        sizes[name] = len(content)
        digest.update(f"{name} {len(content)}\n".encode() + content)
    card = {"version": VERSION, "seed": seed, "images": images, "sha256": digest.hexdigest(), "bytes": sizes}
    (draft / CARD).write_text(json.dumps(card, indent=1), encoding="utf-8")
    sync(draft / CARD)


def _is_finished(folder: Path, seed: int, images: int) -> bool:
    """True if demo.json names this version, seed and size, and every file in it has its size."""
    try:
        card = json.loads((folder / CARD).read_text(encoding="utf-8"))
        if [card["version"], card["seed"], card["images"]] != [VERSION, seed, images]:
            return False
        return all((folder / name).stat().st_size == size for name, size in card["bytes"].items())
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return False


def _refuse_other_files(folder: Path) -> None:
    """Raise InputError for a folder that has other files or lacks demo.json, because it may have a user's data."""
    if not folder.exists() and not folder.is_symlink():
        return
    names = {path.name for path in folder.iterdir()} if folder.is_dir() else {folder.name}
    if names and (CARD not in names or not names <= DEMO_FILES):
        contents = ", ".join(sorted(names - DEMO_FILES)[:3]) or f"files but no {CARD}"
        expected = "an empty folder or earlier demo data"
        raise InputError.at(folder, f"contains {contents}", expected, "choose another folder")


def makes_features(picture_folder: str) -> bool:
    """True for the picture folder of the built-in data set, whose features are computed from pixels."""
    root = Path(picture_folder).parent
    return bool(picture_folder) and (root / CARD).is_file() and (root / STANDARD).is_file()


def features_of(picture_folder: str, picture: Image.Image) -> Array:
    """Compute the (REGIONS, WIDTH) standardised features of a picture, cropped to its middle square. InputError: the
    data set's features are not computed from pixels, or the file of their mean and deviation is damaged."""
    if not makes_features(picture_folder):
        problem = "region features come from files, so a new picture cannot be encoded"
        raise InputError.at("a new picture", problem, "a run on the built-in data set")

    path = Path(picture_folder).parent / STANDARD
    try:
        standard = json.loads(path.read_text(encoding="utf-8"))
        mean = np.asarray(standard["mean"], dtype=np.float32)
        deviation = np.asarray(standard["deviation"], dtype=np.float32)
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise InputError.at(path, f"cannot be read ({error})", fix="make the demo data again") from None

    if mean.shape != (WIDTH,) or deviation.shape != (WIDTH,) or not np.isfinite([mean, deviation]).all():
        raise InputError.at(path, f"has {mean.size} means", f"{WIDTH} finite ones", "make it again")
    if picture.size != (SIDE, SIDE):
        picture = ImageOps.fit(picture, (SIDE, SIDE), Image.Resampling.BILINEAR)

    cells = cell_features(np.asarray(picture.convert("RGB")))
    return standardise(region_features(cells[None])[0], mean, deviation)
