"""coder-lab project RUN [RUN2] --split dev: a map of the joint space, stored beside the run for the app."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import tyro

from coder_core.config.split_name import SplitName
from coder_core.console.faults import InputError
from coder_core.console.output import open_console, say, watching
from coder_core.console.runner import command
from coder_core.geometry.settings import LayoutSettings

MOST_RUNS = 2


@dataclass(frozen=True)
class ProjectArguments:
    """Lay images and captions out on one plane by cosine distance (UMAP, t-SNE or PCA).

    With two runs the second layout is aligned to the first. A result is computed once and stored beside its run;
    another call with the same embeddings and values reuses it.
    """

    runs: tyro.conf.Positional[tuple[Path, ...]]  # One or two run folders with an analysis of the split.
    split: SplitName = "dev"  # The analysed split.
    layout: Annotated[LayoutSettings, tyro.conf.arg(name="")] = field(default_factory=LayoutSettings)
    progress: Path | None = None  # Write progress into this file (JSON, replaced a few times a second).


@command
def main(arguments: list[str]) -> int:
    """Compute the layouts."""
    parsed = tyro.cli(ProjectArguments, prog="coder-lab project", args=arguments)

    from coder_core.runs.derived.compute import make_layouts

    console = open_console()
    with watching(console, file=parsed.progress) as progress:
        if not 1 <= len(parsed.runs) <= MOST_RUNS:
            raise InputError.at("RUN", f"{len(parsed.runs)} given", "one or two run folders")
        layouts = make_layouts(list(parsed.runs), parsed.split, parsed.layout, progress=progress)
    for folder, layout in layouts:
        aligned = "" if layout.disparity is None else f", disparity to the first run {layout.disparity:.3f}"
        say(console, f"{folder.path}: {len(layout.plane):,} points{aligned}")
        for note in layout.notes:
            say(console, f"  {note}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
