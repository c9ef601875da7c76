"""Check a configuration: every setting against its range, which settings cannot be combined, and the schedule and batch
against the length of the run."""

import math
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from coder_core.config.data import group_faults
from coder_core.config.schema import Config, name_faults, replaced, settings
from coder_core.config.training import OF_NEIGHBOURHOODS, own_loss_faults
from coder_core.console.faults import Fault, Severity
from coder_core.objectives.table import LARGEST_SCALE, LOSSES

FULL_RATE = 1e-4  # above it, a tower that is trained in full forgets its pretraining
WEIGHTLESS = ("tower", "mean", "max")  # poolings without weights
NOTHING_TRAINS = Fault(
    "--image-tuning and --text-tuning",
    "are both frozen, and no layer on top of the towers can be trained",
    "lora or full for one tower, --projection linear, or gpo for --image-pooling or --text-pooling",
    "to use the model without training: coder-lab embed pictures DATA --model NAME --name RUN",
)
REVIEWED = "wrong_weight vague_weight duplicate_weight also_matches"
CLEANED = "clean_by clean_loss clean_above clean_weigh clean_rounds clean_scorers"
BY_NEIGHBOURS = "--sample-weights diversity, discrepancy or combined"
LONGEST_WARMUP = 1 / 8  # share of a run; Flickr8k's presets warm up for 200 of 1,872 steps
FITTING_WARMUP = 1 / 10


class Conflict(Fault):
    """A value that conflicts with another setting, as one sentence: flag and value, rule; then the remedy.

    >>> print(Conflict("--bank-size", "512 cannot be used with --loss cmpm: only dcl reads a bank", fix="set it to 0"))
    --bank-size 512 cannot be used with --loss cmpm: only dcl reads a bank. Set it to 0
    """

    def __str__(self) -> str:
        return f"{self.place} {self.found}. {self.fix[:1].upper()}{self.fix[1:]}"


def conflict(flag: str, rule: str, fix: str) -> Fault:
    """Return an error; `rule` begins with the flag's value, unless it is a switch."""
    return Conflict(flag, rule, fix=fix)


def doubt(flag: str, rule: str, fix: str) -> Fault:
    """Return a warning; as `conflict`."""
    return Conflict(flag, rule, fix=fix, severity="warning")


class Need(NamedTuple):
    """Settings that have no effect without another one."""

    keys: str  # separated by spaces
    needed: str  # the other setting
    given: Callable[[Config], bool]  # true if the other setting is given
    severity: Severity = "error"


NEEDS = (
    Need("other_part", "--train-part below 1", lambda c: c.data.train_part < 1),
    Need("omit_wrong", "--wrong-captions above 0", lambda c: c.data.wrong_captions > 0),
    Need(REVIEWED, "--reviews", lambda c: bool(c.data.reviews) or c.cleaning.clean, "warning"),
    Need(CLEANED, "--clean", lambda c: c.cleaning.clean),
    Need("image_tuning", "--image-tower", lambda c: bool(c.towers.image_tower)),
    Need("text_tuning", "--text-tower", lambda c: bool(c.towers.text_tower)),
    Need("revision projection", "--image-tower or --text-tower", lambda c: c.towers.any),
    Need("augment cache_pictures", "--image-tower", lambda c: bool(c.towers.image_tower)),
    Need("bank_anchors", "--bank-size above 0", lambda c: c.memory.bank_size > 0, "warning"),
    Need("concept_list", "--concepts above 0", lambda c: c.model.concepts > 0),
    Need("prototype_recluster", "--prototypes above 0", lambda c: c.memory.prototypes > 0),
    Need("weight_heads weight_mmd", "--embeddings above 1", lambda c: c.model.embeddings > 1),
    Need("boosting_branches", "--boosting-scenario online", lambda c: c.boosting.online),
    Need("text_space", BY_NEIGHBOURS, lambda c: c.weighting.reads_neighbours),
)


def problems(config: Config) -> list[Fault]:
    """Return the faults of impossible settings (errors) and doubtful ones (warnings), located at their flags."""
    of_values = (setting.fault(setting.of(config)) for setting in settings().values())
    faults = [fault for fault in of_values if fault is not None]
    faults += name_faults(config.name) if config.name else []
    if faults:
        return faults

    checks = [
        _needs,
        _cleaning,
        _towers,
        _pictures,
        _loss,
        _groups,
        _pieces,
        _bank,
        _ones,
        _by_pair,
        _boosting,
    ]
    for check in (*checks, _weighting):
        faults += check(config)

    return faults


