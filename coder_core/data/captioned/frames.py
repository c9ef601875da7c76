"""Videos with captions, read as their frames: MSR-VTT's JSON, or a table with a column of videos.

Frames lie in a folder named after their video (frames/video0/0001.jpg), or begin with its name (frames/video0_0001.jpg).
Those of one video are a group: a caption of the video is right for all of them. Every caption belongs to one frame, the
captions of a video to frames at equal distances.
"""

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any

from coder_core.console.faults import Fault, InputError, collect
from coder_core.data.captioned import records
from coder_core.data.captioned.annotated import JsonValues
from coder_core.data.captioned.records import Layout, Record
from coder_core.data.captioned.splits import split_of_path, split_value
from coder_core.data.captioned.tables import TableColumns, head_text, is_picture, open_table
from coder_core.data.lines import composed, count_cases, read_json, shown
from coder_core.data.pictures import ENDINGS

TABLES = ("*.csv", "*.tsv", "*.jsonl", "*.json")
FOLDERS = ("annotations", "annotation", "data")
VIDEO_COLUMNS = ("video_id", "video", "video_name", "videoid", "vid", "clip", "clip_id", "clip_name")
VIDEO_ENDINGS = (".mp4", ".avi", ".mkv", ".webm", ".mov", ".mpg", ".flv")
VIDEOS = "videos"
SENTENCES = "sentences"
VIDEO_KEYS = ("video_id", "split")
SENTENCE_KEYS = ("video_id", "caption", "sen_id")
NUMBERED = re.compile(
    r"(.+?)[ _.-](?:frame|img|image|f)?[ _.-]?\d+", re.IGNORECASE
)  # video0_0001, video0-frame-1
MOST_FRAMES = 5_000_000
EXPECTED = "a folder of frames for every video"


@dataclass
class _Video:
    """One video with its captions."""

    split: str = ""
    columns: Mapping[str, Any] = field(default_factory=dict)
    captions: list["_Caption"] = field(default_factory=list)


@dataclass(frozen=True)
class _Caption:
    text: str
    place: str  # file and row
    number: int | None = None  # in its data set
    language: str = ""
    columns: Mapping[str, Any] = field(default_factory=dict)


def _find_videos(path: Path) -> list[Path]:
    """Find the files that name videos and their captions, in a folder or in the first of `FOLDERS` with some."""
    root = records.folder_of(path)
    for folder in [path] if path.is_file() else [root, *(root / name for name in FOLDERS)]:
        if found := [file for file in records.matching(folder, TABLES) if _is_videos(file) or _columns(file)]:
            return found
    return []


def _is_videos(file: Path) -> bool:
    """True for a JSON file in MSR-VTT's form: an object with the lists "videos" and "sentences"."""
    head = head_text(file) if file.suffix == ".json" else ""
    has_lists = f'"{VIDEOS}"' in head or f'"{SENTENCES}"' in head
    return head.lstrip().startswith("{") and has_lists and '"video_id"' in head


def _columns(file: Path) -> TableColumns | None:
    """Return the columns of videos and captions of a table; None if it has none of them, or a column of pictures."""
    table = open_table(file)
    lower = {title.lower(): title for title in reversed(table.titles)}
    video = next((lower[name] for name in VIDEO_COLUMNS if name in lower), "")
    captions = records.titled_captions([title for title in table.titles if title != video])
    names_pictures = any(is_picture(value) for row in table.sample[:1] for value in row.values())
    if not video or not captions or names_pictures:
        return None
    return TableColumns(video, captions, "split" if "split" in table.titles else "")


def _frames(files: list[Path], root: Path, faults: list[Fault]) -> Iterator[Record]:
    videos: dict[tuple[str, str], _Video] = {}  # split and name → video
    for file in files:
        if _is_videos(file):
            _read_json(file, root, videos, faults)
        else:
            _read_table(file, root, videos, faults)

    frames_of = _list_frames(root, {name for _, name in videos})
    if not frames_of and videos:
        first = next(name for _, name in videos)
        problem = f"names {len(videos):,} videos ({shown(first)} …), and there are no frames of them"
        fix = f"write them: mkdir -p frames/{first} && ffmpeg -i {first}.mp4 -r 1 frames/{first}/%04d.jpg"
        raise InputError.at(files[0], problem, f"{EXPECTED}: frames/{first}/0001.jpg", fix)

    without = []
    used = set()
    for (split, name), video in videos.items():
        frames = frames_of.get(composed(name), [])
        count = len(video.captions)
        if not frames:
            without.append(shown(name))
            continue
        for number, caption in enumerate(video.captions):
            # of the part of the video that this caption gets
            middle = (2 * number + 1) * len(frames) // (2 * count)
            used.add(frames[middle])
            yield Record(
                frames[middle],
                caption.text,
                caption.place,
                split,
                caption_id=caption.number,
                language=caption.language,
                columns={"video_id": name, **video.columns, **caption.columns},
                group=name,
            )

    faults += count_cases(root, "videos have no frames and are left out", without, EXPECTED)
    count = len(videos) - len(without)
    fact = f"{len(used):,} frames of {count:,} videos have captions; those of one video are one group"
    faults.append(Fault(str(root), fact, severity="note"))


