"""Start or continue a run: create its folder, lock it, train, evaluate the best model on dev."""

from __future__ import annotations

import json
import platform
import shlex
import sys
import time
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import asdict, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import tomli_w
import torch
from rich.console import Console

from coder_core.config.checks import problems
from coder_core.config.schema import Config, to_document
from coder_core.console.bars import preparing, watching
from coder_core.console.faults import Fault, InputError, stop_on_errors
from coder_core.console.output import print_faults
from coder_core.console.outputs import check_folder
from coder_core.console.plain_files import check_plain
from coder_core.console.signals import StoppedBySignalError
from coder_core.console.tables import metrics_table
from coder_core.files.sealed import write_sealed
from coder_core.model.products import product_library, use_onednn
from coder_core.model.reader import make_reader
from coder_core.model.run_towers import FILE as TOWERS
from coder_core.model.run_towers import SIDES, open_towers, with_size_of_towers
from coder_core.model.towers.own import allow
from coder_core.runs.analysis.evaluate import evaluate_split
from coder_core.runs.derived.neighbours import run_text_space, same_neighbours
from coder_core.runs.history import HISTORY, history_faults
from coder_core.runs.load import (
    ABOUT,
    check_size,
    load_model,
    read_concepts,
    read_config,
    read_feature_size,
    read_towers,
    read_vocabulary,
)
from coder_core.runs.lock import IN_PLACE, RunLock
from coder_core.runs.saves import SaveStore
from coder_core.training import parallel
from coder_core.training.precision import twin_precision
from coder_core.training.prepare import Prepared, prepare
from coder_core.training.reviewed import FILE as REVIEWS
from coder_core.training.reviewed import FINGERPRINT, named_reviews, reviews_of_run
from coder_core.training.state import STATES_KEPT, Position, check_parts
from coder_core.training.stopping import StopRequest, StopRequestedError
from coder_core.training.trainer import Trainer

TEACHER = "boosting_anchor_fingerprint"  # in the table [about] of a run with an offline teacher
CHECKED = ("train_features", "train_captions", "dev_features", "dev_captions")
CHECKSUM = "{}_sha256"  # in the table [about]
MAY_CHANGE = {
    "data.data",
    "data.pictures",
    "data.reviews",
    "towers.image_tower",
    "towers.text_tower",
    "towers.workers",
    "model.concept_list",
    "boosting.boosting_teacher",
    "weighting.text_space",
    "training.device",
    "training.threads",
    "training.precision",
    "training.twin_precision",
    "training.compile",
    "training.save_every",
    "training.gradient_checkpointing",
    "training.piece_size",
}


def choose_device(name: str) -> torch.device:
    """ "auto" is this process's GPU when there is one, otherwise the CPU.

    Raises:
        InputError: a GPU is asked for and there is none.
    """
    local = parallel.local_rank()
    if name == "auto":
        return torch.device("cuda", local) if torch.cuda.is_available() else torch.device("cpu")
    try:
        device = torch.device(name)
    except RuntimeError:
        raise InputError(Fault("--device", f"is {name!r}", "auto, cpu, cuda or cuda:1 …")) from None
    if device.type == "cuda" and not torch.cuda.is_available():
        raise InputError(Fault("--device", f"is {name}, but PyTorch sees no GPU", "auto or cpu"))
    return torch.device("cuda", local) if device.type == "cuda" and device.index is None else device


def start_run(config: Config, root: Path, console: Console) -> Path:
    """Create `root/config.name` and train it to its end.

    Raises:
        InputError: impossible values, unusable data, or a run of that name already there. Nothing is written then.
    """
    faults = stop_on_errors(problems(config))
    folder = root / config.name
    if folder.exists() and any(folder.iterdir()):
        fix = f"continue it with --resume {folder}, or choose another --name"
        raise InputError(Fault(str(folder), "already holds a run", "a new name", fix))
    stop_on_errors(check_folder(str(folder), folder))
    device = _begin(config)
    allow_towers(config)
    towers = open_towers(config)
    config, notes = with_size_of_towers(config, towers)
    with preparing(console) as progress:
        prepared = prepare(config, progress=progress, towers=towers, reviews=named_reviews(config, device))
    if parallel.rank() == 0:
        print_faults(console, faults + notes + prepared.faults)
        write_sealed(folder, _files(config, prepared, device))
    parallel.barrier()
    return _train(config, folder, prepared, device, console, resume=False)


