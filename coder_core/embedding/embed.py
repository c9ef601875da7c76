"""Embed a split with pretrained towers: resumable, over several processes, the same whatever the workers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import torch
from filelock import FileLock, Timeout

from coder_core.console.faults import Fault, InputError
from coder_core.console.progress import Progress, silent
from coder_core.data.captioned.decoding import prepared_blocks
from coder_core.data.captioned.reading import CaptionedSplit
from coder_core.data.captioned.records import Tally
from coder_core.data.embeddings import Embeddings
from coder_core.embedding.arrays import keep_rows, new_array
from coder_core.embedding.parts import FOLDER, Block, Kind, Parts, remove
from coder_core.embedding.plan import BLOCK_ON_CPU, Plan, make_plan
from coder_core.evaluation.recall import Metrics
from coder_core.files import atomic
from coder_core.model.towers.dual_encoder import Towers
from coder_core.runs.analysis.import_embeddings import import_run
from coder_core.training import parallel


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

    What is done is sealed every twenty seconds, and every 2 MiB, in `root/.unfinished`; called again with the same
    data and model, this goes on from there. Several processes of torchrun share the blocks; the first writes the
    run.

    Args:
        split: pictures and captions.
        towers: that embed them.
        root, name, split_name, overwrite: as for `import_run`.
        batch_size: samples computed at once on a GPU; the CPU computes blocks of 32.
        workers: decoding processes.
        skip_broken: leave out pictures that cannot be read, with their captions.
        notes: on the data, kept with the run.
        progress: of pictures and captions.

    Returns:
        The run folder, its metrics and what else there is to say; None in all processes but the first.

    Raises:
        InputError: broken pictures without `skip_broken` (what is done stays), another process at the same work, a disk
            that is full.
    """
    plan = make_plan(split, towers.about, BLOCK_ON_CPU if towers.device.type == "cpu" else batch_size)
    folder = Path(root) / FOLDER / f"{name}-{split_name}-{plan.key}"
    folder.mkdir(parents=True, exist_ok=True)
    with _only_one(folder):
        _same_threads(folder, towers)
        _work(folder, "images", plan.images, partial(_embed_images, split, towers, plan, workers), progress)
        _work(folder, "texts", plan.texts, partial(_embed_texts, split, towers, plan), progress)
        parallel.barrier()
        if parallel.rank() > 0:
            return None
        embeddings, faults = _assemble(split, plan, folder, skip_broken, towers, list(notes))
        place, metrics = import_run(
            embeddings, root, name, split_name, overwrite=overwrite, towers=towers.about
        )
    remove(folder)
    return place, metrics, faults


def _only_one(folder: Path) -> AbstractContextManager[object]:
    """Held by the first process of whoever embeds this."""
    if parallel.rank() > 0:
        return nullcontext()
    try:
        return FileLock(folder / "lock", timeout=0).acquire()
    except Timeout:
        fix = "wait for it, or stop it"
        raise InputError(
            Fault(str(folder), "another process embeds this already", "one at a time", fix)
        ) from None


def _same_threads(folder: Path, towers: Towers) -> None:
    """Compute with as many threads as whoever began this: another number gives other last bits on the CPU."""
    file = folder / "threads.json"
    if parallel.rank() == 0:
        atomic.clean(folder)
        if not file.exists():
            atomic.replace_file(file, str(torch.get_num_threads()))
    parallel.barrier()
    threads = file.read_text()
    if towers.device.type == "cpu" and threads.isdigit() and parallel.world_size() == 1:
        torch.set_num_threads(max(1, int(threads)))


