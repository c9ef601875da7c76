"""coder-lab cluster RUN --split dev --clusters 50: offline k-means of a run's pairs, kept for the app."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import tyro

from coder_core.config.split_name import SplitName
from coder_core.console.output import open_console, say, watching, within
from coder_core.console.runner import command
from coder_core.geometry.settings import ClusterSettings


@dataclass(frozen=True)
class ClusterArguments:
    """Cluster image-caption pairs (v + w, as CODER's prototypes) by spherical k-means, after training.

    Meant for runs without their own prototypes. A result is computed once and stored beside its run; another call with
    the same embeddings and values reuses it.
    """

    runs: tyro.conf.Positional[tuple[Path, ...]]  # Run folders with an analysis of the split.
    split: SplitName = "dev"  # The analysed split.
    kmeans: Annotated[ClusterSettings, tyro.conf.arg(name="")] = field(default_factory=ClusterSettings)
    device: str = "auto"  # Where k-means runs: auto, cpu or cuda. The result is the same up to rounding.
    progress: Path | None = None  # Write progress into this file (JSON, replaced a few times a second).


@command
def main(arguments: list[str]) -> int:
    """Compute the clusters of every run."""
    parsed = tyro.cli(ClusterArguments, prog="coder-lab cluster", args=arguments)

    from coder_core.model.device import choose_device  # imports torch
    from coder_core.runs.derived.compute import make_clusters

    device = str(choose_device(parsed.device))
    console = open_console()
    clusterings = []
    share = 1 / max(1, len(parsed.runs))
    with watching(console, file=parsed.progress) as progress:
        for i, run in enumerate(parsed.runs):
            part = within(progress, i * share, (i + 1) * share)
            made = make_clusters(run, parsed.split, parsed.kmeans, device=device, progress=part)
            clusterings.append(made)
    for folder, clustering in clusterings:
        pairs = len(clustering.text_labels)
        say(console, f"{folder.path}: {len(clustering.centroids):,} clusters of {pairs:,} pairs")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
