"""python -m coder_core.check_data PATH: read a data set exactly as training would, describe it and name its faults.

Prints a table of the splits, one of the captions, the memory that training needs, and every fault with its file, its
row and how to fix it. The exit status is 1 when training or evaluation would refuse the data, otherwise 0. With --content
it also checks every picture and compares all pictures and captions with each other.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro
from rich.console import Console
from rich.filesize import decimal

from coder_core.config.data import ReadingArguments
from coder_core.console.faults import Fault, InputError
from coder_core.console.output import open_console, print_faults, say
from coder_core.console.progress import watching
from coder_core.console.runner import command
from coder_core.console.tables import Column, FittingTable

if TYPE_CHECKING:  # NumPy and pyarrow are loaded after --help is answered
    import pandas as pd

    from coder_core.data.captioned.reading import CaptionedSplit
    from coder_core.data.content.report import ContentReport

MISMATCHES_SHOWN = 10


@dataclass(frozen=True)
class CheckDataArguments:
    """Read a data set exactly as training would: describe it, and report each fault, where it is and how to fix it.

    The exit status is 1 when training or evaluation would refuse the data, otherwise 0.

    PATH is a folder with {split}_ims.npy, {split}_caps.txt and perhaps {split}_ids.txt (f30k_precomp, coco_precomp); or
    its parent (f30k with f30k/precomp in it); or a folder with Karpathy's dataset_*.json and the features beside it, or
    that file itself; or "demo", the built-in data. Or PATH has pictures with captions and no features: Flickr's and
    COCO's own files, a table of any columns, a.jpg with a.txt, parquet, tar files. docs/data.md describes the formats.
    With --content it may be the folder of an evaluated run, to check the splits it was evaluated on and the others.
    """

    path: tyro.conf.Positional[Path]  # The data set.
    other: tyro.conf.Positional[Path | None] = None
    """Second run for --content, trained with --other-part on the images that the first one's --train-part
    left out, both evaluated on train. Lists the captions of train that may belong to another image; each run judges the
    pairs it did not see."""
    pictures: Path | None = None
    """Folder with the picture files, to check that all exist; images/ beside the data is found without it."""
    word_vectors: Path | None = None
    """Text file of word vectors (GloVe, word2vec or fastText), to check how many words it covers."""
    word_size: int = 300  # Size of word vectors in training; a file with another size is refused.
    word_threshold: int = 4
    """A word enters the vocabulary if it occurs in train captions at least this often."""
    batch_size: int = 128  # Pairs in a batch, for the memory estimate.
    reading: Annotated[ReadingArguments, tyro.conf.arg(name="")] = field(default_factory=ReadingArguments)
    values: bool = True
    """Read every feature value, to find NaN, Inf and zero rows, or decode every picture; --no-values reads only
    headers, names and captions."""
    content: bool = False
    """Also find broken, tiny and blank pictures, and near-duplicate pictures and captions within and across splits. The
    report is kept in $CODER_CACHE until the data changes."""
    progress: Path | None = None
    """Write the progress of --content into this file (JSON, replaced a few times a second)."""
    json: bool = False  # Print one JSON object instead of tables.


@command
def main(arguments: list[str]) -> int:
    """Survey the data set. Return 1 if training would refuse it, 2 for flags out of range."""
    parsed = tyro.cli(CheckDataArguments, args=arguments, prog="python -m coder_core.check_data")
    if min(parsed.word_threshold, parsed.word_size, parsed.batch_size) < 1:
        print("--word-threshold, --word-size and --batch-size must be at least 1", file=sys.stderr)
        return 2

    if (parsed.path / "analysis").is_dir():
        return _check_run(parsed)
    if parsed.other is not None:
        fix = "to judge captions, name two runs that trained on complementary halves"
        raise InputError.at(parsed.path, f"is not a run, but a second run, {parsed.other}, is given", fix=fix)
    from coder_core.data.captioned.layouts import holds_pictures_only
    from coder_core.data.survey import describe, survey
    from coder_core.model.splits import data_folder

    path = data_folder(str(parsed.path))
    reading = parsed.reading
    is_named = reading.format != "auto" or reading.image_column or reading.caption_column
    of_pictures = bool(is_named) or holds_pictures_only(path, parsed.pictures)
    with watching(open_console(stderr=True), "pictures" if of_pictures else "", rate=True) as progress:
        result = survey(
            path,
            reading=reading if of_pictures else None,
            pictures=parsed.pictures,
            word_vectors=parsed.word_vectors,
            word_size=parsed.word_size,
            word_threshold=parsed.word_threshold,
            check_values=parsed.values,
            progress=progress,
        )
    document = describe(result, parsed.batch_size)
    report = None
    if parsed.content:
        from coder_core.api.data_quality import splits_of_data

        report = _check_content(splits_of_data(result.splits), parsed.progress)
        document["content"] = asdict(report)
    if parsed.json:
        print(json.dumps(document, ensure_ascii=True, indent=2))
    else:
        _print_report(document, result.faults, parsed.batch_size, report)
    return 0 if result.usable else 1


def _check_run(parsed: CheckDataArguments) -> int:
    if not parsed.content:
        fix = f"python -m coder_core.check_data {parsed.path} --content"
        raise InputError.at(parsed.path, "is a run; only the content of its data can be checked", fix=fix)
    from coder_core.api import open_run
    from coder_core.api.data_quality import LEVELS, cross_fitted, splits_of_run

    run = open_run(parsed.path)
    pairs = None if parsed.other is None else cross_fitted(run, open_run(parsed.other))
    report = _check_content(splits_of_run(run), parsed.progress)
    if parsed.json:
        document: dict[str, Any] = {"content": asdict(report)}
        if pairs is not None:
            document["mismatched"] = pairs[pairs["level"] != LEVELS[-1]].to_dict("records")
        print(json.dumps(document, ensure_ascii=True, indent=2))
        return 0
    console = open_console()
    _print_content(console, report)
    if pairs is not None:
        _print_mismatches(console, pairs, run.captions("train"), run.image_names("train"))
    return 0


def _check_content(splits: Sequence[CaptionedSplit], file: Path | None) -> ContentReport:
    from coder_core.data.content.report import check_content

    with watching(open_console(stderr=True), file=file) as progress:
        return check_content(splits, progress=progress)


def _print_content(console: Console, report: ContentReport) -> None:
    """Print the number of findings of each kind, and the first finding."""
    columns = [Column("content", text=True), Column("findings"), Column("across splits")]
    table = FittingTable(f"Content of {', '.join(report.splits)}", [*columns, Column("first one", text=True)])
    kinds = {
        "broken, tiny or blank pictures": report.pictures,
        "groups of near-duplicate pictures": report.duplicate_pictures,
        "groups of near-duplicate captions": report.duplicate_captions,
    }
    for name, findings in kinds.items():
        leaks = sum(len(finding.splits) > 1 for finding in findings)
        first = "–"
        if findings:
            samples = ", ".join(f"{split} {row}" for split, row in findings[0].samples[:2])
            first = f"{samples}  {findings[0].what}"
        table.add_row(name, f"{len(findings):,}", f"{leaks:,}", first)
    console.print(table)
    if report.without_pictures:
        names = ", ".join(report.without_pictures)
        say(console, f"Only captions were compared in {names}: no pictures were found.")
    console.print()


def _print_mismatches(
    console: Console, pairs: pd.DataFrame, captions: Sequence[str], names: Sequence[str]
) -> None:
    """Print the number of captions of train with each verdict, and the most suspicious of them."""
    counts = ", ".join(
        f"{count:,} {str(level).lower()}" for level, count in pairs["level"].value_counts().items()
    )
    columns = [Column("row"), Column("caption", text=True), Column("image", text=True)]
    columns += [Column("suspicion"), Column("random pairs better", dropped=1), Column("scored by", text=True)]
    table = FittingTable("Captions of train that may belong to another image", columns)
    for row in pairs.head(MISMATCHES_SHOWN).to_dict("records"):
        pair = captions[int(row["caption"])], names[int(row["image"])]
        numbers = f"{row['score']:.1f}", f"{row['random']:.0f} %"
        table.add_row(f"{row['caption']:,}", *pair, *numbers, str(row["scorer"]))
    console.print(table)
    say(console, f"Pairs of train: {counts}. --json lists all that are not plausible.")
    console.print()


def _print_report(
    document: dict[str, Any], faults: Sequence[Fault], batch_size: int, content: ContentReport | None
) -> None:
    console = open_console()
    if document["splits"]:
        console.print(_splits_table(document["splits"]))
        console.print(_words_table(document["splits"]))
        for line in _sentences(document, batch_size):
            say(console, line)
        console.print()
    if content is not None:
        _print_content(console, content)
    print_faults(console, faults)
    severities = [fault.severity for fault in faults]
    errors = severities.count("error")
    warnings = severities.count("warning")
    verdict = f"{errors} error{'s' * (errors != 1)}, {warnings} warning{'s' * (warnings != 1)}: "
    use = "embedded" if any("layout" in split for split in document["splits"]) else "trained on"
    verdict += "this data would be refused." if errors else f"this data can be {use}."
    say(console, verdict, "bold red" if errors else "bold green")


def _splits_table(splits: list[dict[str, Any]]) -> FittingTable:
    columns = [Column("split", text=True), Column("images"), Column("captions")]
    columns.append(Column("captions per image", dropped=2))
    features = [Column("features"), Column("dtype", dropped=3), Column("on disk", dropped=4)]
    columns += [Column("layout")] if "layout" in splits[0] else features
    table = FittingTable("Splits", [*columns, Column("pictures", dropped=1)])
    for split in splits:
        least, mean, most = split["captions_an_image"]
        each = f"{least}" if least == most else f"{least} to {most}, mean {mean:.2f}"
        cells = [split["name"], f"{split['images']:,}", f"{split['captions']:,}", each]
        if "layout" in split:
            cells += [split["layout"], "in a folder" if split["pictures"] else "packed"]
        else:
            shape = " × ".join(f"{length:,}" for length in split["shape"])
            pictures = "found" if split["pictures"] else "folder missing" if split["named"] else "not named"
            cells += [shape, split["dtype"], decimal(split["bytes_on_disk"]), pictures]
        table.add_row(*cells)
    return table


def _words_table(splits: list[dict[str, Any]]) -> FittingTable:
    columns = [Column("shortest", dropped=1), Column("median"), Column("mean", dropped=3)]
    columns += [Column("99 %", dropped=4), Column("longest", dropped=2), Column("unknown words")]
    table = FittingTable("Captions, in words", [Column("split", text=True), *columns])
    for split in splits:
        if "words_a_caption" not in split:
            continue
        shortest, median, high, longest = split["words_a_caption"]
        numbers = [f"{shortest:.0f}", f"{median:.0f}", f"{split['mean_words_a_caption']:.1f}", f"{high:.0f}"]
        table.add_row(split["name"], *numbers, f"{longest:.0f}", f"{split['unknown_words']:.2%}")
    return table


def _sentences(document: dict[str, Any], batch_size: int) -> list[str]:
    """Describe the vocabulary, word vectors and memory, one line each."""
    splits = document["splits"]
    lines = []
    if words := document["vocabulary"]:
        lines.append(f"Vocabulary: {words:,} words, <pad> and <unknown> included, from train captions.")
    vectors = document["word_vectors"]
    if vectors:
        text = f"{vectors['words']:.1%} of the words, {vectors['running_text']:.1%} of the running text"
        lines.append(f"Word vectors: {vectors['size']} numbers per word; {text}.")
    if "layout" in splits[0]:
        return lines
    disk = decimal(sum(split["bytes_on_disk"] for split in splits))
    words = decimal(sum(split.get("bytes_of_words", 0) for split in splits))
    batch = decimal(max(split["bytes_a_batch"] for split in splits))
    memory = f"{batch} for the regions of a batch of {batch_size} in float32, {words} for the words"
    return [*lines, f"Memory: {memory}; the features ({disk}) stay on disk and are memory-mapped."]


if __name__ == "__main__":
    raise SystemExit(main())