def continue_run(folder: Path, overrides: Config | None, console: Console, *, download: bool = False) -> Path:
    """Take a run up where its newest save stands, and train it to its end.

    Args:
        folder: the run.
        overrides: the configuration asked for now; may differ in device, threads and the like only.
        console: for progress.
        download: the BERT that the run names, when this machine lacks it; the name may be a stranger's.

    Raises:
        InputError: no run there, damaged, values changed that would change the run, or other data than before.
    """
    check_plain(folder, IN_PLACE)  # before minutes are spent on the data
    stored, about = read_config(folder)
    config = _merge(stored, overrides) if overrides is not None else stored
    stop_on_errors(check_folder(str(folder), folder))
    device = _begin(config)
    moved = [side for side in SIDES if f"towers.{side}_tower" in differences(stored, config)]
    if moved:
        allow_towers(config)
    towers = read_towers(folder, config, moved)
    reviews = reviews_of_run(folder, stored, config, about)
    vocabulary, concepts = read_vocabulary(folder, config), read_concepts(folder, config)
    save = SaveStore(folder / "state", keep=STATES_KEPT).newest()
    if save is not None:
        text_tower = towers.text if towers is not None else None
        words = make_reader(config, vocabulary, download=download, tower=text_tower).size
        size = read_feature_size(folder, config, about)
        build = check_size(
            config, save, feature_size=size, words=words, concepts=concepts, download=download, towers=towers
        )
        check_parts(config, save, build)
    space = run_text_space(folder, config) if config.weighting.reads_neighbours else None
    with preparing(console) as progress:
        prepared = prepare(
            config,
            vocabulary,
            progress,
            concepts,
            space,
            pretrained=save is None,
            download=download,
            towers=towers,
            reviews=reviews,
        )
    notes = _same_data(prepared, about, config)
    notes += reviews.faults if reviews is not None else ()
    if parallel.rank() == 0:
        print_faults(console, notes)
    if prepared.teacher is not None and prepared.teacher.fingerprint != about.get(TEACHER):
        place, fix = (
            f"--boosting-teacher {config.boosting.boosting_teacher}",
            "give the teacher as it was then",
        )
        raise InputError(Fault(place, "holds another best model than when the run began", fix=fix))
    if prepared.neighbourhood is not None and parallel.rank() == 0:
        print_faults(console, same_neighbours(prepared.neighbourhood, config, about))
    return _train(config, folder, prepared, device, console, resume=True)


def _same_data(prepared: Prepared, about: Mapping[str, Any], config: Config) -> list[Fault]:
    """Compare the data with what the run noted at its start.

    Raises:
        InputError: names every file that holds other features or captions, or a dev split that came or went.
    """
    fix = "give --data the folder the run was started with, as it was"
    stored = {name: str(about[CHECKSUM.format(name)]) for name in CHECKED if CHECKSUM.format(name) in about}
    if not stored:
        if prepared.fingerprint != about.get("data_fingerprint"):
            raise InputError(
                Fault(config.data.data, "holds other training data than the run began with", fix=fix)
            )
        text = "the run began with a version that noted a sample of 64 images only; these are the same"
        return [Fault(config.data.data, text, severity="note")]
    splits = {split.name: split for split in (prepared.train, prepared.dev) if split is not None}
    faults = []
    for name in CHECKED:
        split_name, part = name.split("_")
        if name in stored and name in prepared.checksums and stored[name] != prepared.checksums[name]:
            place = splits[split_name].source[part]
            faults.append(
                Fault(place, f"holds other {part} of {split_name} than the run began with", fix=fix)
            )
    if ("dev_captions" in stored) != ("dev_captions" in prepared.checksums):
        problem = (
            "has no dev split any more"
            if "dev_captions" in stored
            else "has a dev split now, and had none then"
        )
        faults.append(Fault(config.data.data, problem, "the data the run began with", fix))
    return stop_on_errors(faults)


def differences(before: Config, after: Config) -> dict[str, tuple[object, object]]:
    """Dotted key -> (value before, value after) of all values that differ."""
    changes: dict[str, tuple[object, object]] = {}
    for section, table in to_document(before).items():
        if isinstance(table, dict):
            other = asdict(getattr(after, section))
            changes |= {
                f"{section}.{key}": (value, other[key]) for key, value in table.items() if value != other[key]
            }
    return changes


