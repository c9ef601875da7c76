"""python -m coder_core.project RUN [RUN2] --split dev: a map of the joint space, kept beside the run for the app."""

from __future__ import annotations

if __name__ == "__main__":
    from coder_core.cpu.environment import tune_environment

    tune_environment()  # before torch loads

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import tyro

from coder_core.console.exit_status import leave
from coder_core.console.faults import Fault, InputError
from coder_core.console.progress import Tell
from coder_core.geometry.layout import LayoutSettings, Method
from coder_core.runs.derived.command import work
from coder_core.runs.derived.compute import make_layouts

MOST_RUNS = 2


@dataclass(frozen=True)
class Arguments:
    """Lay images and captions out on one plane by cosine distance (UMAP, t-SNE or PCA).

    With two runs the second layout is aligned to the first. A result is computed once: it is kept beside its run,
    looked up by the embeddings and these values.
    """

    runs: tyro.conf.Positional[tuple[Path, ...]]
    """One or two run folders with an analysis of the split."""
    split: str = "dev"
    """The analysed split."""
    method: Method = "umap"
    """umap, tsne (at most 6,000 points) or pca."""
    neighbours: int = 15
    """UMAP: size of a neighbourhood."""
    min_distance: float = 0.1
    """UMAP: smallest distance between points, 0 to 1."""
    perplexity: float = 30.0
    """t-SNE: size of a neighbourhood; at most a third of the points."""
    seed: int = 0
    """Of everything random."""
    progress: Path | None = None
    """Write how far it is into this file (JSON, replaced a few times a second)."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command. Returns 0, or 1 for an input that cannot be used."""
    parsed = tyro.cli(Arguments, prog="python -m coder_core.project", args=arguments)

    def compute(tell: Tell) -> str:
        if not 1 <= len(parsed.runs) <= MOST_RUNS:
            raise InputError(Fault("RUN", f"was given {len(parsed.runs)} times", "one or two run folders"))
        settings = LayoutSettings(parsed.method, parsed.neighbours, parsed.min_distance, parsed.perplexity, parsed.seed)
        made = make_layouts(list(parsed.runs), parsed.split, settings, tell=tell)
        lines = []
        for place, layout in made:
            aligned = "" if layout.disparity is None else f", disparity to the first run {layout.disparity:.3f}"
            lines.append(f"{place.folder}: {len(layout.plane):,} points{aligned}")
            lines += [f"  {note}" for note in layout.notes]
        return "\n".join(lines)

    return work(compute, parsed.progress)


if __name__ == "__main__":
    leave(main)
