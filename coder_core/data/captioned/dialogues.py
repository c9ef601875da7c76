"""Data of other tasks that have texts about pictures: dialogues in LLaVA's JSON, and Visual Genome's region descriptions.

Of a dialogue, the first answer is the caption: it usually describes the picture, whereas answers to further questions are
about details. All phrases of a picture's regions are captions of the picture.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from coder_core.console.faults import MOST_FAULTS_SHOWN, Fault
from coder_core.data.captioned.annotated import HEAD_BYTES, JsonValues
from coder_core.data.captioned.records import (
    Layout,
    Record,
    folders_in,
    matching,
    other_columns,
    picture_folders,
)
from coder_core.data.captioned.splits import split_of_path
from coder_core.data.lines import Once, count_cases, numbered_lines, parse_json_text, read_json

ANSWERING = ("gpt", "assistant")
DIALOGUE_KEYS = ("image", "conversations")
_DIALOGUE = (b'"conversations"', b'"from"', b'"value"')
_REGIONS = (b'"regions"', b'"phrase"')


def _files_with(path: Path, keys: tuple[bytes, ...], patterns: tuple[str, ...]) -> list[Path]:
    """Find the JSON files, in a folder or in those below it, whose beginning has all of these keys."""
    folders = [path, *folders_in(path)]
    files = dict.fromkeys(file for folder in folders for file in matching(folder, patterns))
    return [file for file in files if _begins_with(file, keys)]


def _begins_with(file: Path, keys: tuple[bytes, ...]) -> bool:
    with file.open("rb") as content:
        head = content.read(HEAD_BYTES)
    return all(key in head for key in keys)


def _find_dialogues(path: Path) -> list[Path]:
    return _files_with(path, _DIALOGUE, ("*.json", "*.jsonl"))


def _entries(file: Path, faults: list[Fault]) -> Iterator[tuple[str, Any]]:
    """Yield (location, value) for every entry of a JSON list or of a file of JSON lines."""
    if file.suffix == ".jsonl":
        for where, line in numbered_lines(file, "dialogue", faults):
            yield where.removeprefix(f"{file} "), parse_json_text(line, where)
        return
    values = JsonValues(file, faults)
    content = read_json(file, faults)
    for index, item in enumerate(values.get({"list": content}, "the file", "list", list) or []):
        yield f"[{index}]", item


def _dialogues(files: list[Path], root: Path, faults: list[Fault]) -> Iterator[Record]:
    for file in files:
        split = split_of_path(file.relative_to(root).with_suffix(""))
        values = JsonValues(file, faults)
        of_text = []
        unanswered = []
        further = 0
        for where, item in _entries(file, faults):
            if isinstance(item, dict) and not isinstance(item.get("image"), str):
                of_text.append(where)  # of text alone, or about several pictures
                continue
            image = values.get(item, where, "image", str)
            turns = values.get(item, where, "conversations", list)
            if values.count > MOST_FAULTS_SHOWN:
                return
            if image is None or turns is None:
                continue
            answers = [turn.get("value") for turn in turns if _is_answer(turn)]
            if not answers:
                unanswered.append(where)
                continue
            further += len(answers) - 1
            columns = other_columns(item, DIALOGUE_KEYS)
            yield Record(image, str(answers[0]), f"{file}: {where}", split, columns=columns)
        problem = "dialogues are not about one picture and are left out"
        faults += count_cases(file, problem, of_text, severity="note")
        faults += count_cases(file, "dialogues have no answer and are left out", unanswered)
        fact = "the first answer of every dialogue is the caption of its picture"
        fact += f"; {further:,} answers to further questions are left out" * bool(further)
        faults.append(Fault(str(file), fact, severity="note"))


def _is_answer(turn: Any) -> bool:
    return isinstance(turn, dict) and turn.get("from") in ANSWERING and isinstance(turn.get("value"), str)


def _find_regions(path: Path) -> list[Path]:
    return _files_with(path, _REGIONS, ("*region*.json",))


def _regions(files: list[Path], root: Path, faults: list[Fault]) -> Iterator[Record]:
    """Yield the phrases of all regions; the picture of image 7 is 7.jpg."""
    for file in files:
        split = split_of_path(file.relative_to(root).with_suffix(""))
        values = JsonValues(file, faults)
        once = Once("region_id", faults)
        for where, item in _entries(file, faults):
            regions = values.get(item, where, "regions", list) or []
            for number, region in enumerate(regions):
                of_region = f"{where}.regions[{number}]"
                image = values.get(region, of_region, "image_id", int)
                region_id = values.get(region, of_region, "region_id", int)
                phrase = values.get(region, of_region, "phrase", str)
                if values.count > MOST_FAULTS_SHOWN:
                    return
                if image is None or region_id is None or phrase is None:
                    continue
                if once.add(region_id, of_region, f"{file}: {of_region}"):
                    yield Record(f"{image}.jpg", phrase, f"{file}: {of_region}", split, caption_id=region_id)
        fact = "the phrases of all regions of a picture are its captions: each describes a part of it"
        faults.append(Fault(str(file), fact, severity="note"))


DIALOGUES = (
    Layout("llava", _find_dialogues, _dialogues, picture_folders),
    Layout("visual-genome", _find_regions, _regions, picture_folders),
)