def _needs(config: Config) -> Iterator[Fault]:
    for need in NEEDS:
        if need.given(config):
            continue
        make = conflict if need.severity == "error" else doubt
        for key in need.keys.split():
            setting = settings()[key]
            value = setting.of(config)
            if value != setting.default:
                named = "" if value is True else f"{value} "
                fix = f"give {need.needed} as well, or leave {setting.flag} out"
                yield make(setting.flag, f"{named}has no effect without {need.needed}", fix)


def _cleaning(config: Config) -> Iterator[Fault]:
    cleaning = config.cleaning
    part = config.data.train_part
    if cleaning.clean and part < 1:
        rule = f"{part:g} cannot be used with --clean, which chooses what its scorers train on"
        yield conflict("--train-part", rule, "leave one of the two out")

    paths = cleaning.clean_scorers.split(os.pathsep)
    if paths != [""] and not all(Path(path).name for path in paths):
        yield conflict("--clean-scorers", f"{cleaning.clean_scorers} does not name runs", "check the path")

    by_halves_once = cleaning.clean_by in ("auto", "halves") and cleaning.clean_rounds <= 1
    if len(paths) > (2 if by_halves_once else 1):
        rule = f"{cleaning.clean_scorers} names {len(paths)} runs"
        fix = "name one cleaned run, or two runs on halves with --clean-by halves --clean-rounds 1"
        yield conflict("--clean-scorers", rule, fix)
    if cleaning.clean_by == "regression":
        yield from _regression(config)

    own = [name for name in (config.towers.image_tower, config.towers.text_tower) if ":" in name]
    if cleaning.clean and own:
        rule = f"cannot be used with {own[0]}, your own tower: scorers need towers from transformers"
        yield conflict("--clean", rule, "train the two scorers yourself (docs/data.md, section 6)")


def _regression(config: Config) -> Iterator[Fault]:
    where = "--clean-by"
    if config.towers.image_tower:
        rule = "regression cannot be used with --image-tower: it reads region features"
        yield conflict(where, rule, "use --clean-by halves")
    for key in ("clean_loss", "clean_rounds"):
        setting = settings()[key]
        if setting.of(config) != setting.default:
            rule = f"regression has no scorers, which {setting.flag} is for"
            yield conflict(where, rule, f"leave {setting.flag} out, or use --clean-by halves")


def _towers(config: Config) -> Iterator[Fault]:
    towers = config.towers
    model = config.model
    yield from _tower(config, "image", towers.image_tower, model.image_pooling)
    yield from _tower(config, "text", towers.text_tower, model.text_pooling)
    if towers.text_tower and model.text_encoder == "bert":
        rule = "cannot be used with --text-encoder bert: captions have one encoder"
        yield conflict("--text-tower", rule, "leave one of the two out")


def _tower(config: Config, side: str, tower: str, pooling: str) -> Iterator[Fault]:
    flag = f"--{side}-pooling"
    if not tower:
        if pooling == "tower":
            fix = f"choose gpo, mean or max, or give --{side}-tower as well"
            yield conflict(flag, f"tower needs --{side}-tower", fix)
        return

    if pooling == "tower" and config.model.by_pair:
        rule = (
            f"tower cannot be used with {_scorer(config)}, which needs features of single patches and words"
        )
        yield conflict(flag, rule, "choose gpo, mean or max")

    tuning = settings()[f"{side}_tuning"].of(config)
    rate = settings()[f"{side}_rate"].of(config)
    of_tower = rate * config.training.learning_rate
    if tuning != "frozen" and rate == 0:
        rule = f"0 cannot be used with --{side}-tuning {tuning}"
        yield conflict(f"--{side}-rate", rule, f"give a rate above 0, or --{side}-tuning frozen")
    if tuning == "full" and of_tower > FULL_RATE:
        rule = f"{rate:g} gives the tower a learning rate of {of_tower:g}, which undoes its pretraining"
        fix = (
            f"lower it to {FULL_RATE / config.training.learning_rate:.2g}, unless the tower starts at random"
        )
        yield doubt(f"--{side}-rate", rule, fix)


