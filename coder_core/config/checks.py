"""Check a configuration: every setting against its range, and which settings do not go together."""

import math
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from coder_core.config.objective import OF_NEIGHBOURHOODS, own_loss_faults
from coder_core.config.schema import Config, name_faults, settings
from coder_core.console.faults import Fault, Severity
from coder_core.objectives.table import LARGEST_SCALE, LOSSES

FULL_RATE = 1e-4  # above it, a tower that is trained in full forgets its pretraining
WEIGHTLESS = ("tower", "mean", "max")  # poolings without weights
NOTHING_TRAINS = Fault(
    "--image-tuning and --text-tuning",
    "are both frozen, and no layer on top of the towers can be trained",
    "lora or full for one tower, --projection linear, or gpo for --image-pooling or --text-pooling",
    "to use the model without training: python -m coder_core.embed pictures DATA --model NAME --name RUN",
)


class Need(NamedTuple):
    """Settings that do nothing without another one."""

    keys: str  # separated by spaces
    flag: str  # of the other setting
    given: Callable[[Config], bool]  # true if the other setting is given
    expected: str  # what a fault expects instead
    severity: Severity = "error"


REVIEWED = "wrong_weight vague_weight duplicate_weight also_matches"
CLEANED = "clean_by clean_loss clean_above clean_weigh clean_rounds clean_scorers"
BY_NEIGHBOURS = "--sample-weights diversity, discrepancy or combined"
NEEDS = (
    Need("other_part", "--train-part", lambda c: c.data.train_part < 1, "--train-part below 1"),
    Need("omit_wrong", "--wrong-captions", lambda c: c.data.wrong_captions > 0, "--wrong-captions above 0"),
    Need(REVIEWED, "--reviews", lambda c: bool(c.data.reviews) or c.cleaning.clean, "reviews", "warning"),
    Need(CLEANED, "--clean", lambda c: c.cleaning.clean, "a run that cleans its pairs"),
    Need("image_tuning", "--image-tower", lambda c: bool(c.towers.image_tower), "a tower to tune"),
    Need("text_tuning", "--text-tower", lambda c: bool(c.towers.text_tower), "a tower to tune"),
    Need("revision", "--image-tower or --text-tower", lambda c: c.towers.any, "a tower with this revision"),
    Need("augment", "--image-tower", lambda c: bool(c.towers.image_tower), "a tower that reads pictures"),
    Need("projection", "--image-tower or --text-tower", lambda c: c.towers.any, "linear"),
    Need("bank_anchors", "--bank-size", lambda c: c.memory.bank_size > 0, "a memory bank", "warning"),
    Need("concept_list", "--concepts", lambda c: c.model.concepts > 0, "--concepts above 0"),
    Need("prototype_recluster", "--prototypes", lambda c: c.memory.prototypes > 0, "--prototypes above 0"),
    Need("weight_heads weight_mmd", "--embeddings 3", lambda c: c.model.embeddings > 1, "several embeddings"),
    Need("boosting_branches", "--boosting-scenario online", lambda c: c.boosting.online, "several branches"),
    Need("text_space", BY_NEIGHBOURS, lambda c: c.weighting.reads_neighbours, "weights that read neighbours"),
)


def problems(config: Config) -> list[Fault]:
    """Return the faults of impossible settings (errors) and doubtful ones (warnings), located at their flags."""
    of_values = (setting.fault(setting.of(config)) for setting in settings().values())
    faults = [fault for fault in of_values if fault is not None]
    faults += name_faults(config.name) if config.name else []
    if faults:
        return faults
    checks = [_needs, _cleaning, _towers, _pictures, _loss, _pieces, _bank, _ones, _by_pair, _boosting]
    for check in (*checks, _weighting):
        faults += check(config)
    return faults


def _needs(config: Config) -> Iterator[Fault]:
    for need in NEEDS:
        for setting in (settings()[key] for key in need.keys.split()):
            value = setting.of(config)
            if value != setting.default and not need.given(config):
                fact = f"is {'given' if value is True else value} without {need.flag}"
                fix = f"give {need.flag} as well, or leave {setting.flag} out"
                yield Fault(setting.flag, fact, need.expected, fix, need.severity)


def _cleaning(config: Config) -> Iterator[Fault]:
    if config.cleaning.clean and config.data.train_part < 1:
        fix = "leave one of the two out: --clean itself chooses what its scorers train on"
        yield Fault("--train-part", f"is {config.data.train_part:g} with --clean", "1", fix)
    named = config.cleaning.clean_scorers
    paths = named.split(os.pathsep)
    if paths != [""] and not all(Path(path).name for path in paths):
        yield Fault("--clean-scorers", f"is {named}", "folders of runs", "check the path")
    by_halves_once = config.cleaning.clean_by == "halves" and config.cleaning.clean_rounds == 1
    if len(paths) > (2 if by_halves_once else 1):
        expected = "one cleaned run, or two runs on halves with --clean-by halves --clean-rounds 1"
        yield Fault(
            "--clean-scorers", f"names {len(paths)} runs", expected, "name fewer, or change these flags"
        )
    own = [name for name in (config.towers.image_tower, config.towers.text_tower) if ":" in name]
    if config.cleaning.clean and own:
        fix = "train the two scorers yourself (docs/data.md, section 6)"
        yield Fault("--clean", f"is given with {own[0]}, your own tower", "towers from transformers", fix)


