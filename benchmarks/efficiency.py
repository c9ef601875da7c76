"""Recall against speed, as CODER's figure 4: `python -m benchmarks.efficiency RUN RUN … [--split dev] [--out FOLDER]`.

Takes finished runs of any scorer. A query is a caption as text; its answer is the ten best images, whose vectors are
ready. Every round asks every run the same captions in turn, so a busy machine slows all of them alike; times are
processor time, medians over the rounds. The paper counts thousand pairs per second: queries per second × images ÷ 1,000.
"""

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
import pandas as pd
import plotly.graph_objects as go
import torch
import tyro
from torch import Tensor

from coder_core.console.faults import InputError, stop_on_errors
from coder_core.console.output import open_console, say
from coder_core.console.plain_files import MISSING_RUN, check_folder
from coder_core.console.runner import command
from coder_core.console.tables import Column, FittingTable
from coder_core.data.batches import text_chunks
from coder_core.evaluation.sources import mixed_embeddings
from coder_core.model.encode import evaluating
from coder_core.model.products import use_onednn
from coder_core.runs.analysis.read import open_analysis
from coder_core.runs.load import LoadedModel, load_model

BEST = 10


@dataclass(frozen=True)
class EfficiencyArguments:
    """Choose what to measure."""

    runs: tyro.conf.Positional[tuple[Path, ...]]
    """Run folders, evaluated on the split; the others are compared with the first."""
    split: str = "dev"  # Split whose captions ask for its images.
    out: Path = Path()  # Folder of efficiency.html and efficiency.csv.
    queries: Annotated[int, tyro.conf.arg(metavar="INT")] = 64  # Captions per question.
    rounds: int = 7  # Measurements of every run, after one that warms up.
    threads: int = 1  # Threads of torch.


@dataclass(frozen=True)
class Answers:
    """Best images of k queries, (k, ≤ 10) int64, and the seconds of encoding the captions and of scoring them."""

    best: Tensor
    encoding: float
    scoring: float


class Searched:
    """A run whose images are ready to be searched.

    Raises:
        InputError: the analysis keeps no image parts, without which new captions cannot be scored.
    """

    def __init__(self, folder: Path, split: str) -> None:
        self.loaded: LoadedModel = load_model(folder)
        analysis = open_analysis(folder, split)
        self.name, self.captions, self.rsum = folder.name, analysis.captions, float(analysis.metrics["rsum"])
        self.lengths: Tensor | None = None
        if self.by_pair:
            if "image_parts" not in analysis.arrays:
                fix = "measure it on a split of fewer images"
                raise InputError.at(folder, f"keeps no image parts of {split}: above 256 MiB", fix=fix)
            vectors = analysis.array("image_parts")
            self.lengths = torch.from_numpy(np.array(analysis.array("image_part_lengths")))
        elif (concepts := analysis.concepts) is not None:
            vectors = mixed_embeddings(analysis.image_embeddings, concepts.image_embeddings, concepts.beta)
        else:
            vectors = analysis.image_embeddings
        self.images = torch.from_numpy(np.array(vectors, np.float32))

    @property
    def by_pair(self) -> bool:
        """True if scores are not inner products of one vector each."""
        return self.loaded.config.model.by_pair

    @property
    def scored(self) -> str:
        """The way a pair is scored."""
        model = self.loaded.config.model
        if model.scorer == "interaction":
            return "words attend to regions"
        if model.embeddings > 1:
            return f"best of {model.embeddings} × {model.embeddings} cosines"
        return "cosine" if self.loaded.concepts is None else "cosines of both branches"

    def answer(self, captions: Sequence[str]) -> Answers:
        """The best images of k captions."""
        start = time.process_time()
        if not self.by_pair:
            texts = torch.from_numpy(self.loaded.encode_text(captions, scoring=True))
            encoded = time.process_time()
            scores = texts @ self.images.T
        else:
            model, tokens = self.loaded.model, self.loaded.reader.encode(list(captions))
            with evaluating(model):
                ids, words, counts = next(text_chunks(tokens, len(captions)))
                texts = model.encode_texts(words, counts)
                encoded = time.process_time()
                scores = model.scorer(self.images, texts, self.lengths, counts).T[np.argsort(ids)]
        best = scores.topk(min(BEST, scores.shape[1])).indices
        return Answers(best, encoded - start, time.process_time() - encoded)


