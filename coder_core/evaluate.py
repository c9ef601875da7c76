"""python -m coder_core.evaluate RUN [RUN …] --split test: the field's metrics, and the folder the app reads."""

from __future__ import annotations

if __name__ == "__main__":
    from coder_core.cpu.environment import tune_environment

    tune_environment()  # before torch loads

import csv
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Literal

import tyro
from rich.console import Console

from coder_core.console.bars import watching
from coder_core.console.faults import Fault, InputError
from coder_core.console.output import open_console, print_faults
from coder_core.console.runner import command
from coder_core.console.tables import choices_table, metrics_table
from coder_core.cpu.products import use_onednn
from coder_core.data.dataset import Split, read_split
from coder_core.evaluation.c_way import DIRECTIONS, c_way_accuracy, most_options, option_faults
from coder_core.evaluation.recall import Metrics, ensemble_metrics, five_fold
from coder_core.evaluation.separation import distributions
from coder_core.evaluation.sources import EmbeddingPair, ScoreMatrix, Source
from coder_core.evaluation.tiles import score_tiles
from coder_core.runs.analysis.evaluate import evaluate_split
from coder_core.runs.analysis.read import open_analysis
from coder_core.runs.load import LoadedModel, load_model
from coder_core.training.launch import choose_device
from coder_core.training.prepare import data_folder

FIVE_FOLD_IMAGES = 5000
ENSEMBLE = "ensemble"
FOLDS = "(5 × 1K)"
ENDS = ("", f" {FOLDS}")  # of a run's rows