def _towers(config: Config) -> Iterator[Fault]:
    towers = config.towers
    model = config.model
    largest = config.training.learning_rate
    for side, tower, pooling, tuning, rate in (
        ("image", towers.image_tower, model.image_pooling, towers.image_tuning, towers.image_rate),
        ("text", towers.text_tower, model.text_pooling, towers.text_tuning, towers.text_rate),
    ):
        flag = f"--{side}-rate"
        if not tower and pooling == "tower":
            fix = f"choose one of these, or give --{side}-tower as well"
            yield Fault(f"--{side}-pooling", f"is tower without --{side}-tower", "gpo, mean or max", fix)
        if tower and pooling == "tower" and model.by_pair:
            fix = "choose one of these: the model needs the features of single patches and words"
            yield Fault(f"--{side}-pooling", f"is tower with {_scorer(config)}", "gpo, mean or max", fix)
        if tower and tuning != "frozen" and rate == 0:
            yield Fault(flag, f"is 0 with --{side}-tuning {tuning}", f"above 0, or --{side}-tuning frozen")
        if tower and tuning == "full" and rate * largest > FULL_RATE:
            fact = f"is {rate:g}, so with --{side}-tuning full the tower's rate is {rate * largest:g}"
            fix = "a larger rate undoes the pretraining; only towers with random initial weights need one"
            yield Fault(flag, fact, f"at most {FULL_RATE:g} for {flag} × --learning-rate", fix, "warning")
    if towers.text_tower and model.text_encoder == "bert":
        fix = "leave one of the two out"
        yield Fault("--text-tower", "is given with --text-encoder bert", "one encoder of captions", fix)


def _pictures(config: Config) -> Iterator[Fault]:
    towers = config.towers
    model = config.model
    if not towers.image_tower:
        return
    for key in ("image_dropout", "region_norm"):
        setting = settings()[key]
        if (value := setting.of(config)) != setting.default:
            fix = "leave it out: it changes region features, and an image tower reads pictures"
            yield Fault(setting.flag, f"is {value} with --image-tower", "a run on region features", fix)
    frozen = towers.image_tuning == towers.text_tuning == "frozen" and towers.projection == "none"
    weightless = model.image_pooling in WEIGHTLESS and model.text_pooling in WEIGHTLESS
    if towers.both and frozen and weightless and model.concepts == 0 and not model.by_pair:
        yield NOTHING_TRAINS


def _loss(config: Config) -> Iterator[Fault]:
    objective = config.objective
    loss = objective.loss
    entry = LOSSES[loss]
    gamma = objective.gamma
    yield from own_loss_faults()
    reads_gamma = entry.reads("gamma") or config.model.concepts > 0
    if reads_gamma and 1 < abs(gamma) < math.inf:
        yield Fault("--gamma", f"is {gamma:g}", "a cosine, from -1 to 1")
    of_bank = objective.weight_memory > 0 and config.memory.bank_size > 0
    of_concepts = objective.weight_concept > 0 and config.model.concepts > 0
    if entry.reads_bank and objective.weight_instance == 0 and not of_bank and not of_concepts:
        yield Fault("--weight-instance", "is 0, and no other loss is used", "at least one weight above 0")
    if objective.learn_scale and not entry.scaled:
        scaled = ", ".join(name for name, one in LOSSES.items() if one.scaled)
        fix = "leave it out, or choose one of these losses; in dcl the temperature μ also weights the loss"
        yield Fault("--learn-scale", f"is given with loss {loss}", scaled, fix)
    if objective.learns_scale and objective.temperature < 1 / LARGEST_SCALE:
        fix = f"raise it: the scale starts at 1 / temperature and may not exceed {LARGEST_SCALE:g}"
        fact = f"is {objective.temperature:g} with a learned scale"
        yield Fault("--temperature", fact, f"{1 / LARGEST_SCALE:g} or more", fix)


def _pieces(config: Config) -> Iterator[Fault]:
    size = config.training.piece_size
    batch = config.training.batch_size
    layers = config.model.image_layers
    if size >= batch:
        fix = "lower it: a batch that is a single piece saves no memory"
        fact = f"is {size} with a batch of {batch}"
        yield Fault("--piece-size", fact, "less than --batch-size", fix, "warning")
    elif size and layers > 1 and not config.towers.image_tower:
        fact = f"is {size} with --image-layers {layers}, whose batch normalisation reads the whole batch"
        fix = "give --image-layers 1, which uses no batch normalisation, or leave --piece-size out"
        yield Fault("--piece-size", fact, "0", fix)