@dataclass(frozen=True)
class Efficiency:
    """Figures of one run: queries and thousand pairs per second, milliseconds per query, time ÷ the first run's."""

    run: str
    scored: str
    rsum: float
    queries: float
    pairs: float
    encoding: float
    scoring: float
    slower: float


def measure(runs: Sequence[Searched], *, queries: int, rounds: int) -> list[Efficiency]:
    """Ask every run the same captions, round by round; the first round warms up."""
    taken: list[list[Answers]] = [[] for _ in runs]
    random = np.random.default_rng(0)
    for turn in range(rounds + 1):
        captions = random.choice(np.array(runs[0].captions, dtype=object), queries, replace=False).tolist()
        for run, answers in zip(runs, taken, strict=True):
            answer = run.answer(captions)
            if turn > 0:
                answers.append(answer)
    parts = np.array([[(answer.encoding, answer.scoring) for answer in answers] for answers in taken])
    whole = parts.sum(2)
    rows = []
    for run, both, seconds in zip(runs, parts, whole, strict=True):
        per_second = queries / float(np.median(seconds))
        encoding, scoring = (1e3 * np.median(both, axis=0) / queries).tolist()
        pairs, slower = per_second * len(run.images) / 1_000, float(np.median(seconds / whole[0]))
        rows.append(Efficiency(run.name, run.scored, run.rsum, per_second, pairs, encoding, scoring, slower))
    return rows


def figure(rows: Sequence[Efficiency], split: str, images: int) -> go.Figure:
    """R@sum against queries per second, on a logarithmic axis."""
    picture = go.Figure(layout={"template": "plotly_white", "title": "Recall against speed", "height": 560})
    for row in rows:
        hover = f"R@sum {row.rsum:.1f}<br>{row.queries:,.0f} queries a second<br>"
        hover += f"{row.pairs:,.0f} thousand pairs a second<br>{row.slower:.2f} times the first run's time"
        style = {"mode": "markers", "marker": {"size": 13}, "name": f"{row.run}: {row.scored}"}
        picture.add_scatter(x=[row.queries], y=[row.rsum], hovertemplate=hover, **style)
    title = f"queries a second (captions asking for {images:,} images)"
    picture.update_xaxes(type="log", title=title, dtick="D2", tickformat=",d")
    picture.update_yaxes(title=f"R@sum on {split}")
    picture.update_layout(font={"size": 14}, showlegend=True, legend={"orientation": "h", "y": -0.2})
    return picture


@command
def main(arguments: list[str]) -> int:
    """Measure, print, write the figure and its numbers."""
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
    rows = measure(runs, queries=queries, rounds=parsed.rounds)
    images, console = len(runs[0].images), open_console()
    title = f"{queries} captions at a time against {images:,} images"
    title += f", {parsed.threads} threads, {parsed.split}"
    columns = [Column("run", text=True), Column("scored by", text=True), Column("R@sum"), Column("queries/s")]
    columns += [Column("thousand\npairs/s"), Column("ms to\nencode", dropped=1)]
    columns += [Column("ms to\nscore", dropped=1), Column(f"time ÷\n{runs[0].name}")]
    table = FittingTable(title, columns)
    for row in rows:
        speeds = f"{row.queries:,.0f}", f"{row.pairs:,.0f}", f"{row.encoding:.3f}", f"{row.scoring:.3f}"
        table.add_row(row.run, row.scored, f"{row.rsum:.1f}", *speeds, f"{row.slower:.2f}")
    console.print(table)
    parsed.out.mkdir(parents=True, exist_ok=True)
    page, numbers = parsed.out / "efficiency.html", parsed.out / "efficiency.csv"
    figure(rows, parsed.split, images).write_html(page, include_plotlyjs=True)
    pd.DataFrame([asdict(row) for row in rows]).to_csv(numbers, index=False)
    say(console, f"written: {page}, {numbers}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
