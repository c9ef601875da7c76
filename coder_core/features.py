"""python -m coder_core.features DATA --model NAME_OR_FOLDER --grid 7 --out FOLDER: region features for training.

Patch tokens or feature-map cells of a pretrained tower, in the precomp layout that every preset trains on.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Annotated, Literal

import tyro

from coder_core.console.bars import watching
from coder_core.console.faults import Fault, InputError, stop_on_errors
from coder_core.console.output import open_console, print_faults, say
from coder_core.console.outputs import check_folder
from coder_core.console.runner import command
from coder_core.data.formats import ReadingArguments


@dataclass(frozen=True)
class FeaturesArguments:
    """Make region features of pictures with a pretrained tower, in the layout that every preset trains on.

    Writes {split}_ims.npy (images, regions, size) float16, {split}_caps.txt, {split}_ids.txt and {split}_boxes.npy:
    left, top, right, bottom of every region as shares of its picture's sides. The regions are the tower's patch tokens
    or feature-map cells, pooled to a grid. Says first what it will take and refuses when the disk has no room. A
    command that was killed goes on where it was when it is started again.
    """

    data: tyro.conf.Positional[Path]
    """Folder or file of pictures with captions (docs/data.md, section 9); "demo" is the built-in data."""
    out: Path
    """Folder of the features."""
    model: str = ""
    """Folder of a transformers model, or the name of a downloaded one: CLIP, SigLIP, DINOv2, ResNet …"""
    tower: str = ""
    """Instead of --model: package.module:function, which gives your own tower (docs/towers.md)."""
    revision: str = ""
    """Branch, tag or commit of a downloaded model."""
    grid: int = 7
    """Cells a side that the tower's are averaged to: 7 gives 49 regions; 0 keeps all."""
    splits: tuple[str, ...] = ()
    """Splits to write; all when empty."""
    pictures: Path | None = None
    """Folder of the picture files, where it is not beside the captions."""
    reading: Annotated[ReadingArguments, tyro.conf.arg(name="")] = field(default_factory=ReadingArguments)
    batch_size: int = 256
    """Pictures a GPU computes at once. The CPU always computes 32."""
    workers: int = -1
    """Processes that decode pictures ahead of the tower; −1 chooses, 0 decodes in this process."""
    device: str = "auto"
    """One of "auto", "cpu", "cuda"."""
    precision: Literal["bfloat16", "float32"] = "bfloat16"
    """Of a GPU's products (autocast); the CPU computes in float32."""


@command
def main(arguments: list[str]) -> int:
    """Write the features of the splits."""
    parsed = tyro.cli(FeaturesArguments, prog="python -m coder_core.features", args=arguments)
    stop_on_errors(_faults(parsed))

    from coder_core.data.captioned import read_captioned
    from coder_core.data.captioned.records import split_name
    from coder_core.data.demo import DEMO_FOLDER, make_demo
    from coder_core.embedding.embed import usual_workers
    from coder_core.embedding.regions import RegionFolder
    from coder_core.towers.regions import own_regions, transformers_regions
    from coder_core.training.launch import choose_device

    console = open_console()
    path = parsed.data
    if str(path) == "demo" and not path.exists():
        path = make_demo(Path(os.environ.get("CODER_DEMO", DEMO_FOLDER)))
    only = split_name(parsed.splits[0]) if len(parsed.splits) == 1 else ""
    data = read_captioned(path, parsed.reading, pictures=parsed.pictures, only=only)
    splits = [data.split(name) for name in parsed.splits] or data.splits
    print_faults(console, stop_on_errors(data.faults))
    device = choose_device(parsed.device)
    tower = (
        own_regions(parsed.tower, grid=parsed.grid)
        if parsed.tower
        else transformers_regions(
            parsed.model, grid=parsed.grid, revision=parsed.revision, device=device, precision=parsed.precision
        )
    )
    folder = RegionFolder(parsed.out, tower, batch_size=parsed.batch_size)
    sizes = folder.sizes(splits)
    shape = f"{sizes.images:,} pictures × {tower.rows} × {tower.columns} regions × {tower.size:,} numbers"
    say(console, f"{shape}, float16: {_size(sizes.needed)} to write, {_size(sizes.free)} free.")
    if sizes.needed > sizes.free:
        fix = "choose a smaller --grid, fewer --splits, or another disk"
        problem = f"takes {sizes.needed:,} bytes, and {sizes.free:,} are free"
        raise InputError(Fault(f"--out {parsed.out}", problem, "room for the features", fix))
    workers = usual_workers(device.type) if parsed.workers < 0 else parsed.workers
    for split in splits:
        if folder.is_done(split):
            say(console, f"{split.name} is there and is left alone.")
            continue
        show = partial(watching, console, rate=True)
        left_out = folder.extract(
            split, workers=workers, skip_broken=parsed.reading.skip_broken, watching=show
        )  # fmt: skip
        print_faults(console, left_out)
        say(console, f"{split.name}: {parsed.out / f'{split.name}_ims.npy'}")
    shown = splits[0].positions.folder
    more = f" --pictures {shown}" if shown else ""
    say(console, f"Check and train: python -m coder_core.check_data {parsed.out}{more}")
    return 0


def _faults(parsed: FeaturesArguments) -> list[Fault]:
    faults = check_folder(f"--out {parsed.out}", parsed.out)
    if bool(parsed.model) == bool(parsed.tower):
        found = "are both given" if parsed.model else "are missing"
        fix = "for example --model google/siglip2-base-patch16-224"
        faults.append(Fault("--model and --tower", found, "one of them", fix))
    if parsed.batch_size < 1 or parsed.workers < -1:
        found = f"are {parsed.batch_size} and {parsed.workers}"
        faults.append(Fault("--batch-size and --workers", found, "1 or more, and −1 or more"))
    return faults


def _size(count: float) -> str:
    for unit in ("bytes", "KiB", "MiB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "bytes" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} GiB"


if __name__ == "__main__":
    raise SystemExit(main())
