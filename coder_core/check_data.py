"""python -m coder_core.check_data PATH: read a data set exactly as training would, and say what is in it and wrong.

Prints a table of the splits, one of the captions, the memory that training needs, and every fault with its file, its
row and the way out. The exit status is 1 when training or evaluation would refuse the data, otherwise 0.
"""

from __future__ import annotations

if __name__ == "__main__":
    from coder_core.cpu.environment import tune_environment

    tune_environment()  # before torch loads

import json
import os
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tyro
from rich.console import Console
from rich.table import Table
from rich.text import Text

from coder_core.console.exit_status import leave
from coder_core.console.faults import Fault, InputError
from coder_core.data.dataset import Split, fingerprint
from coder_core.data.demo import DEMO_FOLDER, make_demo
from coder_core.data.survey import Survey, survey
from coder_core.data.words import Tokens

NARROWEST = 110
COLOURS = {"error": "bold red", "warning": "yellow", "note": "dim"}


@dataclass(frozen=True)
class Arguments:
    """Read a data set exactly as training would: what is in it, what is wrong, where, and how to mend it.

    The exit status is 1 when training or evaluation would refuse the data, otherwise 0.

    PATH is a folder with {split}_ims.npy, {split}_caps.txt and perhaps {split}_ids.txt (f30k_precomp, coco_precomp); or
    its parent (f30k with f30k/precomp in it); or a folder with Karpathy's dataset_*.json and the features beside it, or
    that file itself; or "demo", the built-in data. docs/data.md describes the formats.
    """

    path: tyro.conf.Positional[Path]
    """The data set."""
    pictures: Path | None = None
    """Folder with the picture files, to see whether all are there; images/ beside the data is found without it."""
    word_vectors: Path | None = None
    """Text file of word vectors (GloVe, word2vec or fastText), to see how many of the words it knows."""
    word_threshold: int = 4
    """A word enters the vocabulary when the train captions hold it at least this often."""
    batch_size: int = 128
    """Pairs in a batch, for the memory estimate."""
    values: bool = True
    """Read every feature value, to find NaN, Inf and zero rows; --no-values looks at headers and captions only."""
    json: bool = False
    """Print one JSON object instead of tables."""


def main(arguments: list[str] | None = None) -> int:
    """Run the command; returns the exit status."""
    chosen = tyro.cli(Arguments, args=arguments, prog="python -m coder_core.check_data")
    if chosen.word_threshold < 1 or chosen.batch_size < 1:
        print("--word-threshold and --batch-size must be at least 1", file=sys.stderr)
        return 2
    try:
        found = _survey(chosen)
    except InputError as error:  # only from making the built-in data; a survey collects its faults
        found = Survey(faults=list(error.faults))
    if chosen.json:
        print(json.dumps(as_document(found, chosen.batch_size), ensure_ascii=True, indent=2))
    else:
        console = Console(highlight=False)
        console.width = max(console.width, NARROWEST)
        print_report(console, found, chosen.batch_size)
    return 0 if found.usable else 1


def _survey(chosen: Arguments) -> Survey:
    """Read what was named; "demo" is the built-in data, made when it is not there yet."""
    path = chosen.path
    if str(path) == "demo" and not path.exists():
        path = make_demo(Path(os.environ.get("CODER_DEMO", DEMO_FOLDER)))
    return survey(
        path,
        pictures=chosen.pictures,
        word_vectors=chosen.word_vectors,
        word_threshold=chosen.word_threshold,
        check_values=chosen.values,
    )


def as_document(found: Survey, batch_size: int) -> dict[str, Any]:
    """The report as plain values."""
    words = found.vocabulary
    vectors = found.vectors
    return {
        "usable": found.usable,
        "splits": [_describe(split, found.tokens.get(split.name), batch_size) for split in found.splits],
        "vocabulary": None if words is None else len(words),
        "word_vectors": None
        if vectors is None
        else {"size": vectors.matrix.shape[1], "words": vectors.coverage, "running_text": vectors.token_coverage},
        "faults": [asdict(fault) for fault in found.faults],
    }