def _bank(config: Config) -> Iterator[Fault]:
    size = config.memory.bank_size
    batch = config.training.batch_size
    loss = config.objective.loss
    if size <= 0:
        return
    if size < batch:
        fix = "a bank must hold at least one whole batch of keys"
        fact = f"is {size}, smaller than the batch of {batch}"
        yield Fault("--bank-size", fact, "0 (no bank) or at least --batch-size", fix)
    if not LOSSES[loss].reads_bank:
        readers = " and ".join(sorted(name for name, one in LOSSES.items() if one.reads_bank))
        yield Fault("--bank-size", f"is {size} with loss {loss}", f"0: only {readers} use a memory bank")
    if config.memory.momentum == 1:
        yield Fault("--momentum", "is 1", "below 1", "the key encoder would keep its random start", "warning")


def _ones(config: Config) -> Iterator[Fault]:
    if config.model.concepts == 1:
        yield Fault("--concepts", "is 1", "0 (none) or at least 2", "a single one cannot tell samples apart")
    if config.memory.prototypes == 1:
        yield Fault("--prototypes", "is 1", "0 (none) or at least 2", "a single one would contain every pair")


def _scorer(config: Config) -> str:
    """Return the flag that makes a run score pair by pair."""
    interaction = config.model.scorer == "interaction"
    return "--scorer interaction" if interaction else f"--embeddings {config.model.embeddings}"


def _by_pair(config: Config) -> Iterator[Fault]:
    embeddings = config.model.embeddings
    if config.model.scorer == "interaction" and embeddings > 1:
        fix = "leave one of the two out"
        yield Fault("--embeddings", f"is {embeddings} with --scorer interaction", "1", fix)
    if not config.model.by_pair:
        return
    scorer = _scorer(config)
    for setting in (settings()[key] for key in ("bank_size", "prototypes", "concepts")):
        if (value := setting.of(config)) > 0:
            fix = f"give 0, or leave {scorer} out: {setting.flag} needs one embedding per sample"
            yield Fault(setting.flag, f"is {value} with {scorer}", "0", fix)


def _boosting(config: Config) -> Iterator[Fault]:
    boosting = config.boosting
    loss = config.objective.loss
    scenario = boosting.boosting_scenario
    teacher = boosting.boosting_teacher
    start = boosting.boosting_start_epoch
    has_none = boosting.boosting == "none"
    if scenario == "online" and start > 0:
        fix = "leave it out: the branches train together from the first step"
        yield Fault("--boosting-start-epoch", f"is {start:g} with --boosting-scenario online", "0", fix)
    if has_none and (scenario != "momentum" or teacher):
        flag, value = ("--boosting-teacher", "given") if teacher else ("--boosting-scenario", scenario)
        fix = "give --boosting rm or am as well, or leave it out"
        yield Fault(flag, f"is {value} with --boosting none", "a form of boosting", fix)
    elif (scenario == "offline") != bool(teacher):
        fact = f"is {teacher!r} with --boosting-scenario {scenario}"
        expected = "the folder of a finished run"
        fix = ""
        if teacher:
            expected = "no value: this scenario makes its own teacher"
            fix = "to use a finished run as the teacher, give --boosting-scenario offline as well"
        yield Fault("--boosting-teacher", fact, expected, fix)
    if not has_none and not LOSSES[loss].summed and boosting.boosting_weight >= 1:
        fact = f"is {boosting.boosting_weight:g}: boosting is summed over the batch, loss {loss} averaged over it"
        fix = f"start near 1 / batch size ({1 / max(config.training.batch_size, 1):.2g}) and compare on dev"
        yield Fault("--boosting-weight", fact, "a smaller weight", fix, "warning")


def _weighting(config: Config) -> Iterator[Fault]:
    weighting = config.weighting
    second = config.weighting.neighbours_of_neighbours
    kind = weighting.sample_weights
    scale = weighting.weight_scale
    if 0 < second < weighting.neighbours:
        expected = f"0 (all of them) or at least --neighbours, {weighting.neighbours}"
        fix = "raise it: at least one neighbour of each neighbour has to be drawn"
        yield Fault("--neighbours-of-neighbours", f"is {second}", expected, fix)
    if kind == "combined" and weighting.diversity_share == weighting.discrepancy_share == 0:
        yield Fault("--diversity-share", "is 0, and so is --discrepancy-share", "at least one above 0")
    if kind != "none" and 0 < scale < 1:
        fix = "raise it: such a λ makes all weights nearly equal, and the npairs-hinge loss smaller"
        yield Fault("--weight-scale", f"is {scale:g}, so λ < batch size", "1 or more", fix, "warning")
    if kind in OF_NEIGHBOURHOODS and config.training.epochs == 1:
        fix = "train longer: the first epoch only collects embeddings, and all its weights are equal"
        yield Fault("--epochs", f"is 1 with --sample-weights {kind}", "2 or more", fix, "warning")
