"""Recall against speed, as CODER's figure 4: `python -m benchmarks.efficiency RUN RUN … [--split dev] [--out FOLDER]`.

Runs must be finished and may have any scorer. A query is a caption as text, its answer the ten best images, whose
vectors are precomputed. Every round gives all runs the same captions in turn, so that a busy machine slows all alike.
Times are medians of processor time. The paper's unit is thousand pairs per second: queries per second × images ÷ 1,000.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
import pandas as pd
import plotly.express as px
import plotly.graph_objects as go
import torch
import tyro
from rich.table import Table
from torch import Tensor

from coder_core.console.faults import InputError, stop_on_errors
from coder_core.console.output import open_console, say
from coder_core.console.plain_files import MISSING_RUN, check_folder
from coder_core.console.runner import command
from coder_core.data.batches import text_chunks
from coder_core.evaluation.sources import mixed_embeddings
from coder_core.model.device import use_onednn
from coder_core.model.encode import evaluating
from coder_core.runs.analysis.read import open_analysis
from coder_core.runs.load import LoadedModel, load_model

BEST = 10
DIGITS = 1, 0, 0, 3, 3, 2  # decimals of the numbers in the printed table


@dataclass(frozen=True)
class EfficiencyArguments:
    """Choose what to measure."""

    runs: tyro.conf.Positional[tuple[Path, ...]]
    """Run folders, evaluated on the split; the others are compared with the first."""
    split: str = "dev"  # Split whose captions query its images.
    out: Path = Path()  # Folder of efficiency.html and efficiency.csv.
    queries: Annotated[int, tyro.conf.arg(metavar="INT")] = 64  # Captions per request.
    rounds: int = 7  # Measurements of every run, after a warm-up.
    threads: int = 1  # Threads of torch.


@dataclass(frozen=True)
class Answers:
    """Best images of k queries, (k, ≤ 10) int64, and the seconds to encode and to score the captions."""

    best: Tensor
    encoding: float
    scoring: float


class Searched:
    """A run whose images can be searched. InputError: its analysis lacks the image parts needed for scoring."""

    def __init__(self, folder: Path, split: str) -> None:
        self.loaded: LoadedModel = load_model(folder)
        analysis = open_analysis(folder, split)
        self.name = folder.name
        self.captions = analysis.captions
        self.rsum = float(analysis.metrics["rsum"])
        self.lengths: Tensor | None = None
        if self.by_pair:
            if "image_parts" not in analysis.arrays:
                fix = "measure it on a split of fewer images"
                raise InputError.at(folder, f"has no image parts of {split}: above 256 MiB", fix=fix)
            vectors = analysis.array("image_parts")
            self.lengths = torch.from_numpy(np.array(analysis.array("image_part_lengths")))
        elif (concepts := analysis.concepts) is not None:
            vectors = mixed_embeddings(analysis.image_embeddings, concepts.image_embeddings, concepts.beta)
        else:
            vectors = analysis.image_embeddings

        self.images = torch.from_numpy(np.array(vectors, np.float32))

    @property
    def by_pair(self) -> bool:
        """True if scores are not inner products of one vector per sample."""
        return self.loaded.config.model.by_pair

    @property
    def scored(self) -> str:
        """Description of how a pair is scored."""
        model = self.loaded.config.model
        if model.scorer == "interaction":
            return "words attend to regions"
        if model.embeddings > 1:
            return f"best of {model.embeddings} × {model.embeddings} cosines"
        return "cosine" if self.loaded.concepts is None else "cosines of both branches"

    def answer(self, captions: Sequence[str]) -> Answers:
        """Return the best images of k captions."""
        start = time.process_time()
        if not self.by_pair:
            texts = torch.from_numpy(self.loaded.encode_text(captions, scoring=True))
            encoded = time.process_time()
            scores = texts @ self.images.T
        else:
            model = self.loaded.model
            tokens = self.loaded.reader.encode(list(captions))
            with evaluating(model):
                ids, words, counts = next(text_chunks(tokens, len(captions)))
                texts = model.encode_texts(words, counts)
                encoded = time.process_time()
                scores = model.scorer(self.images, texts, self.lengths, counts).T[np.argsort(ids)]
        best = scores.topk(min(BEST, scores.shape[1])).indices
        return Answers(best, encoded - start, time.process_time() - encoded)


def measure(runs: Sequence[Searched], *, queries: int, rounds: int) -> pd.DataFrame:
    """Search every run with the same captions, round by round; the first round is a warm-up. Return one row per run:
    queries and thousand pairs per second, milliseconds per query, time ÷ the first run's."""
    taken: list[list[Answers]] = [[] for _ in runs]
    random = np.random.default_rng(0)
    for turn in range(rounds + 1):
        captions = random.choice(np.array(runs[0].captions, dtype=object), queries, replace=False).tolist()
        for run, answers in zip(runs, taken, strict=True):
            answer = run.answer(captions)
            if turn > 0:
                answers.append(answer)

    parts = np.array([[(answer.encoding, answer.scoring) for answer in answers] for answers in taken])
    seconds = parts.sum(2)
    milliseconds = 1e3 * np.median(parts, axis=1) / queries
    table = pd.DataFrame(
        [(run.name, run.scored, run.rsum) for run in runs], columns=["run", "scored", "rsum"]
    )
    table["queries"] = queries / np.median(seconds, axis=1)
    table["pairs"] = table["queries"] * len(runs[0].images) / 1_000
    table[["encoding", "scoring"]] = milliseconds
    return table.assign(slower=np.median(seconds / seconds[0], axis=1))


