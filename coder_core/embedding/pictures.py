"""Embed the pictures and captions that the flags name with a pretrained model, and print what was done."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from rich.console import Console

from coder_core.console.faults import Fault, InputError, stop_on_errors
from coder_core.console.output import open_console, print_faults, say, silent, watching
from coder_core.data.captioned.collection import CaptionedSplit, with_queries
from coder_core.data.joined_columns import read_table_columns
from coder_core.embedding.arguments import PicturesArguments
from coder_core.embedding.embed import Encoding, Target, embed_split
from coder_core.embedding.metrics import print_metrics
from coder_core.embedding.sources import decoders, model_choice, read_pictures
from coder_core.evaluation.sampled import RankOptions, parse_rank
from coder_core.model.device import choose_device
from coder_core.model.towers.dual_encoder import DualEncoder, Towers
from coder_core.model.towers.own import OwnTowers
from coder_core.ops import parallel
from coder_core.runs.analysis.import_embeddings import import_folder


def embed_pictures(parsed: PicturesArguments) -> None:
    """Embed a split as a run; rank 0 prints the faults of the data, the model and the metrics."""
    console = open_console()
    run = parsed.target
    parse_rank(run.rank)
    import_folder(run.root, run.name, run.split, overwrite=run.overwrite)
    flags = parsed.towers
    split, notes_of_data = _split(parsed)
    device = choose_device(flags.device)
    try:
        parallel.start(device)
        notes = notes_of_data
        _print_once(console, notes)
        if flags.tower:
            towers: Towers = OwnTowers(flags.tower, prompt=parsed.prompt)
        else:
            precision = flags.precision
            towers = DualEncoder(
                model_choice(flags), device=device, prompt=parsed.prompt, precision=precision
            )
            notes = [*notes, *towers.notes]
            _print_once(console, towers.notes)
        with watching(console, rate=True) as progress:
            encoding = Encoding(
                towers, flags.batch_size, decoders(flags, device.type), flags.reading.skip_broken
            )
            options = RankOptions(parse_rank(run.rank), str(device))
            target = Target(run.root, run.name, run.split, run.overwrite, notes, options)
            shown_progress = progress if parallel.rank() == 0 else silent
            result = embed_split(split, encoding, target, progress=shown_progress, tell=partial(say, console))
    finally:
        parallel.finish()
    if result is None:
        return

    folder, _, faults = result
    print_faults(console, faults[len(notes) :])
    facts = towers.about
    revision = f" at {str(facts['revision'])[:12]}" if facts.get("revision") else ""
    model = facts.get("model") or facts.get("tower")
    say(console, f"{folder}: embedded with {model}{revision}, prompt {facts['prompt']!r}")
    print_metrics(console, folder, run.split, f"{run.split} · zero-shot · pessimistic ties")


def _split(parsed: PicturesArguments) -> tuple[CaptionedSplit, list[Fault]]:
    """Return the split to embed, with the columns that --columns names, and the notes on its data. InputError: only one of
    --queries and --qrels is given, or the data cannot be read."""
    if (parsed.queries is None) != (parsed.qrels is None):
        given = "--queries" if parsed.qrels is None else "--qrels"
        raise InputError.at("--queries and --qrels", f"only {given} is given", "both, or neither")
    if parsed.pool and parsed.queries is None:
        raise InputError.at("--pool", "is given without --queries", fix="leave it out")

    of_log = [parsed.pool] if parsed.pool else []
    splits = [parsed.target.split] if parsed.queries is None else of_log
    reading = parsed.towers.reading
    data = read_pictures(parsed.towers, parsed.data, splits)
    notes = stop_on_errors(data.faults)
    pool = [data.split(parsed.pool)] if parsed.pool else data.splits
    if parsed.queries is not None and parsed.qrels is not None:
        split, of_queries = with_queries(pool, parsed.target.split, parsed.queries, parsed.qrels)
        notes = [*notes, *of_queries]
    else:
        split = data.split(parsed.target.split)

    if reading.columns and parsed.queries is not None and len(pool) > 1:  # of several splits
        table = Path(reading.columns)
        columns, joined = read_table_columns(table, split.image_names, split.image_of_text)
        split = replace(split, columns=split.columns.joined(columns))
        notes = [*notes, *stop_on_errors(joined)]

    return split, notes


def _print_once(console: Console, faults: Sequence[Fault]) -> None:
    """Print faults in rank 0 only."""
    if parallel.rank() == 0:
        print_faults(console, faults)