def _read_json(file: Path, root: Path, videos: dict[tuple[str, str], _Video], faults: list[Fault]) -> None:
    """Add the videos of a file in MSR-VTT's form."""
    content = read_json(file, faults)
    values = JsonValues(file, faults)
    of_file = split_of_path(file.relative_to(root).with_suffix(""))
    named: dict[str, _Video] = {}
    for where, item in _objects(content, VIDEOS):
        name = values.get(item, where, "video_id", str)
        split = collect(partial(split_value, item.get("split"), f"{file}: {where}.split"), faults)
        if name is not None and split is not None:
            columns = records.other_columns(item, VIDEO_KEYS)
            named[name] = _Video(split or of_file, columns)
            videos[named[name].split, name] = named[name]

    for where, item in _objects(content, SENTENCES):
        name = values.get(item, where, "video_id", str)
        text = values.get(item, where, "caption", str)
        if name is None or text is None:
            continue
        video = named.get(name) or videos.setdefault((of_file, name), _Video(of_file))
        number = item.get("sen_id")
        caption_id = number if type(number) is int else None
        columns = records.other_columns(item, SENTENCE_KEYS)
        video.captions.append(_Caption(text, f"{file}: {where}", caption_id, columns=columns))


def _objects(content: Any, key: str) -> Iterator[tuple[str, dict[str, Any]]]:
    items = content.get(key) if isinstance(content, dict) else None
    for index, item in enumerate(items if isinstance(items, list) else []):
        yield f"{key}[{index}]", item if isinstance(item, dict) else {}


def _read_table(file: Path, root: Path, videos: dict[tuple[str, str], _Video], faults: list[Fault]) -> None:
    """Add the videos of a table with one caption, or several in several columns, in every row."""
    columns = _columns(file)
    if columns is None:  # changed since it was found
        raise InputError.at(file, "has no columns of videos and captions", "a table", "repeat the command")

    of_file = split_of_path(file.relative_to(root).with_suffix(""))
    used = [columns.image, *columns.captions, *([columns.split] if columns.split else [])]
    for where, row in open_table(file, titled=True).rows(faults, used):
        name = str(row[columns.image]).strip()
        stem, dot, ending = name.rpartition(".")
        name = stem if f"{dot}{ending}".lower() in VIDEO_ENDINGS else name
        named = row.get(columns.split) if columns.split else None
        split = collect(partial(split_value, named, f"{where}, column split"), faults)
        captions = collect(partial(records.captions_of_row, row, columns.captions, where), faults)
        if split is None or captions is None:
            continue
        video = videos.setdefault((split or of_file, name), _Video(split or of_file))
        others = records.other_columns(row, used)
        for text, language in captions:
            video.captions.append(_Caption(text, where, language=language, columns=others))


def _list_frames(root: Path, names: Iterable[str]) -> dict[str, list[str]]:
    """Map the names of videos to their frames in order, as paths relative to `root`."""
    wanted = {composed(name) for name in names}
    found: dict[str, list[str]] = {}
    listed = 0
    for folder, inner, files in os.walk(root, followlinks=True):
        inner[:] = sorted(name for name in inner if not name.startswith("."))
        below = Path(folder).relative_to(root)
        of_folder = composed(below.name)
        frames = [file for file in files if file.lower().endswith(ENDINGS) and not file.startswith(".")]
        for frame in sorted(frames, key=_in_order):
            match = NUMBERED.fullmatch(PurePosixPath(frame).stem)
            video = of_folder if of_folder in wanted else composed(match[1]) if match else ""
            if video in wanted:
                found.setdefault(video, []).append((below / frame).as_posix())
        listed += len(frames)
        if listed > MOST_FRAMES:
            break

    return found


def _in_order(name: str) -> tuple[list[int], str]:
    """Return a key that sorts frame-2 before frame-10."""
    return [int(digits) for digits in re.findall(r"\d+", name)], name


FRAMES = Layout("video-frames", _find_videos, _frames)