@dataclass(frozen=True)
class Arguments:
    """Evaluate runs: R@1/5/10, MedR, MeanR both ways, R@sum, MD, ties; write each run's analysis/SPLIT for the app.

    The rank of an image is that of its best caption; candidates scoring exactly the same count above the right answer.
    With several runs their scores are averaged as well (ensemble). From 5,000 images on, the mean over five folds of
    1,000 is printed too. MD is the mean score of matching pairs minus that of all others.
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
    ways: tuple[int, ...] = ()
    """Also c-way accuracy, the right answer among c options of which the others are of other images: 5 20 100."""
    ways_repeats: int = 10
    """Draws of the options behind a mean and its 95% interval."""
    ways_seed: int = 0
    """The draws follow from it; every run gets the same questions."""
    similarities: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None
    """Write how often each score occurs among matching and among other pairs, as CSV: one row a run and bin."""
    json: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None
    """Write the table as JSON."""
    csv: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None
    """Write the table as CSV."""
    overwrite: bool = False
    """Replace files that exist."""


def _read(arguments: Arguments, loaded: LoadedModel) -> Split:
    folder = data_folder(arguments.data or loaded.config.data.data)
    return read_split(folder, arguments.split, pictures=arguments.pictures or loaded.config.data.pictures or None)


def _evaluate_one(folder: Path, arguments: Arguments, console: Console) -> tuple[Metrics, Split]:
    loaded = load_model(folder, device=str(choose_device(arguments.device)))
    split = _read(arguments, loaded)
    print_faults(console, [*loaded.faults, *split.faults])
    what = "scoring pairs of" if loaded.config.model.by_pair else "encoding"
    with watching(console, f"{folder.name}: {what} {arguments.split}") as watch:
        metrics, _ = evaluate_split(
            folder, loaded, split, arguments.split, progress=watch,
            finding=lambda phase, done, total: watch(done, total, f"{folder.name}: {phase}"),
        )  # fmt: skip
    return metrics, split


def _sources(folders: Sequence[Path], split: str) -> list[Source]:
    """The scores of every run, both branches where it has two, an equal share each."""
    found: list[Source] = []
    share = 1 / len(folders)
    for one in (open_analysis(folder, split) for folder in folders):
        if one.scores is not None:
            found.append(ScoreMatrix(one.scores, share))
            continue
        beta = 1.0 if one.concepts is None else one.concepts.beta
        found.append(EmbeddingPair(one.image_embeddings, one.text_embeddings, share * beta))
        if one.concepts is not None:
            found.append(EmbeddingPair(one.concepts.image_embeddings, one.concepts.text_embeddings, share * (1 - beta)))
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
    if arguments.ways and arguments.ways_repeats < 2:
        found = f"is {arguments.ways_repeats}"
        raise InputError(Fault("--ways-repeats", found, "2 or more", "an interval needs two numbers"))
    if any(c < 2 for c in arguments.ways):
        raise InputError(Fault("--ways", f"are {' '.join(map(str, arguments.ways))}", "2 options or more"))
    for target in (arguments.json, arguments.csv, arguments.similarities):
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
    if arguments.ways or arguments.similarities is not None:
        asked = [
            (str(folder), _sources([folder], arguments.split), split)
            for folder, split in zip(folders, splits, strict=True)
        ]
        asked += [(ENSEMBLE, sources, splits[0])] if len(folders) > 1 else []
        print_faults(console, _add_ways(table, asked, arguments))
        if arguments.similarities is not None:
            _write_similarities(asked, arguments.similarities, arguments.split)
    if splits[0].n_images >= FIVE_FOLD_IMAGES:
        for folder, split in zip(folders, splits, strict=True):
            one = _sources([folder], arguments.split)
            table[f"{folder} {FOLDS}"] = five_fold(one, split.image_of_text, ties=arguments.ties)
        if len(folders) > 1:
            table[f"{ENSEMBLE} {FOLDS}"] = five_fold(sources, owner, ties=arguments.ties)
    return table


Asked = tuple[str, list[Source], Split]  # a row's name, its scores, what they are of


def _add_ways(table: dict[str, Metrics], asked: list[Asked], arguments: Arguments) -> list[Fault]:
    """Put c-way accuracies into the rows; returns, as warnings, what the split is too small for."""
    left_out: dict[str, Fault] = {}
    for name, sources, split in asked:
        scores = score_tiles(sources, split.image_of_text)
        for way in DIRECTIONS:
            fits = [c for c in arguments.ways if c <= most_options(split.image_of_text, split.n_images, way)]
            faults = option_faults(arguments.ways, split.image_of_text, split.n_images, way, arguments.ways_repeats)
            left_out |= {fault.place: replace(fault, severity="warning") for fault in faults}
            if not fits:
                continue
            found = c_way_accuracy(
                scores, fits, way, repeats=arguments.ways_repeats, seed=arguments.ways_seed, ties=arguments.ties
            )
            for c, accuracy in found.items():
                table[name] |= {f"{way}_{c}way": accuracy.mean, f"{way}_{c}way_interval": accuracy.interval}
    return list(left_out.values())


def _write_similarities(asked: list[Asked], file: Path, name: str) -> None:
    with file.open("w", newline="", encoding="utf-8") as output:
        writer = csv.writer(output)
        writer.writerow(["run", "split", "low", "high", "matching", "others", "images", "of_images"])
        for run, sources, split in asked:
            found = distributions(score_tiles(sources, split.image_of_text).sources, split.image_of_text)
            for low, high, *counts in zip(
                found.edges[:-1], found.edges[1:], found.positive, found.negative, strict=True
            ):
                row = [run, name, f"{low:.6g}", f"{high:.6g}", *map(int, counts), found.images, found.of_images]
                writer.writerow(row)


def by_run_name(table: dict[str, Metrics], folders: Sequence[Path]) -> dict[str, Metrics]:
    """The rows under the runs' names instead of their paths, which fill a terminal; under the paths where two runs have
    the same name."""
    names = [folder.resolve().name for folder in folders]
    if len(set(names)) < len(names):
        return table
    shown = {f"{folder}{end}": f"{name}{end}" for folder, name in zip(folders, names, strict=True) for end in ENDS}
    return {shown.get(row, row): metrics for row, metrics in table.items()}


def write_tables(table: dict[str, Metrics], arguments: Arguments) -> None:
    """The table as JSON and CSV where they were asked for."""
    if arguments.json is not None:
        document = {"split": arguments.split, "ties": arguments.ties, "runs": table}
        arguments.json.write_text(json.dumps(document, indent=2) + "\n", "utf-8")
    if arguments.csv is not None:
        with arguments.csv.open("w", newline="", encoding="utf-8") as file:
            columns = dict.fromkeys(key for row in table.values() for key in row)
            writer = csv.DictWriter(file, ["run", "split", *columns])
            writer.writeheader()
            writer.writerows({"run": name, "split": arguments.split, **row} for name, row in table.items())


@command
def main(arguments: list[str]) -> int:
    """Evaluate the runs and print their tables."""
    parsed = tyro.cli(Arguments, prog="python -m coder_core.evaluate", args=arguments)
    console = open_console()
    use_onednn()
    table = evaluate(parsed, console)
    write_tables(table, parsed)
    table = by_run_name(table, parsed.runs)
    console.print(metrics_table(table, f"{parsed.split} · {parsed.ties} ties"))
    if parsed.ways:
        rows = {name: row for name, row in table.items() if FOLDS not in name}
        title = f"right among c options · mean of {parsed.ways_repeats} draws ± 95% · seed {parsed.ways_seed}"
        console.print(choices_table(rows, parsed.ways, title))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