def figure(table: pd.DataFrame, split: str, images: int) -> go.Figure:
    """Plot R@sum against queries per second, on a logarithmic axis."""
    asked = f"queries per second (captions as queries, {images:,} images)"
    axes = {"queries": asked, "rsum": f"R@sum on {split}"}
    names = table["run"] + ": " + table["scored"]
    options = {"log_x": True, "hover_data": ["pairs", "slower"], "template": "plotly_white", "height": 560}
    picture = px.scatter(
        table, "queries", "rsum", names, title="Recall against speed", labels=axes, **options
    )
    picture.update_traces(marker_size=13)
    return picture.update_layout(font_size=14, legend={"orientation": "h", "y": -0.2, "title": ""})


@command
def main(arguments: list[str]) -> int:
    """Measure, print the table, and write the figure and its numbers."""
    parsed = tyro.cli(EfficiencyArguments, prog="python -m benchmarks.efficiency", args=arguments)
    if not parsed.runs:
        raise InputError(MISSING_RUN)

    stop_on_errors(check_folder(f"--out {parsed.out}", parsed.out))
    torch.set_num_threads(parsed.threads)
    use_onednn()
    runs = [Searched(folder, parsed.split) for folder in parsed.runs]
    for run in runs[1:]:
        if run.captions != runs[0].captions:
            problem = f"was evaluated on other captions than {runs[0].name}"
            raise InputError.at(run.name, problem, "the same data")

    queries = min(parsed.queries, len(runs[0].captions))
    table = measure(runs, queries=queries, rounds=parsed.rounds)
    images = len(runs[0].images)
    console = open_console()
    title = f"{queries} captions of {parsed.split} at a time, {images:,} images, {parsed.threads} threads"
    headings = "run", "scored by", "R@sum", "queries/s", "thousand pairs/s", "ms to encode", "ms to score"
    shown = Table(*headings, f"time ÷ {runs[0].name}", title=title)
    for row in table.itertuples(index=False):
        figures = (f"{value:,.{digits}f}" for value, digits in zip(row[2:], DIGITS, strict=True))
        shown.add_row(*row[:2], *figures)

    console.print(shown)
    parsed.out.mkdir(parents=True, exist_ok=True)
    page = parsed.out / "efficiency.html"
    numbers = parsed.out / "efficiency.csv"
    figure(table, parsed.split, images).write_html(page, include_plotlyjs=True)
    table.to_csv(numbers, index=False)
    say(console, f"written: {page}, {numbers}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
