"""python -m coder_core.cluster RUN --split dev --clusters 50: offline k-means of a run's pairs, kept for the app."""

from __future__ import annotations

if __name__ == "__main__":
    from coder_core.cpu.environment import tune_environment

    tune_environment()  # before torch loads

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import tyro

from coder_core.console.exit_status import leave
from coder_core.console.progress import Tell, within
from coder_core.geometry.kmeans import ClusterSettings
from coder_core.runs.derived.command import work
from coder_core.runs.derived.compute import make_clusters


@dataclass(frozen=True)
class Arguments:
    """Cluster image-caption pairs (v + w, as CODER's prototypes) by spherical k-means, after training.

    For runs without prototypes of their own. A result is computed once: it is kept beside its run, looked up by the
    embeddings and these values.
    """

    runs: tyro.conf.Positional[tuple[Path, ...]]
    """Run folders with an analysis of the split."""
    split: str = "dev"
    """The analysed split."""
    clusters: int = 50
    """How many clusters."""
    seed: int = 0
    """Of the first centroids."""
    progress: Path | None = None
    """Write how far it is into this file (JSON, replaced a few times a second)."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command. Returns 0, or 1 for an input that cannot be used."""
    parsed = tyro.cli(Arguments, prog="python -m coder_core.cluster", args=arguments)

    def compute(tell: Tell) -> str:
        settings = ClusterSettings(parsed.clusters, parsed.seed)
        lines = []
        for position, run in enumerate(parsed.runs):
            share = len(parsed.runs)
            part = within(tell, position / share, (position + 1) / share)
            place, found = make_clusters(run, parsed.split, settings, tell=part)
            lines.append(f"{place.folder}: {len(found.centroids):,} clusters of {len(found.text_labels):,} pairs")
        return "\n".join(lines)

    return work(compute, parsed.progress)


if __name__ == "__main__":
    leave(main)