def _describe(split: Split, tokens: Tokens | None, batch_size: int) -> dict[str, Any]:
    """One split in numbers."""
    offsets, _ = split.texts_of_image()
    each = np.diff(offsets)
    values = {
        "name": split.name,
        "images": split.n_images,
        "captions": split.n_texts,
        "shape": list(split.features.shape),
        "dtype": str(split.features.dtype),
        "captions_an_image": [int(each.min()), float(each.mean()), int(each.max())],
        "bytes_on_disk": int(split.features.nbytes),
        "bytes_a_batch": batch_size * split.regions * split.feature_size * 4,
        "named": split.image_names is not None,
        "pictures": str(split.picture_folder) if split.picture_folder else None,
        "fingerprint": fingerprint(split),
        "source": split.source,
    }
    if tokens is not None:
        lengths = tokens.lengths
        values["words_a_caption"] = [float(value) for value in np.percentile(lengths, [0, 50, 99, 100])]
        values["mean_words_a_caption"] = float(lengths.mean())
        values["unknown_words"] = tokens.unknown_share()
        values["bytes_of_words"] = int(tokens.ids.nbytes + tokens.offsets.nbytes)
    return values


def print_report(console: Console, found: Survey, batch_size: int) -> None:
    """Tables for a person."""
    document = as_document(found, batch_size)
    if document["splits"]:
        console.print(_splits_table(document["splits"]))
        console.print(_words_table(document["splits"]))
        for line in _sentences(document, batch_size):
            console.print(Text(line), soft_wrap=True)
        console.print()
    for fault in found.faults:
        console.print(_fault_text(fault), soft_wrap=True)
    errors, warnings = found.count("error"), found.count("warning")
    verdict = f"{_plural(errors, 'error')}, {_plural(warnings, 'warning')}: "
    verdict += "this data can be trained on." if found.usable else "this data would be refused."
    console.print(Text(verdict, style="bold green" if found.usable else "bold red"))


def _splits_table(splits: list[dict[str, Any]]) -> Table:
    table = Table(title="Splits", title_justify="left")
    for name in ("split", "images", "captions", "captions an image", "features", "dtype", "on disk", "pictures"):
        table.add_column(name, justify="left" if name in ("split", "features", "dtype", "pictures") else "right")
    for split in splits:
        least, mean, most = split["captions_an_image"]
        table.add_row(
            split["name"],
            f"{split['images']:,}",
            f"{split['captions']:,}",
            f"{least}" if least == most else f"{least} to {most}, mean {mean:.2f}",
            " × ".join(f"{length:,}" for length in split["shape"]),
            split["dtype"],
            _size(split["bytes_on_disk"]),
            "found" if split["pictures"] else "named, no folder" if split["named"] else "not named",
        )
    return table


def _words_table(splits: list[dict[str, Any]]) -> Table:
    table = Table(title="Captions, in words", title_justify="left")
    for name in ("split", "shortest", "median", "mean", "99 %", "longest", "unknown words"):
        table.add_column(name, justify="left" if name == "split" else "right")
    for split in splits:
        if "words_a_caption" not in split:
            continue
        shortest, median, high, longest = split["words_a_caption"]
        numbers = [f"{shortest:.0f}", f"{median:.0f}", f"{split['mean_words_a_caption']:.1f}", f"{high:.0f}"]
        table.add_row(split["name"], *numbers, f"{longest:.0f}", f"{split['unknown_words']:.2%}")
    return table


def _sentences(document: dict[str, Any], batch_size: int) -> list[str]:
    """Vocabulary, word vectors and memory, a line each."""
    splits = document["splits"]
    lines = []
    if document["vocabulary"]:
        lines.append(
            f"Vocabulary: {document['vocabulary']:,} words, <pad> and <unknown> included, from train captions."
        )
    vectors = document["word_vectors"]
    if vectors:
        text = f"{vectors['words']:.1%} of the words, {vectors['running_text']:.1%} of the running text"
        lines.append(f"Word vectors: {vectors['size']} numbers a word; {text}.")
    disk = sum(split["bytes_on_disk"] for split in splits)
    words = sum(split.get("bytes_of_words", 0) for split in splits)
    batch = max(split["bytes_a_batch"] for split in splits)
    lines.append(
        f"Memory: {_size(batch)} for the regions of a batch of {batch_size} in float32, {_size(words)} for the words; "
        f"the features ({_size(disk)}) stay on disk and are mapped."
    )
    return lines


def _fault_text(fault: Fault) -> Text:
    text = Text(f"{fault.severity}: ", style=COLOURS[fault.severity])
    return text.append("".join(c if c.isprintable() else repr(c)[1:-1] for c in str(fault)), style="not bold not dim")


def _plural(count: int, word: str) -> str:
    return f"{count} {word}" if count == 1 else f"{count} {word}s"


def _size(count: float) -> str:
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if count < 1024 or unit == "GiB":
            return f"{count:.0f} {unit}" if unit == "bytes" else f"{count:.1f} {unit}"
        count /= 1024
    raise AssertionError


if __name__ == "__main__":
    leave(main)
