"""Embed a split with pretrained towers: resumable, over several processes, the same whatever the workers."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from coder_core.console.faults import Fault, InputError
from coder_core.console.progress import Progress, silent
from coder_core.data.captioned.decoding import PreparedBlock
from coder_core.data.captioned.reading import CaptionedSplit
from coder_core.data.embeddings import Embeddings
from coder_core.embedding.resumable import (
    BlockArrays,
    Plan,
    counted,
    kept_rows,
    make_plan,
    only_writer,
    put_pictures,
    readable_pictures,
)
from coder_core.evaluation.recall import Metrics
from coder_core.files import atomic
from coder_core.model import parallel
from coder_core.model.towers.dual_encoder import Towers
from coder_core.runs.analysis.import_embeddings import import_run

FOLDER = ".unfinished"  # beside the runs, where none is looked for
BROKEN = "broken-{}.json"  # image → the reason that a process could not read it


def embed_split(
    split: CaptionedSplit,
    towers: Towers,
    root: Path,
    name: str,
    split_name: str,
    *,
    batch_size: int = 256,
    workers: int = 1,
    skip_broken: bool = False,
    overwrite: bool = False,
    notes: Sequence[Fault] = (),
    progress: Progress = silent,
) -> tuple[Path, Metrics, list[Fault]] | None:
    """Embed a split and write it as an analysis of the run `root/name`.

    Finished blocks are marked every twenty seconds in `root/.unfinished`; called again with the same data and model,
    this goes on from there. Several processes of torchrun on one machine share the blocks; the first writes the run.

    Args:
        root, name, split_name, overwrite: as for `import_run`.
        batch_size: samples computed at once on a GPU; the CPU computes blocks of 32.
        workers: decoding processes.
        skip_broken: leave out pictures that cannot be read, with their captions.
        notes: on the data, kept with the run.

    Returns:
        The run folder, its metrics, warnings and notes; None in all processes but the first.

    Raises:
        InputError: broken pictures without `skip_broken` (what is done stays), another process at the same work, a disk
            that is full.
    """
    plan = make_plan(split, towers.about, towers.device.type, batch_size)
    folder = Path(root) / FOLDER / f"{name}-{split_name}-{plan.key}"
    first = parallel.rank() == 0
    with only_writer(folder, first=first):
        _same_threads(folder, towers)
        images, texts = _open_arrays(folder, plan, towers)
        left = [images.unfinished(), texts.unfinished()]
        parallel.barrier()  # all have seen the same
        broken = _embed_images(split, towers, images, left[0], workers, progress)
        _embed_texts(split, towers, texts, left[1], progress)
        atomic.replace_file(folder / BROKEN.format(parallel.rank()), json.dumps(broken))
        parallel.barrier()
        if not first:
            return None
        embeddings, faults = _assemble(split, towers, images, texts, folder, skip_broken)
        embeddings = replace(embeddings, faults=[*notes, *faults])
        about = towers.about
        run, metrics = import_run(embeddings, root, name, split_name, overwrite=overwrite, towers=about)
    shutil.rmtree(folder, ignore_errors=True)
    with suppress(OSError):
        folder.parent.rmdir()
    return run, metrics, [*notes, *faults]


def _same_threads(folder: Path, towers: Towers) -> None:
    """Compute with as many threads as the first command: another number gives other last bits on the CPU."""
    file = folder / "threads.json"
    if parallel.rank() == 0:
        atomic.clean(folder)
        if not file.exists():
            atomic.replace_file(file, str(torch.get_num_threads()))
    parallel.barrier()
    threads = file.read_text()
    if towers.device.type == "cpu" and threads.isdigit() and parallel.world_size() == 1:
        torch.set_num_threads(max(1, int(threads)))


def _open_arrays(folder: Path, plan: Plan, towers: Towers) -> tuple[BlockArrays, BlockArrays]:
    """Arrays of the images and of the texts, made by the first process."""
    layout = {"rows": ((towers.encode_texts(["a"])[0].shape[1],), "<f4")}
    if parallel.rank() > 0:
        parallel.barrier()
    images = BlockArrays(folder / "images", plan.images, layout)
    texts = BlockArrays(folder / "texts", plan.texts, layout)
    if parallel.rank() == 0:
        parallel.barrier()
    return images, texts


def _share(
    arrays: BlockArrays, left: Sequence[int], progress: Progress, phase: str
) -> tuple[list[int], Callable[[int], None]]:
    """Numbers of the blocks that this process computes, and a function that counts finished samples."""
    share = np.array_split(np.array(left, dtype=np.int64), parallel.world_size())[parallel.rank()].tolist()
    total = sum(len(arrays.blocks[number]) for number in share)
    finished = sum(map(len, arrays.blocks)) - total if parallel.world_size() == 1 else 0
    return share, counted(progress, finished, finished + total, phase)


def _embed_images(
    split: CaptionedSplit,
    towers: Towers,
    images: BlockArrays,
    left: Sequence[int],
    workers: int,
    progress: Progress,
) -> dict[int, str]:
    """Fill this process's share. Return image → the reason it could not be read."""
    share, report = _share(images, left, progress, "pictures")

    def encode(block: PreparedBlock) -> dict[str, np.ndarray]:
        return {"rows": towers.encode_pictures(block.prepared)}

    return put_pictures(images, split, share, towers.prepare, encode, workers, report)


def _embed_texts(
    split: CaptionedSplit, towers: Towers, texts: BlockArrays, left: Sequence[int], progress: Progress
) -> None:
    """Fill this process's share; the note of a block is its number of captions that were cut."""
    share, report = _share(texts, left, progress, "captions")
    try:
        for number in share:
            captions = texts.blocks[number]
            rows, cut = towers.encode_texts([split.captions[text] for text in captions])
            texts.put(number, captions, {"rows": rows}, cut)
            report(len(captions))
    finally:
        texts.mark()


def _assemble(
    split: CaptionedSplit,
    towers: Towers,
    images: BlockArrays,
    texts: BlockArrays,
    folder: Path,
    skip_broken: bool,
) -> tuple[Embeddings, list[Fault]]:
    """The embeddings of the pictures that could be read, and of their captions.

    Raises:
        InputError: broken pictures without `skip_broken`, or rows of other processes did not arrive.
    """
    broken: dict[int, str] = {}
    for rank in range(parallel.world_size()):
        reasons = json.loads((folder / BROKEN.format(rank)).read_text("utf-8"))
        broken |= {int(image): reason for image, reason in reasons.items()}
    if parallel.world_size() > 1:
        lost = [n for n in images.unfinished() if broken.keys().isdisjoint(images.blocks[n].tolist())]
        if lost or texts.unfinished():
            fix = "start this command again: what is done is kept"
            raise InputError.at(folder, "lacks rows of other processes", "one machine", fix)
    whole, faults = readable_pictures(split, broken, skip=skip_broken)
    readable = split.keep(whole)
    if cut := texts.notes():
        limit = f"the {towers.about.get('longest')} tokens the model reads"
        problem = f"{cut:,} captions are longer than {limit} and were cut"
        faults = [Fault(split.name, problem, severity="warning"), *faults]
    embeddings = Embeddings(
        np.load(kept_rows(images.files["rows"], whole), mmap_mode="r"),
        np.load(kept_rows(texts.files["rows"], whole[split.image_of_text]), mmap_mode="r"),
        readable.captions,
        readable.image_of_text,
        readable.image_names,
        readable.positions.folder,
        readable.source,
        faults,
        pictures=readable,
    )
    return embeddings, faults
