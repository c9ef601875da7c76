"""Read a data set as training would read it, and print what was found."""

import json
from dataclasses import asdict
from pathlib import Path

from coder_core.api.data_quality import splits_of_data
from coder_core.checking.arguments import CheckDataArguments
from coder_core.checking.several_answers import content_of_few, group_columns, near_duplicates, repeated_texts
from coder_core.checking.tables import print_report
from coder_core.console.output import open_console, watching
from coder_core.data.captioned.layouts import holds_pictures_only
from coder_core.data.content.report import ContentReport, check_content
from coder_core.data.survey import Checks, Survey, describe_survey, survey
from coder_core.model.device import choose_device
from coder_core.model.reader import data_folder


def check_data_set(parsed: CheckDataArguments) -> bool:
    """Describe the data set and its faults. Return True if training and evaluation accept it."""
    path = data_folder(str(parsed.path))
    of_pictures = _is_of_pictures(parsed, path)
    checks = Checks(
        word_vectors=parsed.word_vectors,
        word_size=parsed.word_size,
        word_threshold=parsed.word_threshold,
        values=parsed.values,
    )
    with watching(open_console(stderr=True), "pictures" if of_pictures else "", rate=True) as progress:
        result = survey(path, parsed.reading, parsed.pictures, checks, progress, of_pictures=of_pictures)
    result.faults += repeated_texts(result.splits)
    result.faults += group_columns(result.splits)
    report = _content(result, parsed)
    document = describe_survey(result, parsed.batch_size)
    if parsed.content and report is not None:
        document["content"] = asdict(report)

    if parsed.json:
        print(json.dumps(document, ensure_ascii=True, indent=2))
    else:
        print_report(document, result.faults, parsed.batch_size, report if parsed.content else None)
    return result.usable


def _content(result: Survey, parsed: CheckDataArguments) -> ContentReport | None:
    """Compare the pictures of all splits, if --content asks for it or they are few, and add a warning about
    near-duplicates in two splits."""
    splits = splits_of_data(result.splits)
    report = None
    with watching(open_console(stderr=True), file=parsed.progress) as progress:
        if parsed.content:
            report = check_content(splits, device=str(choose_device(parsed.device)), progress=progress)
        elif parsed.values:
            report, notes = content_of_few(splits, progress)
            result.faults += notes
    if report is not None:
        result.faults += near_duplicates(report)
    return report


def _is_of_pictures(parsed: CheckDataArguments, path: Path) -> bool:
    """True if the data are read as pictures with captions: the flags ask for it, or there are no features."""
    reading = parsed.reading
    if reading.format != "auto" or reading.image_column or reading.caption_column:
        return True
    return holds_pictures_only(path, parsed.pictures)