def _pictures(config: Config) -> Iterator[Fault]:
    towers = config.towers
    model = config.model
    if not towers.image_tower:
        return
    for key in ("image_dropout", "region_norm"):
        setting = settings()[key]
        value = setting.of(config)
        if value != setting.default:
            rule = f"{value} changes region features, but --image-tower reads pictures"
            yield conflict(setting.flag, rule, "leave it out")
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
        yield conflict("--gamma", f"{gamma:g} is compared with cosines", "give a value from -1 to 1")

    of_bank = objective.weight_memory > 0 and config.memory.bank_size > 0
    of_concepts = objective.weight_concept > 0 and config.model.concepts > 0
    if entry.reads_bank and objective.weight_instance == 0 and not of_bank and not of_concepts:
        yield conflict("--weight-instance", "0 leaves no loss", "give at least one loss a weight above 0")
    if objective.learn_scale and not entry.scaled:
        scaled = ", ".join(name for name, one in LOSSES.items() if one.scaled)
        rule = f"cannot be used with --loss {loss}: only {scaled} have a scale to learn"
        fix = "leave it out, or choose one of these losses; in dcl the temperature μ also weights the loss"
        yield conflict("--learn-scale", rule, fix)

    if objective.learns_scale and objective.temperature < 1 / LARGEST_SCALE:
        rule = f"{objective.temperature:g} starts the learned scale, 1 / temperature, above {LARGEST_SCALE:g}"
        yield conflict("--temperature", rule, f"give {1 / LARGEST_SCALE:g} or more")


def _groups(config: Config) -> Iterator[Fault]:
    if config.data.groups:
        yield from group_faults(config.data)
    flag = "--group-column" if config.data.group_column else "--groups"
    value = config.data.group_column or config.data.groups
    if value and config.objective.same_image_negatives:
        rule = f"{value} cannot be used with --same-image-negatives: pairs of a group are not negatives"
        yield conflict(flag, rule, "leave one of the two out")


def _pieces(config: Config) -> Iterator[Fault]:
    size = config.training.piece_size
    batch = config.training.batch_size
    layers = config.model.image_layers
    if size >= batch:
        rule = f"{size} saves no memory: the batch of {batch} is a single piece"
        yield doubt("--piece-size", rule, "give less than --batch-size")
    elif size and layers > 1 and not config.towers.image_tower:
        rule = f"{size} cannot be used with --image-layers {layers}, whose batch norm reads the whole batch"
        fix = "give --image-layers 1, which has no batch norm, or leave --piece-size out"
        yield conflict("--piece-size", rule, fix)


def _bank(config: Config) -> Iterator[Fault]:
    size = config.memory.bank_size
    batch = config.training.batch_size
    loss = config.objective.loss
    if size <= 0:
        return
    if size < batch:
        rule = f"{size} is too small: a bank holds at least the keys of one batch of {batch}"
        yield conflict("--bank-size", rule, "give at least --batch-size, or 0 for no bank")
    if not LOSSES[loss].reads_bank:
        readers = " and ".join(sorted(name for name, one in LOSSES.items() if one.reads_bank))
        rule = f"{size} cannot be used with --loss {loss}: only {readers} use a memory bank"
        yield conflict("--bank-size", rule, "set it to 0")
    if config.memory.momentum == 1:
        yield doubt("--momentum", "1 keeps the key encoder at its random start", "give a value below 1")


def _ones(config: Config) -> Iterator[Fault]:
    if config.model.concepts == 1:
        rule = "1 is too few: a single concept cannot distinguish samples"
        yield conflict("--concepts", rule, "give 2 or more, or 0 for none")
    if config.memory.prototypes == 1:
        rule = "1 is too few: a single prototype would contain every pair"
        yield conflict("--prototypes", rule, "give 2 or more, or 0 for none")


def _scorer(config: Config) -> str:
    """Return the flag that makes a run score pair by pair."""
    interaction = config.model.scorer == "interaction"
    return "--scorer interaction" if interaction else f"--embeddings {config.model.embeddings}"


def _by_pair(config: Config) -> Iterator[Fault]:
    embeddings = config.model.embeddings
    if config.model.scorer == "interaction" and embeddings > 1:
        rule = f"{embeddings} cannot be used with --scorer interaction"
        yield conflict("--embeddings", rule, "leave one of the two out")
    if not config.model.by_pair:
        return
    scorer = _scorer(config)
    for key in ("bank_size", "prototypes", "concepts"):
        setting = settings()[key]
        value = setting.of(config)
        if value > 0:
            rule = f"{value} cannot be used with {scorer}: it needs one embedding per sample"
            yield conflict(setting.flag, rule, f"set it to 0, or leave {scorer} out")


