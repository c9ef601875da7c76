"""All layouts, in the order in which they are tried, and the error for data in no known layout."""

import os
from functools import partial
from pathlib import Path

from coder_core.config.data import ReadingArguments
from coder_core.console.faults import Fault, InputError, collect
from coder_core.data.captioned.annotated import COCO, FIELD, holds_pictures
from coder_core.data.captioned.archives import ARCHIVES, TEXT_FILES
from coder_core.data.captioned.dialogues import DIALOGUES
from coder_core.data.captioned.flickr import FLICKR
from coder_core.data.captioned.frames import FRAMES
from coder_core.data.captioned.positions import open_parquet
from coder_core.data.captioned.records import LOOKS, Layout, folder_of
from coder_core.data.captioned.tables import (
    IMAGEFOLDER,
    SHEETS,
    SUFFIXES,
    Table,
    open_table,
    sheet_to_csv,
    table_layout,
)
from coder_core.data.lines import shown
from coder_core.data.pictures import CONVERT, ENDINGS, OTHER_ENDINGS

SPECIFIC = (*FIELD, *FLICKR, COCO, IMAGEFOLDER, *ARCHIVES, FRAMES, *DIALOGUES)
LAYOUTS = (*SPECIFIC, table_layout(), TEXT_FILES)
FEATURES = ("*_ims.npy", "ims.npy", "features.npy")
FORMATS = tuple(layout.name for layout in LAYOUTS)
MOST_FILES = 100_000  # listed for an error
DEEPEST = 2  # folders below the data folder
TABLES_NAMED = 3
COLUMNS_NAMED = 12
LONGEST_NAME = 80
PACKED_ENDINGS = (".tar.gz", ".tgz", ".zip")
ARROW = (  # save_to_disk writes one folder per split
    'write each split as Parquet: python -c "from datasets import load_from_disk; '
    "load_from_disk('{}').to_parquet('NEW/train.parquet')\""
)
READ = "region features ({split}_ims.npy and {split}_caps.txt), or pictures with captions"


def recognise(path: Path) -> tuple[Layout, str] | None:
    """Return the layout of a path and the reason in words; None if no layout fits."""
    return next(((layout, why) for layout in LAYOUTS if (why := layout.recognise(path))), None)


def holds_pictures_only(path: Path, pictures: Path | None = None) -> bool:
    """True if a data set has pictures with captions and no region features, so that it is read for its pictures. The
    precomp and Karpathy's layouts also need a picture folder: without one, their features were probably forgotten."""
    root = folder_of(path)
    folders = [root, root / "precomp", *root.glob("*_precomp")]
    if any(entry for folder in folders for name in FEATURES for entry in folder.glob(name)):
        return False
    layout = recognise(path)
    if layout is None or layout[0] not in FIELD:
        return layout is not None
    return pictures is not None or holds_pictures(root)


def find_layout(path: Path, reading: ReadingArguments, faults: list[Fault]) -> Layout:
    """Find the named layout, or with "auto" recognise it and add a note that names it; InputError if none fits."""
    if not path.exists():
        raise InputError.at(path, "there is no such file or folder", "a data set", "check the path")

    name = reading.format
    image = reading.image_column
    caption = reading.caption_column
    columns = [column for column in (image, caption) if column]
    if columns and name in ("auto", "table"):
        layout = table_layout(image, caption)
        if not layout.recognise(path):
            raise unrecognised(path, f"has no table with the columns {' and '.join(columns)}")
        return layout

    if columns:
        flags = "--image-column and --caption-column"
        problem = f"cannot be used with --format {name}"
        raise InputError.at(flags, problem, "--format table", "leave out these flags or --format")
    if name != "auto":
        layout = next(layout for layout in LAYOUTS if layout.name == name)
        if not layout.recognise(path):
            fix = "check the path, or leave --format out"
            raise InputError.at(path, f"is not in the format {name}", LOOKS[name][0], fix)
        return layout

    recognised = recognise(path)
    if recognised is None:
        raise unrecognised(path)

    layout, why = recognised
    alternatives = [other.name for other in SPECIFIC if other is not layout and other.recognise(path)]
    also = f" It could also be read as {', '.join(alternatives)} (--format)." if alternatives else ""
    faults.append(Fault(str(path), f"read as {layout.name}: {why}.{also}", severity="note"))
    return layout


