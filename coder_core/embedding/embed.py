"""Embed a split with pretrained towers: resumable, in several processes, with the same result for all worker counts."""

import json
import shutil
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch

from coder_core.console.faults import Fault, InputError
from coder_core.console.output import Progress, named, silent
from coder_core.data.captioned.collection import CaptionedSplit
from coder_core.data.captioned.decoding import PreparedBlock
from coder_core.data.embeddings import Embeddings, same_rows
from coder_core.embedding import resumable
from coder_core.evaluation.rank_metrics import Metrics
from coder_core.evaluation.sampled import AS_USUAL, RankOptions
from coder_core.files import atomic
from coder_core.files.parts import FOLDER
from coder_core.model.towers.dual_encoder import Towers
from coder_core.ops import parallel
from coder_core.runs.analysis.import_embeddings import check_same_model, import_folder, import_run

BROKEN = "broken-{}.json"  # of a process: image → why it could not be read


@dataclass(frozen=True)
class Target:
    """The split of a run to write."""

    root: Path  # folder of the runs
    name: str  # of the run
    split: str
    overwrite: bool = False  # replace the split if the run already has it
    notes: Sequence[Fault] = ()  # on the data, stored with the run
    ranking: RankOptions = AS_USUAL


@dataclass(frozen=True)
class Encoding:
    """Pretrained towers, and how they encode pictures and captions."""

    towers: Towers
    batch_size: int = 256  # samples computed at once on a GPU; the CPU computes blocks of 32
    workers: int = 1  # processes that decode pictures ahead; 0: this one
    skip_broken: bool = False  # leave out pictures that cannot be read, with their captions


def _say_nothing(text: str) -> None:
    pass


def embed_split(
    split: CaptionedSplit,
    encoding: Encoding,
    target: Target,
    *,
    progress: Progress = silent,
    tell: Callable[[str], None] = _say_nothing,
) -> tuple[Path, Metrics, list[Fault]] | None:
    """Embed a split and write it as an analysis of a run.

    Finished blocks are marked every twenty seconds in the folder .unfinished beside the run; a later call with the same
    data and model continues from there. Several processes of torchrun on one machine share the blocks; rank 0 writes the
    run. Returns the run folder, its metrics, and the warnings and notes; None in all other ranks.

    tell: called with a sentence about the work that is continued. Finished work is kept after StoppedBySignalError
    (SIGTERM, SIGHUP or Ctrl-C) and InputError: pictures are broken and are not to be skipped, another process does this
    work, or the disk is full.
    """
    root = target.root
    name = target.name
    towers = encoding.towers
    run = import_folder(root, name, target.split, overwrite=target.overwrite)
    if run.exists():  # refuse another model before hours of work
        width = towers.encode_texts(["a"])[0].shape[1]
        check_same_model(run, target.split, width, towers.about)
    plan = resumable.make_plan(split, towers.about, towers.device.type, encoding.batch_size)
    folder = Path(root) / FOLDER / f"{name}-{target.split}-{plan.key}"
    first = parallel.rank() == 0
    with resumable.only_writer(folder, first=first):
        _same_threads(folder, towers)
        unfinished = _Unfinished(split, towers, plan, folder)
        with resumable.stoppable(progress) as watched:
            unfinished.compute(encoding.workers, watched, tell)
        parallel.barrier()
        if not first:
            return None

        embeddings, faults = unfinished.assemble(encoding.skip_broken)
        faults = [*target.notes, *faults]
        run, metrics = import_run(
            replace(embeddings, faults=faults),
            root,
            name,
            target.split,
            overwrite=target.overwrite,
            towers=towers.about,
            options=target.ranking,
            progress=named(progress, "ranks"),
        )
    shutil.rmtree(folder, ignore_errors=True)
    with suppress(OSError):
        folder.parent.rmdir()
    return run, metrics, faults


def _same_threads(folder: Path, towers: Towers) -> None:
    """Use as many threads as the first command did: on the CPU, another number changes the last bits of a result."""
    file = folder / "threads.json"
    if parallel.rank() == 0:
        atomic.clean(folder)
        if not file.exists():
            atomic.replace_file(file, str(torch.get_num_threads()))
    parallel.barrier()
    threads = file.read_text()
    if towers.device.type == "cpu" and threads.isdigit() and parallel.world_size() == 1:
        torch.set_num_threads(max(1, int(threads)))


