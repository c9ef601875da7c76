"""Start or continue a run: create its folder, lock it, train, evaluate the best model on dev."""

import json
import platform
import shlex
import sys
import time
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import tomli_w
import torch
from rich.console import Console

from coder_core.config.checks import check_schedule, problems, with_fitting_warmup
from coder_core.config.schema import MAY_CHANGE, Config, differences, replaced, to_document
from coder_core.config.setting import spelt_as_flag
from coder_core.config.training import tracker_faults
from coder_core.console.faults import Fault, InputError, stop_on_errors
from coder_core.console.output import print_faults, watching
from coder_core.console.plain_files import check_folder
from coder_core.console.signals import StoppedBySignalError, StopRequest, StopRequestedError
from coder_core.console.tables import metrics_table
from coder_core.data.split import fingerprint
from coder_core.files.sealed import write_sealed
from coder_core.model.coder import ModelParts
from coder_core.model.device import no_grad_precision, product_library, set_up_device
from coder_core.model.reader import make_reader
from coder_core.model.run_towers import FILE as TOWERS
from coder_core.model.run_towers import SIDES, open_towers, with_size_of_towers
from coder_core.model.towers.own import allow
from coder_core.ops import parallel
from coder_core.runs import load
from coder_core.runs.analysis.evaluate import evaluate_split
from coder_core.runs.derived.neighbours import run_text_space, same_neighbours
from coder_core.runs.load import ABOUT, load_model, read_config
from coder_core.runs.record import HISTORY, RunLock, history_faults
from coder_core.runs.saves import SaveStore
from coder_core.training.prepare import Inputs, Prepared, prepare
from coder_core.training.reviewed import FILE as REVIEWS
from coder_core.training.reviewed import FINGERPRINT, named_reviews, reviews_of_run
from coder_core.training.state import STATES_KEPT, Position, check_parts
from coder_core.training.trainer import Trainer

TEACHER = "boosting_anchor_fingerprint"  # key in the table [about] of config.toml, for a run with an offline teacher
CHECKED = ("train_features", "train_captions", "dev_features", "dev_captions")
CHECKSUM = "{}_sha256"  # keys in the table [about], one for each name in CHECKED


def start_run(
    config: Config,
    root: Path,
    console: Console,
    *,
    fit_warmup: bool = False,
    progress_file: Path | None = None,
) -> Path:
    """Create the run `root/config.name`, train it to its end and return its folder. `fit_warmup` shortens a warm-up
    that is too long for the run; `progress_file` receives the progress of the preparation as JSON. InputError, raised
    before anything is written to the run: invalid settings, unusable data, or a run of that name exists."""
    faults = stop_on_errors([*problems(config), *tracker_faults(config.training)])
    folder = root / config.name
    check_new_run(folder)
    device = set_up_device(config.training)
    allow_towers(config)
    towers = None
    notes: list[Fault] = []
    if config.towers.any:
        towers = open_towers(config)
        config, notes = with_size_of_towers(config, towers)

    reviews = named_reviews(config, device) if config.data.reviews else None
    inputs = Inputs(towers=towers, reviews=reviews)
    with watching(console, file=progress_file) as progress:
        prepared = prepare(config, inputs, progress)

    config = replaced(config, {"batch_size": prepared.batches.batch_size})
    if fit_warmup:
        config, cut = with_fitting_warmup(config, prepared.batches.per_epoch)
        notes += cut

    notes += check_schedule(config, prepared.batches.per_epoch)
    if parallel.rank() == 0:
        print_faults(console, [*faults, *notes, *prepared.faults])
        write_sealed(folder, _files(config, prepared, device))

    parallel.barrier()
    return _train(config, folder, prepared, device, console, resume=False)


def check_new_run(folder: Path) -> None:
    """Raise InputError if the folder already holds a run or is not writable."""
    if folder.exists() and any(folder.iterdir()):
        fix = f"continue it with --resume {folder}, or choose another --name"
        raise InputError(Fault(str(folder), "already contains a run", "a new name", fix))
    stop_on_errors(check_folder(str(folder), folder))