def _merge(stored: Config, overrides: Config) -> Config:
    refused = [
        Fault(
            f"--{key.split('.')[1].replace('_', '-')}",
            f"is {now!r}",
            f"{was!r}, as the run began",
            "start a new run",
        )
        for key, (was, now) in differences(stored, overrides).items()
        if key not in MAY_CHANGE
    ]
    if refused:
        raise InputError(refused)
    return replace(overrides, name=stored.name)


def _begin(config: Config) -> torch.device:
    if config.training.threads:
        torch.set_num_threads(config.training.threads)
    device = choose_device(config.training.device)
    if device.type == "cuda":
        torch.cuda.set_device(device)
        torch.set_float32_matmul_precision("high")
    else:
        use_onednn()
    parallel.start(device)
    return device


def allow_towers(config: Config) -> None:
    """Let this process import the towers of a user's own that a person named."""
    for name in (config.towers.image_tower, config.towers.text_tower):
        allow(name)


def _files(config: Config, prepared: Prepared, device: torch.device) -> dict[str, bytes | str]:
    about = {
        "command": shlex.join(["python", "-m", "coder_core.train", *sys.argv[1:]]),
        "created": time.strftime("%Y-%m-%d %H:%M:%S %z"),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": np.__version__,
        "threads": torch.get_num_threads(),
        "float32_products": product_library(),
        "twin_precision": twin_precision(config.training, device),
        "processes": parallel.world_size(),
        "data_fingerprint": prepared.fingerprint,
        **{CHECKSUM.format(name): checksum for name, checksum in prepared.checksums.items()},
        "feature_size": prepared.train.feature_size,
        "train_images": prepared.train.n_images,
        "train_captions": prepared.train.n_texts,
    }
    if prepared.teacher is not None:
        about[TEACHER] = prepared.teacher.fingerprint
    if prepared.neighbourhood is not None:
        about |= prepared.neighbourhood.about(config)
    if prepared.reviews is not None:
        about[FINGERPRINT] = prepared.reviews.fingerprint
    files: dict[str, bytes | str] = {"config.toml": tomli_w.dumps({**to_document(config), ABOUT: about})}
    if prepared.vocabulary is not None:
        files["words.json"] = prepared.vocabulary.to_text()
    if prepared.concepts is not None:
        files |= prepared.concepts.to_files()
    if prepared.towers is not None:
        files[TOWERS] = json.dumps(prepared.towers.document(), ensure_ascii=False, indent=1)
    if prepared.reviews is not None:
        files[REVIEWS] = prepared.reviews.to_text()
    if prepared.neighbourhood is not None:
        files |= prepared.neighbourhood.space.to_files()
    return files


def _train(
    config: Config, folder: Path, prepared: Prepared, device: torch.device, console: Console, *, resume: bool
) -> Path:
    first = parallel.rank() == 0
    with RunLock(folder) if first else nullcontext():
        trainer = Trainer(config, folder, prepared, device, console)
        if resume:
            trainer.resume()
            position = trainer.position
            if first:
                print_faults(
                    console, history_faults(folder / HISTORY, step=position.step, epochs=position.evaluated)
                )
        outcome = trainer.run()
        if not first:
            return folder
        if outcome == "stopped":
            raise StoppedError(folder, trainer.position)
        try:
            _evaluate(folder, prepared, console)
        except StopRequestedError:
            raise StoppedError(folder, trainer.position) from None
    return folder


def _evaluate(folder: Path, prepared: Prepared, console: Console) -> None:
    """Evaluate the best model on dev and write analysis/dev."""
    if prepared.dev is None:
        return
    with StopRequest() as stop, watching(console, f"{folder.name}, the best model on dev") as show:

        def progress(done: int, total: int, now: str = "") -> None:
            show(done, total, now)
            if stop.signal:
                raise StopRequestedError

        metrics, _ = evaluate_split(
            folder,
            load_model(folder, towers=prepared.towers),
            prepared.dev,
            "dev",
            progress=progress,
            finding=lambda phase, done, total: progress(done, total, f"{folder.name}: {phase}"),
        )
    console.print(metrics_table({folder.name: metrics}, f"dev, best epoch · {folder}"))


class StoppedError(StoppedBySignalError):
    """A signal stopped the run; its state is saved.

    Attributes:
        folder: of the run.
    """

    def __init__(self, folder: Path, position: Position) -> None:
        self.folder = folder
        trained = timedelta(seconds=round(position.seconds))
        super().__init__(
            f"stopped at step {position.step:,} after {trained}, saved. "
            f"Continue with: python -m coder_core.train --resume {folder}"
        )
