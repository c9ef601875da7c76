"""Names of pictures as a data set writes them, and the folder in which they are files."""

import os
from collections.abc import Sequence
from itertools import islice
from pathlib import Path, PurePosixPath

import numpy as np

from coder_core.console.faults import Fault, InputError
from coder_core.data.captioned.records import picture_folders
from coder_core.data.captioned.splits import split_of_path
from coder_core.data.lines import composed, count_cases, shown
from coder_core.data.pictures import ENDINGS, find_file, unsafe_reason

NAMES_TRIED = 20  # to choose a folder
NAMES_SOUGHT = 1000  # to find out whether all pictures are in it
IMAGES = "images"  # folder that may contain a folder of pictures for every split
MOST_PICTURES = 5_000_000  # listed to find pictures in deeper folders


class PictureNames:
    """Turns the names that a data set writes into names relative to a picture folder, one of `folders`.

    Backslashes become slashes. Absolute names lose the path of the data folder `root`, or, if they come from another
    machine, as many leading folders as it takes to find the first picture.
    """

    def __init__(self, root: Path, folders: Sequence[Path]) -> None:
        self._start = f"{root.absolute().as_posix()}/"
        self._folders = [folder for folder in folders if folder.is_dir()]
        self._cut = 0  # leading folders to leave out of foreign names
        self._rewritten: dict[str, list[str]] = {}  # what was changed → examples

    def relative(self, name: str) -> str:
        """Return the name relative to a picture folder; a name that cannot be made relative stays as it is."""
        written = name
        if "\\" in name:
            name = name.replace("\\", "/")
            self._note("names are Windows paths, whose \\ is read as /", written)
        name = name.removeprefix(self._start)
        if name.startswith("/") or name[1:3] == ":/":
            name = self._cut_foreign(name)
            if not name.startswith("/") and name[1:3] != ":/":
                self._note("names are absolute paths, read without their first folders", written)
        return name.removeprefix("./")

    def _note(self, fact: str, name: str) -> None:
        self._rewritten.setdefault(fact, []).append(name)

    def _cut_foreign(self, name: str) -> str:
        parts = PurePosixPath(name).parts
        if not self._cut:
            tried = range(1, len(parts))
            found = (cut for cut in tried if self._find("/".join(parts[cut:])))
            self._cut = next(found, 0)
        return "/".join(parts[self._cut :]) if 0 < self._cut < len(parts) else name

    def _find(self, name: str) -> bool:
        return not unsafe_reason(name) and any(find_file(folder, name) for folder in self._folders)

    def notes(self, where: str) -> list[Fault]:
        """Return a note on every kind of change, with a count and examples."""
        notes = list[Fault]()
        for fact, names in self._rewritten.items():
            notes += count_cases(where, fact, [shown(name) for name in names], severity="note")
        return notes


def inner_prefix(
    names: Sequence[str], place: Path, root: Path, of_root: Sequence[Path], split: str = ""
) -> str:
    """Return what leads from `root` to the pictures that a file of captions in the folder `place` names. Of several
    folders in `place` with such pictures it is the one named after the file's `split`; "" if one of `of_root`, the
    folders of the whole data set, has the first picture."""
    if not place.is_relative_to(root):
        return ""
    safe = [name for name in names[:NAMES_TRIED] if not unsafe_reason(name)]
    folders = [*picture_folders(place), *picture_folders(place / IMAGES)[1:]]
    holding = [folder for folder in folders if any(find_file(folder, name) for name in safe)]
    of_split = [folder for folder in holding if split and split_of_path(folder.relative_to(place)) == split]
    if len(holding) > 1 and of_split:
        return f"{of_split[0].relative_to(root).as_posix()}/"
    of_whole = any(find_file(folder, name) for folder in of_root for name in safe[:1])
    if place == root or of_whole or not holding:
        return ""
    return f"{holding[0].relative_to(root).as_posix()}/"


def find_folder(
    path: Path, root: Path, folders: Sequence[Path], names: list[str], faults: list[Fault]
) -> tuple[Path, list[str]]:
    """Choose the one of `folders` that has most of the first pictures. Return it and the names relative to it; names
    without a folder may be those of pictures in deeper folders, which a note counts. InputError: no picture is found."""
    existing = [folder for folder in dict.fromkeys(folders) if folder.is_dir()]
    first = names[:NAMES_TRIED]
    counts = {folder: sum(find_file(folder, name) is not None for name in first) for folder in existing}
    likeliest = max(existing, key=lambda folder: counts[folder], default=None)
    if likeliest is not None:
        sought = np.unique(np.linspace(0, len(names) - 1, NAMES_SOUGHT).astype(int)).tolist()
        missing = [names[image] for image in sought if not find_file(likeliest, names[image])]
        if not missing:
            return likeliest, names
        if any("/" not in name for name in missing):
            base = root if likeliest.is_relative_to(root) else likeliest
            deeper = _find_deeper(base, likeliest, names, faults)
            if deeper is not None:
                return base, deeper
        if len(missing) < len(sought):
            return likeliest, names

    tried = ", ".join(map(str, dict.fromkeys(folders)))
    problem = f"none of the folders {tried} has the pictures; the first is {shown(names[0])}"
    if likeliest is not None and (similar := _similar_file(existing, names[0])):
        fix = "write the names as the files have them, letter by letter"
        raise InputError.at(path, f"{problem}, but there is {shown(similar)}", "equal names", fix)

    raise InputError.at(path, problem, "a folder that contains them", "name it with --pictures FOLDER")


def _similar_file(folders: Sequence[Path], name: str) -> str:
    """Return the name of a picture in the folders that differs from `name` only in upper case or its ending; ""
    without one."""
    if unsafe_reason(name):
        return ""
    inner = PurePosixPath(name)
    for folder in folders:
        place = folder / inner.parent
        files = islice(os.listdir(place), MOST_PICTURES) if place.is_dir() else ()
        for file in files:
            same = PurePosixPath(file).stem.casefold() == inner.stem.casefold()
            if same and file.lower().endswith(ENDINGS):
                return file
    return ""


def _find_deeper(base: Path, likeliest: Path, names: list[str], faults: list[Fault]) -> list[str] | None:
    """Return the names relative to `base`, in which those that are not in `likeliest` are found by their file name if it
    is unique; None if this finds no picture."""
    inner = likeliest.relative_to(base).as_posix()
    prefix = "" if inner == "." else f"{inner}/"
    places = _list_pictures(base)
    found = []
    by_name = []
    for name in names:
        place = places.get(composed(name)) if "/" not in name else None
        if find_file(likeliest, name):
            found.append(prefix + name)
        elif place:
            found.append(place)
            by_name.append(place)
        else:
            found.append(prefix + name)

    fact = "pictures are found by their names in deeper folders"
    faults += count_cases(base, fact, [*map(shown, by_name)], severity="note")
    return found if by_name else None


def _list_pictures(base: Path) -> dict[str, str]:
    """Map the names of all pictures below a folder, with and without their endings, to their paths relative to it; ""
    for a name that several have."""
    places: dict[str, str] = {}
    for folder, inner, files in os.walk(base, followlinks=True):
        inner[:] = sorted(name for name in inner if not name.startswith("."))
        below = Path(folder).relative_to(base).as_posix()
        prefix = "" if below == "." else f"{below}/"
        for file in files:
            stem, dot, ending = file.rpartition(".")
            if f"{dot}{ending}".lower() in ENDINGS:
                for key in (composed(file), composed(stem)):
                    places[key] = "" if key in places else prefix + file
        if len(places) >= 2 * MOST_PICTURES:
            break
    return places