def continue_run(
    folder: Path,
    overrides: Config | None,
    console: Console,
    *,
    download: bool = False,
    progress_file: Path | None = None,
) -> Path:
    """Continue a run from its newest save, train it to its end and return its folder. `overrides`: the requested
    configuration, which may differ from the stored one only in `MAY_CHANGE`. `download`: fetch missing BERT files; off
    by default because another person may have named the model. `progress_file`: as in `start_run`. InputError: not a
    run, damaged, settings that would change the run, or different data than at its start."""
    stored, about = read_config(folder)
    config = _merge(stored, overrides) if overrides is not None else stored
    stop_on_errors(tracker_faults(config.training))
    stop_on_errors(check_folder(str(folder), folder))
    device = set_up_device(config.training)
    inputs = _stored_inputs(folder, stored, config, about, download=download)
    with watching(console, file=progress_file) as progress:
        prepared = prepare(config, inputs, progress)
    notes = _check_data(prepared, about, config)
    notes += inputs.reviews.faults if inputs.reviews is not None else ()
    if parallel.rank() == 0:
        if prepared.sources.neighbourhood is not None:
            notes += same_neighbours(prepared.sources.neighbourhood, config, about)
        print_faults(console, notes)
    return _train(config, folder, prepared, device, console, resume=True)


def _stored_inputs(
    folder: Path, stored: Config, config: Config, about: dict[str, Any], *, download: bool
) -> Inputs:
    """Read the inputs of a run from its folder and check its newest save against them before allocating memory."""
    moved = [side for side in SIDES if f"towers.{side}_tower" in differences(stored, config)]
    if moved:
        allow_towers(config)

    towers = load.read_towers(folder, config, moved)
    reviews = reviews_of_run(folder, stored, config, about)
    vocabulary = load.read_vocabulary(folder, config)
    concepts = load.read_concepts(folder, config)
    save = SaveStore(folder / "state", keep=STATES_KEPT).newest()
    if save is not None:
        text_tower = towers.text if towers is not None else None
        words = make_reader(config, vocabulary, download=download, tower=text_tower).size
        feature_size = load.read_feature_size(folder, config, about)
        parts = ModelParts(feature_size, words, concepts=concepts, towers=towers)
        build = load.check_size(config, save, parts, download=download)
        without_concepts = replace(parts, concepts=None)
        check_parts(config, save, lambda: build(without_concepts))

    space = run_text_space(folder, config) if config.weighting.reads_neighbours else None
    return Inputs(vocabulary, concepts, space, towers, reviews, pretrained=save is None, download=download)


def _check_data(prepared: Prepared, about: Mapping[str, Any], config: Config) -> list[Fault]:
    """Compare data and teacher with the checksums stored when the run started. InputError names every file whose
    features or captions have changed, a dev split that was added or removed, and a different teacher."""
    fix = "give --data the folder the run was started with, and restore its files"
    data = prepared.data
    faults = []
    splits = {split.name: split for split in (data.as_read, data.dev) if split is not None}
    for name in CHECKED:
        split_name, part = name.split("_")
        before = about.get(CHECKSUM.format(name))
        now = data.checksums.get(name)
        if before is not None and now is not None and before != now:
            problem = f"has changed: the {part} of {split_name} are not those the run began with"
            faults.append(Fault(splits[split_name].source[part], problem, fix=fix))

    had_dev = CHECKSUM.format("dev_captions") in about
    if had_dev != ("dev_captions" in data.checksums):
        problem = "no longer has a dev split" if had_dev else "now has a dev split, but had none before"
        faults.append(Fault(config.data.data, problem, "the data the run began with", fix))

    teacher = prepared.sources.teacher
    if teacher is not None and teacher.fingerprint != about.get(TEACHER):
        flag = f"--boosting-teacher {config.boosting.boosting_teacher}"
        fix = "restore the teacher's folder as it was then"
        faults.append(Fault(flag, "has a different best model now", fix=fix))

    return stop_on_errors(faults)