class _Unfinished:
    """Embeddings of a split while they are computed, in mapped arrays that rank 0 creates."""

    def __init__(self, split: CaptionedSplit, towers: Towers, plan: resumable.Plan, folder: Path) -> None:
        self.split = split
        self.towers = towers
        self.folder = folder
        layout = {"rows": ((towers.encode_texts(["a"])[0].shape[1],), "<f4")}
        if parallel.rank() > 0:
            parallel.barrier()
        self.images = resumable.BlockArrays(folder / "images", plan.images, layout)
        self.texts = resumable.BlockArrays(folder / "texts", plan.texts, layout)
        if parallel.rank() == 0:
            parallel.barrier()

    def compute(self, workers: int, progress: Progress, tell: Callable[[str], None]) -> None:
        """Fill this process's share of both arrays, and record the pictures that could not be read."""
        images_left = self.images.unfinished()
        texts_left = self.texts.unfinished()
        images_done = self.images.finished_rows(images_left)
        texts_done = self.texts.finished_rows(texts_left)
        if (images_done or texts_done) and parallel.rank() == 0:
            pictures = f"{images_done:,} of {self.images.rows:,} pictures"
            captions = f"{texts_done:,} of {self.texts.rows:,} captions"
            tell(f"continuing {self.folder}: {pictures} and {captions} are finished")
        parallel.barrier()  # all ranks have seen the same unfinished blocks
        share, report = _share(self.images, images_left, progress, "pictures")
        towers = self.towers

        def encode(block: PreparedBlock) -> dict[str, np.ndarray]:
            return {"rows": towers.encode_pictures(block.prepared)}

        encoder = resumable.PictureEncoder(towers.prepare, encode, workers)
        broken = resumable.put_pictures(self.images, self.split, share, encoder, report)

        share, report = _share(self.texts, texts_left, progress, "captions")
        try:
            for number in share:
                block = self.texts.blocks[number]
                rows, cut = towers.encode_texts([self.split.captions[text] for text in block])
                self.texts.put(number, block, {"rows": rows}, cut)
                report(len(block))
        finally:
            self.texts.mark()
        atomic.replace_file(self.folder / BROKEN.format(parallel.rank()), json.dumps(broken))

    def assemble(self, skip_broken: bool) -> tuple[Embeddings, list[Fault]]:
        """Collect the embeddings of the pictures that could be read, and of their captions. InputError: pictures are
        broken and `skip_broken` is false, or rows of other processes are missing."""
        split = self.split
        broken = dict[int, str]()
        for rank in range(parallel.world_size()):
            reasons = json.loads((self.folder / BROKEN.format(rank)).read_text("utf-8"))
            broken |= {int(image): reason for image, reason in reasons.items()}
        if parallel.world_size() > 1:
            blocks = [self.images.blocks[number].tolist() for number in self.images.unfinished()]
            if any(broken.keys().isdisjoint(block) for block in blocks) or self.texts.unfinished():
                fix = "start this command again: finished work is kept"
                fact = "lacks rows that other processes computed"
                raise InputError.at(self.folder, fact, "all processes on one machine", fix)

        whole, faults = resumable.readable_pictures(split, broken, skip=skip_broken)
        readable = split.keep(whole)
        if cut := self.texts.notes():
            limit = f"the {self.towers.about.get('longest')} tokens the model reads"
            problem = f"{cut:,} captions are longer than {limit} and were cut"
            faults = [Fault(split.name, problem, severity="warning"), *faults]

        kept_texts = resumable.kept_rows(self.texts.files["rows"], whole[split.image_of_text])
        texts = np.load(kept_texts, mmap_mode="r")
        faults = [*faults, *same_rows(texts, readable.captions, split.name)]
        embeddings = Embeddings(
            np.load(resumable.kept_rows(self.images.files["rows"], whole), mmap_mode="r"),
            texts,
            readable.captions,
            readable.image_of_text,
            readable.image_names,
            readable.positions.folder,
            readable.source,
            faults,
            pictures=readable,
            columns=readable.columns,
            image_groups=readable.image_groups,
            search_log=readable.search_log,
        )
        return embeddings, faults


def _share(
    arrays: resumable.BlockArrays, left: Sequence[int], progress: Progress, phase: str
) -> tuple[list[int], Callable[[int], None]]:
    """Return the numbers of the blocks that this process computes, and a function that counts finished samples."""
    share = np.array_split(np.array(left, dtype=np.int64), parallel.world_size())[parallel.rank()].tolist()
    total = sum(len(arrays.blocks[number]) for number in share)
    finished = sum(map(len, arrays.blocks)) - total if parallel.world_size() == 1 else 0
    return share, resumable.counted(progress, finished, finished + total, phase)
