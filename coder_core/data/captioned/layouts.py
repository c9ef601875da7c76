"""The layouts, in the order in which they are tried."""

from pathlib import Path

from coder_core.config.data import ReadingArguments
from coder_core.console.faults import Fault, InputError
from coder_core.data.captioned.annotated import COCO, FIELD, PICTURE_FOLDERS
from coder_core.data.captioned.archives import ARCHIVES, TEXT_FILES
from coder_core.data.captioned.flickr import FLICKR
from coder_core.data.captioned.inventory import unrecognised
from coder_core.data.captioned.records import LOOKS, Layout, folder_of
from coder_core.data.captioned.tables import table_layout

SPECIFIC = (*FIELD, *FLICKR, COCO, *ARCHIVES)
LAYOUTS = (*SPECIFIC, table_layout(), TEXT_FILES)
FEATURES = ("*_ims.npy", "ims.npy", "features.npy")
FORMATS = tuple(layout.name for layout in LAYOUTS)


def recognise(path: Path) -> tuple[Layout, str] | None:
    """The layout of a path and why, in words; None for an unknown one."""
    return next(((layout, why) for layout in LAYOUTS if (why := layout.recognise(path))), None)


def holds_pictures_only(path: Path, pictures: Path | None = None) -> bool:
    """True if a data set has pictures with captions and no region features, so that it is read for its pictures.

    Captions in the precomp or Karpathy's layout may miss features that were forgotten: their pictures must be there.
    """
    root = folder_of(path)
    folders = [root, root / "precomp", *root.glob("*_precomp")]
    if any(entry for folder in folders for name in FEATURES for entry in folder.glob(name)):
        return False
    layout = recognise(path)
    if layout is None or layout[0] not in FIELD:
        return layout is not None
    return pictures is not None or any((root / name).is_dir() for name in PICTURE_FOLDERS if name)


def find_layout(path: Path, reading: ReadingArguments, faults: list[Fault]) -> Layout:
    """Find the layout that is named, or for "auto" the recognised one, which a note names; InputError if none fits."""
    if not path.exists():
        raise InputError.at(path, "there is no such file or folder", "a data set", "check the path")
    name, columns = reading.format, (reading.image_column, reading.caption_column)
    if any(columns) and name in ("auto", "table"):
        if not (layout := table_layout(*columns)).recognise(path):
            raise unrecognised(path, f"has no table with the columns {' and '.join(filter(None, columns))}")
        return layout
    if any(columns):
        flags, problem = "--image-column and --caption-column", f"do not belong to --format {name}"
        raise InputError.at(flags, problem, "--format table", "leave them or --format out")
    if name != "auto":
        layout = next(layout for layout in LAYOUTS if layout.name == name)
        if not layout.recognise(path):
            fix = "check the path, or leave --format out"
            raise InputError.at(path, f"is not of the format {name}", LOOKS[name][0], fix)
        return layout
    recognised = recognise(path)
    if recognised is None:
        raise unrecognised(path)
    layout, why = recognised
    alternatives = [other.name for other in SPECIFIC if other is not layout and other.recognise(path)]
    also = f" It could also be read as {', '.join(alternatives)} (--format)." if alternatives else ""
    faults.append(Fault(str(path), f"read as {layout.name}: {why}.{also}", severity="note"))
    return layout