def _merge(stored: Config, overrides: Config) -> Config:
    fix = "start a new run"
    stop_on_errors(
        Fault(spelt_as_flag(key.split(".")[1]), f"is {now!r}", f"{was!r}, as the run began", fix)
        for key, (was, now) in differences(stored, overrides).items()
        if key not in MAY_CHANGE
    )
    return replace(overrides, name=stored.name)


def allow_towers(config: Config) -> None:
    """Allow this process to import the custom towers that the configuration names."""
    for name in filter(None, (config.towers.image_tower, config.towers.text_tower)):
        allow(name)


def _files(config: Config, prepared: Prepared, device: torch.device) -> dict[str, bytes | str]:
    """Return the files of a new run folder: name → content."""
    data = prepared.data
    sources = prepared.sources
    towers = prepared.inputs.towers
    reviews = prepared.inputs.reviews
    about = {
        "command": shlex.join(["coder-lab", "train", *sys.argv[1:]]),
        "created": time.strftime("%Y-%m-%d %H:%M:%S %z"),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": np.__version__,
        "threads": torch.get_num_threads(),
        "float32_products": product_library(),
        "twin_precision": no_grad_precision(config.training, device),
        "processes": parallel.world_size(),
        "data_fingerprint": fingerprint(data.as_read),
        **{CHECKSUM.format(name): checksum for name, checksum in data.checksums.items()},
        "feature_size": data.train.feature_size,
        "train_images": data.train.n_images,
        "train_captions": data.train.n_texts,
    }
    files: dict[str, bytes | str] = {}
    if sources.teacher is not None:
        about[TEACHER] = sources.teacher.fingerprint
    if sources.neighbourhood is not None:
        about |= sources.neighbourhood.about(config)
        files |= sources.neighbourhood.space.to_files()
    if reviews is not None:
        about[FINGERPRINT] = reviews.fingerprint
        files[REVIEWS] = reviews.to_text()
    if prepared.words.vocabulary is not None:
        files["words.json"] = prepared.words.vocabulary.to_text()
    if sources.concepts is not None:
        files |= sources.concepts.to_files()
    if towers is not None:
        files[TOWERS] = json.dumps(towers.document(), ensure_ascii=False, indent=1)

    return {"config.toml": tomli_w.dumps({**to_document(config), ABOUT: about}), **files}


def _train(
    config: Config, folder: Path, prepared: Prepared, device: torch.device, console: Console, *, resume: bool
) -> Path:
    """Train to the end, then evaluate the best model on dev."""
    first = parallel.rank() == 0
    with RunLock(folder) if first else nullcontext():
        trainer = Trainer(config, folder, prepared, device, console)
        if resume:
            trainer.resume()
            at = trainer.position
            if first:
                print_faults(console, history_faults(folder / HISTORY, step=at.step, epochs=at.evaluated))
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
    if prepared.data.dev is None:
        return
    with StopRequest() as stop, watching(console, f"{folder.name}, the best model on dev") as show:
        progress = stop.watched(show)
        loaded = load_model(folder, towers=prepared.inputs.towers)
        metrics, _ = evaluate_split(folder, loaded, prepared.data.dev, "dev", progress=progress)
    console.print(metrics_table({folder.name: metrics}, f"dev, best epoch · {folder}"))


class StoppedError(StoppedBySignalError):
    """A signal stopped the run; the state is saved."""

    def __init__(self, folder: Path, position: Position) -> None:
        trained = timedelta(seconds=round(position.seconds))
        how_to_continue = f"Continue with: coder-lab train --resume {folder}"
        super().__init__(f"stopped at step {position.step:,} after {trained}, saved. {how_to_continue}")
