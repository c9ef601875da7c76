"""Views of the app saved under a name: addresses relative to the app, in one file beside the runs."""

import json
import re
from pathlib import Path

from filelock import FileLock

from coder_core.console.faults import InputError
from coder_core.console.plain_files import DOCUMENT, read_plain
from coder_core.files.atomic import replace_file

FILE = ".views.json"
_LOCK = ".views.lock"
MOST_VIEWS = 200
LONGEST_NAME = 80
LONGEST_ADDRESS = 4_000
_ADDRESS = re.compile(r"[a-z]*\?[A-Za-z0-9%&=_.~+*-]*")  # a page and its query, as urlencode writes it


def saved_views(root: Path) -> dict[str, str]:
    """Return name → address of every saved view, by name. InputError: the file contains something else."""
    file = root / FILE
    if not file.exists():
        return {}
    expected = "names and addresses"
    fix = "restore or remove it; it contains only saved views"
    try:
        views = json.loads(read_plain(file, most=DOCUMENT))
    except (ValueError, RecursionError):
        raise InputError.at(file, "is not JSON", expected, fix) from None
    sound = isinstance(views, dict) and len(views) <= MOST_VIEWS
    if not sound or any(_problem(name, address) for name, address in views.items()):
        raise InputError.at(file, "contains something other than views", expected, fix)
    return dict(sorted(views.items()))


def save_view(root: Path, name: str, address: str) -> None:
    """Save a view. InputError: the name exists, is empty or too long; the address is not the app's; 200 views exist."""
    if problem := _problem(name, address):
        raise InputError.at(f"the view {name[:LONGEST_NAME]!r}", problem)
    with FileLock(root / _LOCK):
        views = saved_views(root)
        if name in views:
            raise InputError.at(f"the view {name!r}", "exists", fix="choose another name, or remove it first")
        if len(views) == MOST_VIEWS:
            raise InputError.at(root / FILE, f"already has {MOST_VIEWS} views", fix="remove some first")
        _write(root, views | {name: address})


def remove_view(root: Path, name: str) -> None:
    """Remove a view; a missing one is not an error."""
    with FileLock(root / _LOCK):
        views = saved_views(root)
        if views.pop(name, None) is not None:
            _write(root, views)


def _write(root: Path, views: dict[str, str]) -> None:
    replace_file(root / FILE, json.dumps(views, indent=2, ensure_ascii=False) + "\n")


def _problem(name: str, address: object) -> str:
    if not name.strip() or len(name) > LONGEST_NAME or not name.isprintable():
        return f"needs a name of 1 to {LONGEST_NAME} printable characters"
    if not isinstance(address, str) or len(address) > LONGEST_ADDRESS or not _ADDRESS.fullmatch(address):
        return "has an address that is not a page of this app"
    return ""
