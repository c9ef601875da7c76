"""A run and the data that it is evaluated on: its row, and that of its scores corrected for hubs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from rich.console import Console

from coder_core.console.faults import Fault, InputError
from coder_core.console.output import print_faults, watching
from coder_core.data.captioned.reading import SKIPPING
from coder_core.data.split import Split, with_queries_of_log
from coder_core.evaluation.nearest import BY_INDEX
from coder_core.evaluation.sampled import RankOptions, choose_queries
from coder_core.evaluation.sources import Source
from coder_core.model.reader import data_folder, read_splits
from coder_core.runs.analysis.evaluate import evaluate_split, score
from coder_core.runs.analysis.read import open_analysis
from coder_core.runs.analysis.rows import RunRow, Samples
from coder_core.runs.analysis.tables import list_splits
from coder_core.runs.derived.correct_hubs import correct_hubs
from coder_core.runs.load import LoadedModel

CHOOSING = ("dev", "val")  # splits on which values may be chosen


@dataclass(frozen=True)
class LogFiles:
    """Files of a search log, and the split of the data whose pictures are ranked for its queries."""

    queries: Path
    qrels: Path
    pool: str


@dataclass(frozen=True)
class RunData:
    """A run, and the data that it is evaluated on."""

    folder: Path  # of the run
    split_name: str
    loaded: LoadedModel | None = None  # its model; None for a run of another model's embeddings
    data: Path | None = None  # the data set; None for embeddings
    pictures: str | None = None  # folder of picture files
    log: LogFiles | None = None  # a search log in place of the split's captions

    def read(self, split_name: str, console: Console) -> tuple[LoadedModel, Split]:
        """Return the run's model, and a split of the data for it."""
        assert self.loaded is not None
        assert self.data is not None
        settings = replace(self.loaded.config.data, pictures=self.pictures or "")
        notes: list[Fault] = []
        if (settings.groups or settings.group_column) and self._lacks(settings.groups):
            fact = "the groups that the run trained with are not those of this data: metrics by group are left out"
            notes = [Fault(str(self.folder), fact, fix="name them with --groups FILE", severity="note")]
            settings = replace(settings, groups="", group_column="")
        if settings.columns and self._lacks(settings.columns):
            fact = f"the table of columns that the run trained with, {settings.columns}, is not of this data or is gone"
            fix = "join it with --columns FILE, and name groups with --groups FILE"
            notes.append(Fault(str(self.folder), fact, fix=fix, severity="note"))
            settings = replace(settings, columns="", group_column="")

        config = replace(self.loaded.config, data=settings)
        of_log = self.log if split_name == self.split_name else None
        of_data = split_name if of_log is None else of_log.pool
        try:
            with watching(console) as progress:
                read = read_splits(config, self.data, self.loaded.towers, (of_data,), progress=progress)
        except InputError as error:  # evaluation has no such flag: it leaves pictures out if training did
            faults = [replace(fault, fix=fault.fix.replace(SKIPPING, "")) for fault in error.faults]
            raise InputError(faults) from None

        split = read.splits[of_data]
        if of_log is not None:
            split, of_queries = with_queries_of_log(split, split_name, of_log.queries, of_log.qrels)
            notes += of_queries

        print_faults(console, [*self.loaded.faults, *read.faults, *notes])
        return self.loaded, split

    def _lacks(self, file: str) -> bool:
        """True if the data is not the run's, or a file that the run trained with ("" for none) no longer exists."""
        assert self.loaded is not None
        own_data = data_folder(self.loaded.config.data.data)
        return self.data != own_data or (bool(file) and not Path(file).is_file())


def evaluate_run(run: RunData, console: Console, options: RankOptions) -> RunRow:
    """Evaluate a trained run on its split and write its analysis folder."""
    loaded, split = run.read(run.split_name, console)
    activity = "scoring pairs of" if loaded.config.model.by_pair else "encoding"
    with watching(console, f"{run.folder.name}: {activity} {run.split_name}") as watch:
        metrics, sources = evaluate_split(
            run.folder, loaded, split, run.split_name, options=options, progress=watch
        )
    row = RunRow(
        run.folder, metrics, sources, Samples.of(split), split_name=run.split_name, device=options.device
    )
    queries = choose_queries(row.labels, split.image_of_text, options.queries)
    return replace(row, split=replace(row.split, queries=queries))


def hub_corrected_row(row: RunRow, run: RunData, console: Console) -> tuple[RunRow, Fault]:
    """Correct a run's scores for hubs and store the ranks for the app; return the corrected row, and a note on how.
    InputError: there is no train split, or no split to choose on; the run scores pair by pair. `row`: the uncorrected
    row of the run. A run of another model's embeddings must include those of train and dev."""
    folder = run.folder
    split_name = run.split_name

    def sources_of(name: str) -> tuple[Sequence[Source], np.ndarray]:
        if name == split_name:
            return row.sources, row.split.image_of_text
        if run.loaded is None:
            analysis = open_analysis(folder, name)
            return analysis.sources, np.asarray(analysis.image_of_text)
        loaded, split = run.read(name, console)
        with watching(console, f"{folder.name}: encoding {name}") as watch:
            return score(loaded, split, progress=watch)[0], split.image_of_text

    chosen_on = split_name if split_name in CHOOSING else "dev"
    if run.loaded is None and chosen_on == "dev" and "dev" not in list_splits(folder):
        chosen_on = "val"
    correction, sources = correct_hubs(folder, split_name, chosen_on, sources_of, row.device)
    strengths = zip(("image→text", "text→image"), correction.strengths.values(), strict=True)
    i2t, t2i = (f"k = {k} and α = {alpha:g} for {direction}" for direction, (k, alpha) in strengths)
    fact = f"hubs corrected after training: {i2t}, {t2i}, chosen on {chosen_on}"
    fact += ", the split that is shown" if chosen_on == split_name else ""
    fact += f"; {BY_INDEX}" if correction.by_index else ""
    corrected = RunRow(
        folder, dict(correction.metrics), list(sources), row.split, hubs_corrected=True, device=row.device
    )
    return corrected, Fault(str(folder), fact, severity="note")
