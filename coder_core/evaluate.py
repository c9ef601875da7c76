"""python -m coder_core.evaluate RUN [RUN …] --split test: the field's metrics, and the folder the app reads."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro
from rich.console import Console
from rich.progress import Progress

from coder_core.data.dataset import Split, read_split
from coder_core.evaluation.recall import Metrics, ensemble_metrics, five_fold
from coder_core.evaluation.sources import Source
from coder_core.faults import Fault, InputError
from coder_core.runs.analysis_reader import open_analysis
from coder_core.runs.evaluating import evaluate_split
from coder_core.runs.restore import LoadedModel, load_model
from coder_core.training.display import metrics_table, print_faults
from coder_core.training.launch import choose_device
from coder_core.training.prepare import data_folder

FIVE_FOLD_IMAGES = 5000
ENSEMBLE = "ensemble"


@dataclass(frozen=True)
class Arguments:
    """Evaluate runs: R@1/5/10, MedR, MeanR both ways, R@sum, ties; write each run's analysis/SPLIT for the app.

    The rank of an image is that of its best caption; candidates scoring exactly the same count above the right answer.
    With several runs their scores are averaged as well (ensemble). From 5,000 images on, the mean over five folds of
    1,000 is printed too.
    """

    runs: tyro.conf.Positional[tuple[Path, ...]]
    """Run folders, for example checkpoints/demo."""
    split: str = "dev"
    """Split to evaluate: dev, test, testall …"""
    data: str = ""
    """Data folder; empty takes the one the run was trained on."""
    pictures: str = ""
    """Folder with the picture files; empty takes the run's."""
    ties: Literal["pessimistic", "optimistic"] = "pessimistic"
    """How equal scores count in the ensemble and five-fold rows; the runs' own rows are always pessimistic."""
    device: str = "auto"
    """One of "auto", "cpu", "cuda"."""
    json: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None
    """Write the table as JSON."""
    csv: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None
    """Write the table as CSV."""
    overwrite: bool = False
    """Replace FILE when it exists."""


def _read(arguments: Arguments, loaded: LoadedModel) -> Split:
    folder = data_folder(arguments.data or loaded.config.data.data)
    return read_split(folder, arguments.split, pictures=arguments.pictures or loaded.config.data.pictures or None)


def _evaluate_one(folder: Path, arguments: Arguments, console: Console) -> tuple[Metrics, Split]:
    loaded = load_model(folder, device=str(choose_device(arguments.device)))
    split = _read(arguments, loaded)
    print_faults(console, [*loaded.faults, *split.faults])
    with Progress(console=console, transient=True) as bar:
        task = bar.add_task(f"{folder.name}: encoding {arguments.split}", total=split.n_images + split.n_texts)
        metrics, _ = evaluate_split(
            folder, loaded, split, arguments.split, progress=lambda done, total: bar.update(task, completed=done)
        )
    return metrics, split


def _sources(folders: Sequence[Path], split: str) -> list[Source]:
    """The scores of every run, both branches where it has two, an equal share each."""
    found: list[Source] = []
    share = 1 / len(folders)
    for one in (open_analysis(folder, split) for folder in folders):
        beta = 1.0 if one.concepts is None else one.concepts.beta
        found.append(Source(one.image_embeddings, one.text_embeddings, share * beta))
        if one.concepts is not None:
            found.append(Source(one.concepts.image_embeddings, one.concepts.text_embeddings, share * (1 - beta)))
    return found


def _check_same(splits: list[Split], folders: Sequence[Path]) -> None:
    for split, folder in zip(splits, folders, strict=True):
        if split.captions != splits[0].captions:
            fix = "evaluate them one by one, or name one --data for all"
            raise InputError(Fault(str(folder), f"was evaluated on other captions than {folders[0]}", fix=fix))


def evaluate(arguments: Arguments, console: Console) -> dict[str, Metrics]:
    """Metrics of every run, of their ensemble, and of five folds when there are enough images.

    Raises:
        InputError: a run or the data cannot be read.
    """
    folders = arguments.runs
    if not folders:
        raise InputError(Fault("RUN", "is missing", "one or more run folders", "for example checkpoints/demo"))
    for target in (arguments.json, arguments.csv):
        if target is not None and target.exists() and not arguments.overwrite:
            raise InputError(Fault(str(target), "exists", fix="choose another file, or add --overwrite"))
    table: dict[str, Metrics] = {}
    splits = []
    for folder in folders:
        table[str(folder)], split = _evaluate_one(folder, arguments, console)
        splits.append(split)
    owner = splits[0].image_of_text
    if len(folders) > 1:
        _check_same(splits, folders)
        sources = _sources(folders, arguments.split)
        table[ENSEMBLE] = ensemble_metrics(sources, owner, ties=arguments.ties)
    if splits[0].n_images >= FIVE_FOLD_IMAGES:
        for folder, split in zip(folders, splits, strict=True):
            one = _sources([folder], arguments.split)
            table[f"{folder} (5 × 1K)"] = five_fold(one, split.image_of_text, ties=arguments.ties)
        if len(folders) > 1:
            table[f"{ENSEMBLE} (5 × 1K)"] = five_fold(sources, owner, ties=arguments.ties)
    return table


def write_tables(table: dict[str, Metrics], arguments: Arguments) -> None:
    """The table as JSON and CSV where they were asked for."""
    if arguments.json is not None:
        document = {"split": arguments.split, "ties": arguments.ties, "runs": table}
        arguments.json.write_text(json.dumps(document, indent=2) + "\n", "utf-8")
    if arguments.csv is not None:
        with arguments.csv.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, ["run", "split", *next(iter(table.values()))])
            writer.writeheader()
            writer.writerows({"run": name, "split": arguments.split, **row} for name, row in table.items())


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command. Returns 0, or 1 for an input that cannot be used."""
    parsed = tyro.cli(Arguments, prog="python -m coder_core.evaluate", args=arguments)
    console = Console()
    try:
        table = evaluate(parsed, console)
    except InputError as error:
        print_faults(Console(stderr=True), error.faults)
        return 1
    write_tables(table, parsed)
    console.print(metrics_table(table, f"{parsed.split} · {parsed.ties} ties"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