def unrecognised(path: Path, problem: str = "is in no known layout") -> InputError:
    """Build the error for a path in no known layout: what the path contains, and how to fix it."""
    files = _files(path)
    tables = dict[str, Table]()

    def of(endings: str | tuple[str, ...]) -> list[str]:
        return [file for file in files if file.lower().endswith(endings)]

    for file in of(SUFFIXES)[:TABLES_NAMED]:
        table = open_table(folder_of(path) / file)
        tables |= {file: table} if table.titles or not file.endswith(".json") else {}
    damaged: list[Fault] = []
    for file in of(".parquet")[:TABLES_NAMED]:
        collect(partial(open_parquet, folder_of(path) / file, []), damaged)
    if damaged:
        return InputError(damaged)
    pictures = of(ENDINGS)
    others = of(OTHER_ENDINGS)
    packed = of(PACKED_ENDINGS)
    texts = of(".txt")
    named = [("pictures", pictures), ("files of other picture formats", others), ("archives", packed)]
    named += [(".txt files", texts), (".json files", of(".json")), ("spreadsheets", of(SHEETS))]
    found = [f"{len(some):,} {what} ({shown(some[0])})" for what, some in named if some]
    for file, table in tables.items():
        columns = f"with columns {_names(table.titles)}" if table.titles else "without columns"
        found.append(f"{_plain(file)} {columns}")
    if arrow := of(".arrow"):
        found.insert(0, f"{len(arrow):,} Arrow files of save_to_disk ({shown(arrow[0])})")
    layout, fix = _advice(pictures, others, packed, texts, tables)
    if sheets := of(SHEETS):
        layout = "table"
        fix = f"{sheet_to_csv(_plain(sheets[0]))}; it needs a column of picture names and one of captions"
    if arrow:
        layout = "parquet"
        fix = ARROW.format((folder_of(path) / arrow[0]).parent)
    held = ", ".join(found) or "no pictures, captions or features"
    expected = f"{LOOKS[layout][0]} ({layout}) or another layout of docs/data.md" if layout else READ
    return InputError.at(path, f"{problem}: it contains {held}", expected, fix)


def _plain(name: str) -> str:
    """Return a name for a message; quote it only if it is long or unsafe to print."""
    return name if name.isprintable() and len(name) <= LONGEST_NAME else shown(name, LONGEST_NAME)


def _names(titles: list[str]) -> str:
    return ", ".join(map(_plain, titles[:COLUMNS_NAMED]))


def _files(path: Path) -> list[str]:
    """List the files in a folder and in up to `DEEPEST` levels of folders below it, by relative name."""
    names = [path.name] if path.is_file() else []
    for folder, inner, files in os.walk(path):
        below = Path(folder).relative_to(path)
        inner[:] = sorted(inner) if len(below.parts) < DEEPEST else []
        names += [(below / name).as_posix() for name in sorted(files)]
        if len(names) >= MOST_FILES:
            break
    return names


def _advice(
    pictures: list[str], others: list[str], packed: list[str], texts: list[str], tables: dict[str, Table]
) -> tuple[str, str]:
    """Return the nearest layout ("" if there is none) and how to fix the data."""
    addresses = [pair for table in tables.values() for pair in table.addresses().items()]
    titles = next((table.titles for table in tables.values() if table.titles), [])
    if not pictures and others:
        return "imagefolder", CONVERT
    if not pictures and packed:
        return "webdataset", "unpack them (gunzip, tar -xf, unzip): pictures are read in place"
    if not pictures and addresses:
        title, first = addresses[0]
        column = f"the column {_plain(title)} (in its first row {shown(first)})"
        return "webdataset", f"download the web addresses in {column} first, for example with img2dataset"

    example = _example(pictures)
    if titles:
        flags = "--image-column and --caption-column"
        return (
            "table",
            f"name its columns with {flags}, each one of {_names(titles)}{example and f'; or {example}'}",
        )

    if pictures and texts:
        text = f"{_plain(Path(pictures[0]).stem)}.txt"
        fix = f"name each .txt file after its picture: {_plain(pictures[0])} and {text}; or {example}"
        return "text-files", fix
    if pictures:
        return "imagefolder", example

    return "", "check the path; docs/data.md, section 9, has every layout"


def _example(pictures: list[str]) -> str:
    """Describe the smallest file of captions for these pictures; "" without any."""
    rows = [f'{_plain(name)},"a dog runs"' for name in pictures[:2]]
    return (
        f"write metadata.csv: the line file_name,text, then for each caption {' and '.join(rows)}"
        if rows
        else ""
    )
