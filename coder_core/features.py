"""python -m coder_core.features DATA --model NAME_OR_FOLDER --grid 7 --out FOLDER: region features for training.

Patch tokens or feature-map cells of a pretrained tower, in the precomp layout that every preset trains on.
"""

from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Annotated

import tyro
from rich.filesize import decimal

from coder_core.console.faults import InputError, stop_on_errors
from coder_core.console.output import open_console, print_faults, say
from coder_core.console.plain_files import check_folder
from coder_core.console.progress import watching
from coder_core.console.runner import command
from coder_core.embedding.arguments import TowerArguments


@dataclass(frozen=True)
class FeaturesArguments:
    """Compute region features of pictures with a pretrained tower, in the layout that every preset trains on.

    Writes {split}_ims.npy (images, regions, size) float16, {split}_caps.txt, {split}_ids.txt and {split}_boxes.npy:
    left, top, right, bottom of every region as shares of its picture's sides. The regions are the tower's patch tokens
    or feature-map cells, pooled to a grid. Prints the disk space needed and stops if there is too little. To
    continue a killed command, repeat it.
    """

    data: tyro.conf.Positional[Path]
    """Folder or file of pictures with captions (docs/data.md, section 9); "demo" is the built-in data."""
    out: Path  # Folder of the features.
    towers: Annotated[TowerArguments, tyro.conf.arg(name="")] = field(default_factory=TowerArguments)
    grid: int = 7  # Cells per side after averaging: 7 gives 49 regions; 0 keeps all of the tower's.
    splits: tuple[str, ...] = ()  # Splits to write; all if empty.


@command
def main(arguments: list[str]) -> int:
    """Write the features of the splits."""
    parsed = tyro.cli(FeaturesArguments, prog="python -m coder_core.features", args=arguments)
    stop_on_errors([*check_folder(f"--out {parsed.out}", parsed.out), *parsed.towers.faults()])

    from coder_core.embedding.regions import RegionFolder
    from coder_core.model.device import choose_device
    from coder_core.model.towers.regions import own_regions, transformers_regions

    console = open_console()
    flags = parsed.towers
    data = flags.read_pictures(parsed.data, parsed.splits)
    splits = [data.split(name) for name in parsed.splits] or data.splits
    print_faults(console, stop_on_errors(data.faults))
    device = choose_device(flags.device)
    if flags.tower:
        tower = own_regions(flags.tower, grid=parsed.grid)
    else:
        precision = flags.precision
        tower = transformers_regions(flags.choice(), grid=parsed.grid, device=device, precision=precision)
    print_faults(console, tower.notes)
    folder = RegionFolder(parsed.out, tower, batch_size=flags.batch_size)
    count, needed, free = folder.sizes(splits)
    shape = f"{count:,} pictures × {tower.rows} × {tower.columns} regions × {tower.size:,} numbers"
    say(console, f"{shape}, float16: {decimal(needed)} to write, {decimal(free)} free.")
    if needed > free:
        fix = "choose a smaller --grid, fewer --splits, or another disk"
        problem = f"takes {needed:,} bytes, and {free:,} are free"
        raise InputError.at(f"--out {parsed.out}", problem, "room for the features", fix)
    workers = flags.decoders(device.type)
    skip_broken = flags.reading.skip_broken
    for split in splits:
        if folder.is_done(split):
            say(console, f"{split.name} already exists and is not written again.")
            continue
        with watching(console, rate=True) as progress:
            faults = folder.extract(
                split, workers=workers, skip_broken=skip_broken, progress=progress, tell=partial(say, console)
            )
        print_faults(console, faults)
        say(console, f"{split.name}: {parsed.out / f'{split.name}_ims.npy'}")
    pictures = splits[0].positions.folder
    more = f" --pictures {pictures}" if pictures else ""
    say(console, f"Check and train: python -m coder_core.check_data {parsed.out}{more}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
