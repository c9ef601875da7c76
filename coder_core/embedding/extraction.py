"""Extract the region features that the flags ask for, and print what was written."""

from functools import partial

from rich.filesize import decimal

from coder_core.console.faults import InputError, stop_on_errors
from coder_core.console.output import open_console, print_faults, say, watching
from coder_core.embedding.arguments import FeaturesArguments
from coder_core.embedding.regions import RegionFolder
from coder_core.embedding.sources import decoders, model_choice, read_pictures
from coder_core.model.device import choose_device
from coder_core.model.towers.regions import own_regions, transformers_regions


def extract_features(parsed: FeaturesArguments) -> None:
    """Write the features of the splits."""
    console = open_console()
    flags = parsed.towers
    data = read_pictures(flags, parsed.data, parsed.splits)
    splits = [data.split(name) for name in parsed.splits] or data.splits
    print_faults(console, stop_on_errors(data.faults))
    device = choose_device(flags.device)
    if flags.tower:
        tower = own_regions(flags.tower, grid=parsed.grid)
    else:
        precision = flags.precision
        tower = transformers_regions(
            model_choice(flags), grid=parsed.grid, device=device, precision=precision
        )
    print_faults(console, tower.notes)
    folder = RegionFolder(parsed.out, tower, batch_size=flags.batch_size)
    count, needed, free = folder.sizes(splits)
    shape = f"{count:,} pictures × {tower.rows} × {tower.columns} regions × {tower.size:,} numbers"
    say(console, f"{shape}, float16: {decimal(needed)} to write, {decimal(free)} free.")
    if needed > free:
        fix = "choose a smaller --grid, fewer --splits, or another disk"
        problem = f"takes {needed:,} bytes, and {free:,} are free"
        raise InputError.at(f"--out {parsed.out}", problem, "room for the features", fix)

    workers = decoders(flags, device.type)
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
    groups = folder.note_groups(splits)
    more += f" --groups {groups}" if groups is not None else ""
    say(console, f"Check and train: coder-lab check {parsed.out}{more}")