def _boosting(config: Config) -> Iterator[Fault]:
    boosting = config.boosting
    loss = config.objective.loss
    scenario = boosting.boosting_scenario
    teacher = boosting.boosting_teacher
    start = boosting.boosting_start_epoch
    weight = boosting.boosting_weight
    has_none = boosting.boosting == "none"
    if scenario == "online" and start > 0:
        rule = f"{start:g} cannot be used with --boosting-scenario online: branches train together from the start"
        yield conflict("--boosting-start-epoch", rule, "leave it out")

    if has_none and (scenario != "momentum" or teacher):
        flag, value = ("--boosting-teacher", teacher) if teacher else ("--boosting-scenario", scenario)
        fix = "give --boosting rm or am as well, or leave it out"
        yield conflict(flag, f"{value} has no effect without --boosting", fix)
    elif scenario == "offline" and not teacher:
        rule = "is empty, but --boosting-scenario offline needs a finished run"
        yield conflict("--boosting-teacher", rule, "name the folder of one")
    elif scenario != "offline" and teacher:
        rule = f"{teacher} cannot be used with --boosting-scenario {scenario}, which makes its own teacher"
        yield conflict("--boosting-teacher", rule, "leave it out, or give --boosting-scenario offline")

    if not has_none and not LOSSES[loss].summed and weight >= 1:
        rule = f"{weight:g} outweighs --loss {loss}: boosting is summed over the batch, the loss averaged over it"
        fix = f"start near 1 / batch size ({1 / max(config.training.batch_size, 1):.2g}) and compare on dev"
        yield doubt("--boosting-weight", rule, fix)


def _weighting(config: Config) -> Iterator[Fault]:
    weighting = config.weighting
    first = weighting.neighbours
    second = weighting.neighbours_of_neighbours
    kind = weighting.sample_weights
    scale = weighting.weight_scale
    if 0 < second < first:
        rule = f"{second} is less than --neighbours {first}, so some neighbors would have none"
        yield conflict("--neighbours-of-neighbours", rule, f"give {first} or more, or 0 for all")
    if kind == "combined" and weighting.diversity_share == weighting.discrepancy_share == 0:
        rule = "0 with --discrepancy-share 0 leaves no weights"
        yield conflict("--diversity-share", rule, "give at least one above 0")
    if kind != "none" and 0 < scale < 1:
        rule = (
            f"{scale:g} makes λ smaller than the batch: all weights are nearly equal, npairs-hinge is smaller"
        )
        yield doubt("--weight-scale", rule, "give 1 or more")

    if kind in OF_NEIGHBOURHOODS and config.training.epochs == 1:
        rule = f"1 is too few for --sample-weights {kind}: the first epoch only collects embeddings"
        yield doubt("--epochs", rule, "give 2 or more")


def with_fitting_warmup(config: Config, steps_per_epoch: int) -> tuple[Config, list[Fault]]:
    """Cut a warm-up longer than an eighth of the run to a tenth; return the configuration and a note if it changed."""
    steps = config.training.steps(steps_per_epoch)
    before = config.training.warmup_steps
    if before <= steps * LONGEST_WARMUP:
        return config, []
    fitting = max(1, round(steps * FITTING_WARMUP))
    fact = f"is {before:,} in the preset, but this run has {steps:,} steps and warms up over {fitting:,}"
    fault = Fault("--warmup-steps", fact, fix=f"give --warmup-steps {before} to keep it", severity="note")
    return replaced(config, {"warmup_steps": fitting}), [fault]


def with_fitting_batch(config: Config, pairs: int, of_train: int) -> tuple[Config, list[Fault]]:
    """Cut a batch larger than the pairs of --train-part, if all of train could fill it, to a quarter of them, with a note."""
    if not pairs < config.training.batch_size <= of_train:
        return config, []
    # a contrastive loss needs negatives
    fitting = max(2, pairs // 4)
    asked = config.training.batch_size
    fact = f"is {asked}, but --train-part leaves {pairs} pairs, so batches have {fitting}"
    fault = Fault("--batch-size", fact, severity="note")
    return replaced(config, {"batch_size": fitting}), [fault]


def check_schedule(config: Config, steps_per_epoch: int) -> list[Fault]:
    """Return a warning for each part of the schedule that would begin only after the run ends."""
    objective = config.objective
    memory = config.memory
    boosting = config.boosting

    steps = config.training.steps(steps_per_epoch)
    epochs = steps / steps_per_epoch
    warmup = config.training.warmup_steps
    warms_up = LOSSES[objective.loss].warm_up != ""
    boosts = boosting.boosting != "none"
    has_bank = memory.bank_size > 0 and objective.weight_memory > 0

    parts = (
        ("--warmup-steps", warmup, steps, "the full learning rate", warmup > 0),
        ("--warmup-epochs", objective.warmup_epochs, epochs, "the hardest negatives", warms_up),
        ("--bank-start-epoch", memory.bank_start_epoch, epochs, "the bank's loss", has_bank),
        ("--boosting-start-epoch", boosting.boosting_start_epoch, epochs, "boosting", boosts),
    )
    fix = "train longer, or lower it"
    return [
        Fault(flag, f"is {start:g}: the run ends before it uses {what}", f"below {end:,.4g}", fix, "warning")
        for flag, start, end, what, used in parts
        if used and start >= end
    ]