def _work(
    folder: Path,
    kind: Kind,
    blocks: Sequence[np.ndarray],
    embed: Callable[[Sequence[int], Callable[[int, Block], None]], None],
    progress: Progress,
) -> None:
    """Compute this process's share of the blocks that are not done."""
    parts = Parts(folder, kind)
    done = {number for number, block in parts.read() if not block.broken}  # a repaired picture is read again
    parallel.barrier()  # all have seen the same
    left = [number for number in range(len(blocks)) if number not in done]
    share = [
        int(n) for n in np.array_split(np.array(left, dtype=np.int64), parallel.world_size())[parallel.rank()]
    ]
    total = sum(len(blocks[number]) for number in share)
    finished = (
        sum(map(len, blocks)) - sum(len(blocks[number]) for number in left)
        if parallel.world_size() == 1
        else 0
    )
    all_samples = finished + total
    phase = "pictures" if kind == "images" else "captions"
    progress(finished, all_samples, phase)

    def take(number: int, block: Block) -> None:
        nonlocal finished
        parts.add(number, block)
        finished += len(blocks[number])
        progress(finished, all_samples, phase)

    try:
        embed(share, take)
    finally:
        parts.seal()


def _embed_images(
    split: CaptionedSplit,
    towers: Towers,
    plan: Plan,
    workers: int,
    numbers: Sequence[int],
    take: Callable[[int, Block], None],
) -> None:
    few = min(workers, len(numbers))
    for block in prepared_blocks(split, plan.images, numbers, towers.prepare, few):
        rows = towers.encode_pictures(block.prepared) if block.prepared else np.empty((0, 1), np.float32)
        take(block.number, Block(rows, block.broken))


def _embed_texts(
    split: CaptionedSplit,
    towers: Towers,
    plan: Plan,
    numbers: Sequence[int],
    take: Callable[[int, Block], None],
) -> None:
    for number in numbers:
        rows, cut = towers.encode_texts([split.captions[text] for text in plan.texts[number]])
        take(number, Block(rows, cut=cut))


def _assemble(
    split: CaptionedSplit, plan: Plan, folder: Path, skip_broken: bool, towers: Towers, faults: list[Fault]
) -> tuple[Embeddings, list[Fault]]:
    """All blocks in the order of the split; broken pictures are an error, or are left out with their captions."""
    images, blocks_of_images = _gather(folder, "images", plan.images)
    texts, blocks_of_texts = _gather(folder, "texts", plan.texts)
    tally = Tally(
        split.name,
        f"of {len(split.rows):,} pictures cannot be read",
        "whole pictures",
        "copy them again and start this command again, or add --skip-broken: what is done is kept",
        "warning" if skip_broken else "error",
    )
    whole = np.ones(len(split.rows), dtype=bool)
    for _, block in sorted(blocks_of_images.items()):
        for image, reason in block.broken.items():
            whole[image] = False
            tally.add(reason)
    broken = tally.faults()
    if broken and not skip_broken:
        raise InputError(broken)
    if not whole.any():
        raise InputError(Fault(split.name, "no picture can be read", "pictures", "check the folder"))
    readable = split.keep(whole)
    if broken:
        keep_rows(images, np.flatnonzero(whole))
        keep_rows(texts, np.flatnonzero(whole[split.image_of_text]))
    cut = sum(block.cut for block in blocks_of_texts.values())
    if cut:
        longest = towers.about.get("longest")
        problem = f"{cut:,} captions are longer than the {longest} tokens the model reads and were cut"
        faults.append(Fault(split.name, problem, severity="warning"))
    faults += broken
    embeddings = Embeddings(
        np.load(images, mmap_mode="r"),
        np.load(texts, mmap_mode="r"),
        readable.captions,
        readable.image_of_text,
        readable.image_names,
        readable.positions.folder,
        readable.source,
        faults,
        pictures=readable,
    )
    return embeddings, faults


def _gather(folder: Path, kind: Kind, samples: Sequence[np.ndarray]) -> tuple[Path, dict[int, Block]]:
    """The rows of all blocks in one file, in the order of the split, and the blocks without their rows.

    The rows of broken pictures are zero; where there are no others, there is no file.
    """
    file, array, blocks = folder / f"{kind}.npy", None, dict[int, Block]()
    for number, block in Parts(folder, kind).read():
        if number in blocks and not blocks[number].broken:
            continue
        blocks[number] = replace(block, rows=np.empty((0, 0), np.float32))
        readable = [sample for sample in samples[number].tolist() if sample not in block.broken]
        if array is None and readable:
            array = new_array(file, (sum(map(len, samples)), block.rows.shape[1]), "<f4")
        if array is not None:
            array[readable] = block.rows
    return file, blocks
