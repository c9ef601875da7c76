"""Tables and sentences that describe a data set and its content."""

from collections.abc import Sequence
from typing import Any

import pandas as pd
from rich.console import Console
from rich.filesize import decimal

from coder_core.console.faults import Fault
from coder_core.console.output import open_console, print_faults, say
from coder_core.console.tables import Column, FittingTable
from coder_core.data.content.report import ContentReport

MISMATCHES_SHOWN = 10


def print_content(console: Console, report: ContentReport) -> None:
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


def print_mismatches(
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
        table.add_row(
            f"{row['caption']:,}",
            captions[int(row["caption"])],
            names[int(row["image"])],
            f"{row['score']:.1f}",
            f"{row['random']:.0f} %",
            str(row["scorer"]),
        )

    console.print(table)
    say(console, f"Pairs of train: {counts}. --json lists all that are not plausible.")
    console.print()


def print_report(
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
        print_content(console, content)

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
        images = f"{split['images']:,}"
        captions = f"{split['captions']:,}"
        table.add_row(split["name"], images, captions, each, *_stored_as(split))
    return table


def _stored_as(split: dict[str, Any]) -> list[str]:
    """Return the cells on the files of a split: its layout or the shape of its features, and its pictures."""
    if "layout" in split:
        return [split["layout"], "in a folder" if split["pictures"] else "packed"]

    pictures = "folder missing" if split["named"] else "not named"
    if split["pictures"]:
        pictures = "found"
    shape = " × ".join(f"{length:,}" for length in split["shape"])
    return [shape, split["dtype"], decimal(split["bytes_on_disk"]), pictures]


def _words_table(splits: list[dict[str, Any]]) -> FittingTable:
    columns = [Column("shortest", dropped=1), Column("median"), Column("mean", dropped=3)]
    columns += [Column("99 %", dropped=4), Column("longest", dropped=2), Column("unknown words")]
    table = FittingTable("Captions, in words", [Column("split", text=True), *columns])
    for split in splits:
        if "words_a_caption" not in split:
            continue
        shortest, median, high, longest = split["words_a_caption"]
        table.add_row(
            split["name"],
            f"{shortest:.0f}",
            f"{median:.0f}",
            f"{split['mean_words_a_caption']:.1f}",
            f"{high:.0f}",
            f"{longest:.0f}",
            f"{split['unknown_words']:.2%}",
        )

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
