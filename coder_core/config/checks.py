"""Check a configuration: every setting against its range, and which settings do not go together."""

from __future__ import annotations

import math
from collections.abc import Iterator

from coder_core.config.model import ModelConfig
from coder_core.config.objective import LARGEST_SCALE
from coder_core.config.schema import RUN_NAME, Config, settings
from coder_core.config.weighting import OF_NEIGHBOURHOODS, WeightingConfig
from coder_core.console.faults import Fault

FULL_RATE = 1e-4  # above which a tower that is trained in full forgets
WEIGHTLESS = ("tower", "mean", "max")  # poolings without weights
DCL = ("dcl", "dcl-i")
SCALED = ("infonce", "sigmoid", "cmpm")  # losses of scale · S
SUMMED = ("btr-sum", "btr-hardest")
NOTHING_TRAINS = Fault(
    "--image-tuning and --text-tuning",
    "are frozen, and nothing stands on the towers that could be trained",
    "lora or full, --projection linear, or a pooling of ours (gpo)",
    "for the model as it is: python -m coder_core.embed pictures DATA --model NAME --name RUN",
)


def problems(config: Config) -> list[Fault]:
    """Impossible settings (errors) and doubtful ones (warnings), each naming its flag."""
    ranges = [
        known.fault(getattr(getattr(config, known.section), known.key)) for known in settings().values()
    ]
    faults = [fault for fault in ranges if fault is not None]
    if config.name and not RUN_NAME.fullmatch(config.name):
        expected = "at most 200 letters, digits, '.', '_' and '-', a letter or digit first"
        faults.append(Fault("--name", f"is {config.name!r}", expected, "it becomes the name of a folder"))
    for check in (
        _part,
        _reviews,
        _towers,
        _loss,
        _pieces,
        _bank,
        _concepts,
        _prototypes,
        _scorer,
        _boosting,
    ):
        faults += check(config)
    return faults + list(_weighting(config.weighting, config.training.epochs))


def _part(config: Config) -> Iterator[Fault]:
    if config.data.other_part and config.data.train_part == 1:
        fix = "give --train-part 0.5 as well, or leave it out"
        yield Fault("--other-part", "is given without --train-part", "a share below 1", fix)


def _reviews(config: Config) -> Iterator[Fault]:
    for key in ("wrong_weight", "vague_weight", "duplicate_weight", "also_matches"):
        value = getattr(config.data, key)
        if not config.data.reviews and value != settings()[key].default:
            fix = "give --reviews as well, or leave it out"
            yield Fault(
                settings()[key].flag, f"is {value} without --reviews", "a file of reviews", fix, "warning"
            )


def _towers(config: Config) -> Iterator[Fault]:
    towers, model = config.towers, config.model
    for side, tower, pooling in (
        ("image", towers.image_tower, model.image_pooling),
        ("text", towers.text_tower, model.text_pooling),
    ):
        tuning, rate = getattr(towers, f"{side}_tuning"), getattr(towers, f"{side}_rate")
        fix = f"give --{side}-tower as well, or leave it out"
        if not tower and pooling == "tower":
            yield Fault(f"--{side}-pooling", f"is tower without --{side}-tower", "gpo, mean or max", fix)
        if not tower and tuning != "frozen":
            yield Fault(f"--{side}-tuning", f"is {tuning} without --{side}-tower", "a tower to tune", fix)
        if tower and pooling == "tower" and model.by_pair:
            scorer = (
                "--scorer interaction"
                if model.scorer == "interaction"
                else f"--embeddings {model.embeddings}"
            )
            fix = "choose gpo, mean or max: patches and words are compared one by one"
            yield Fault(f"--{side}-pooling", f"is tower with {scorer}", "local features", fix)
        if tower and tuning != "frozen" and rate == 0:
            yield Fault(
                f"--{side}-rate", f"is 0 with --{side}-tuning {tuning}", "above 0", "or leave it frozen"
            )
        if tower and tuning == "full" and rate * config.training.learning_rate > FULL_RATE:
            rated = f"is {rate:g} of {config.training.learning_rate:g} with --{side}-tuning full"
            fix = "larger rates undo the pretraining; towers that start from random weights take them"
            yield Fault(f"--{side}-rate", rated, f"together at most {FULL_RATE:g}", fix, "warning")
    if towers.text_tower and model.text_encoder == "bert":
        fix = "leave one of the two out"
        yield Fault("--text-tower", "is given with --text-encoder bert", "one reader of captions", fix)
    if towers.projection == "none" and not towers.image_tower and not towers.text_tower:
        yield Fault(
            "--projection", "is none without a tower", "linear", "give --image-tower or --text-tower as well"
        )
    if not towers.image_tower:
        if towers.augment != "none":
            fix = "give --image-tower as well, or leave it out"
            yield Fault("--augment", f"is {towers.augment} without --image-tower", "pictures to change", fix)
        return
    for flag, value, default in (
        ("--image-dropout", model.image_dropout, 0.0),
        ("--region-norm", model.region_norm, "none"),
    ):
        if value != default:
            fix = "leave it out: an image tower reads pictures"
            yield Fault(flag, f"is {value} with --image-tower", "region features", fix)
    frozen = (
        towers.image_tuning == "frozen" and towers.text_tuning == "frozen" and towers.projection == "none"
    )
    weightless = model.image_pooling in WEIGHTLESS and model.text_pooling in WEIGHTLESS
    if towers.both and frozen and weightless and model.concepts == 0 and not model.by_pair:
        yield NOTHING_TRAINS


def _loss(config: Config) -> Iterator[Fault]:
    objective = config.objective
    if objective.loss != "infonce" and 1 < abs(objective.gamma) < math.inf:
        yield Fault("--gamma", f"is {objective.gamma:g}", "a cosine, from -1 to 1")
    others = (objective.weight_memory > 0 and config.memory.bank_size > 0) or (
        objective.weight_concept > 0 and config.model.concepts > 0
    )
    if objective.loss in DCL and objective.weight_instance == 0 and not others:
        yield Fault("--weight-instance", "is 0 and no bank loss is on", "at least one loss with a weight")
    if objective.learn_scale and objective.loss not in SCALED:
        fix = "leave it out, or choose one of these losses; the μ of dcl weighs the loss as well"
        yield Fault("--learn-scale", f"is given with loss {objective.loss}", ", ".join(SCALED), fix)
    if objective.learns_scale and objective.temperature < 1 / LARGEST_SCALE:
        fix = f"1 / temperature is where the scale starts, which stays at or below {LARGEST_SCALE:g}"
        problem = f"is {objective.temperature:g} with a learned scale"
        yield Fault("--temperature", problem, f"{1 / LARGEST_SCALE:g} or more", fix)


def _pieces(config: Config) -> Iterator[Fault]:
    size, batch, layers = config.training.piece_size, config.training.batch_size, config.model.image_layers
    if size >= batch:
        yield Fault(
            "--piece-size",
            f"is {size} with a batch of {batch}",
            "less than --batch-size",
            "the batch is one piece and saves no memory",
            "warning",
        )
    elif size and layers > 1 and not config.towers.image_tower:
        problem = f"is {size} with --image-layers {layers}, whose batch normalisation reads the whole batch"
        fix = "give --image-layers 1, which has none, or leave --piece-size out"
        yield Fault("--piece-size", problem, "0", fix)


def _bank(config: Config) -> Iterator[Fault]:
    size, batch, loss = config.memory.bank_size, config.training.batch_size, config.objective.loss
    if size <= 0:
        if config.memory.bank_anchors:
            fix = "without a bank it changes nothing"
            yield Fault("--bank-anchors", "is given with --bank-size 0", "a bank", fix, "warning")
        return
    if size < batch:
        fix = "a bank must hold at least one whole batch of keys"
        yield Fault(
            "--bank-size",
            f"is {size}, smaller than the batch of {batch}",
            "0 (no bank) or at least --batch-size",
            fix,
        )
    if loss not in DCL:
        yield Fault("--bank-size", f"is {size} with loss {loss}", "0: only dcl and dcl-i read a bank")
    if config.memory.momentum == 1:
        yield Fault("--momentum", "is 1", "below 1", "the key encoder would keep its random start", "warning")


def _concepts(config: Config) -> Iterator[Fault]:
    if config.model.concepts == 1:
        yield Fault("--concepts", "is 1", "0 (no concept branch) or 2 and more", "one concept says nothing")
    if config.model.concept_list and config.model.concepts == 0:
        fix = "give --concepts as well, or leave the list out"
        yield Fault("--concept-list", "is given with --concepts 0", "concepts to read", fix)


def _prototypes(config: Config) -> Iterator[Fault]:
    if config.memory.prototypes == 1:
        yield Fault("--prototypes", "is 1", "0 (none) or 2 and more", "one class says nothing")
    if config.memory.prototype_recluster and config.memory.prototypes == 0:
        fix = "give --prototypes as well, or leave it out"
        yield Fault("--prototype-recluster", "is given with --prototypes 0", "prototypes to cluster", fix)


def _scorer(config: Config) -> Iterator[Fault]:
    model: ModelConfig = config.model
    if model.scorer == "interaction" and model.embeddings > 1:
        fix = "leave one of the two out"
        yield Fault("--embeddings", f"is {model.embeddings} with --scorer interaction", "1", fix)
    if model.embeddings == 1:
        for flag, weight in (
            ("--weight-heads", config.objective.weight_heads),
            ("--weight-mmd", config.objective.weight_mmd),
        ):
            if weight > 0:
                fix = "give --embeddings 3 as well, or leave it out"
                yield Fault(flag, f"is {weight:g} with --embeddings 1", "several embeddings of a sample", fix)
    if not model.by_pair:
        return
    scorer = "--scorer interaction" if model.scorer == "interaction" else f"--embeddings {model.embeddings}"
    memory = config.memory
    for flag, value in (
        ("--bank-size", memory.bank_size),
        ("--prototypes", memory.prototypes),
        ("--concepts", model.concepts),
    ):
        if value > 0:
            fix = f"give {flag} 0, or leave {scorer} out"
            yield Fault(flag, f"is {value} with {scorer}", "0: it compares single embeddings", fix)


def _boosting(config: Config) -> Iterator[Fault]:
    b, loss = config.boosting, config.objective.loss
    scenario = f"with --boosting-scenario {b.boosting_scenario}"
    offline, online = b.boosting_scenario == "offline", b.boosting_scenario == "online"
    if online and b.boosting_start_epoch > 0:
        fix = "leave it out: branches that train together are encoded from the first step"
        yield Fault("--boosting-start-epoch", f"is {b.boosting_start_epoch:g} {scenario}", "0", fix)
    if not online and b.boosting_branches != settings()["boosting_branches"].default:
        fix = "give --boosting-scenario online as well, or leave it out"
        yield Fault(
            "--boosting-branches", f"is {b.boosting_branches} {scenario}", "branches that train together", fix
        )
    if b.boosting == "none" and (offline or online or b.boosting_teacher):
        flag, value = ("teacher", "given") if b.boosting_teacher else ("scenario", b.boosting_scenario)
        fix = "give --boosting rm or am as well, or leave it out"
        yield Fault(f"--boosting-{flag}", f"is {value} with --boosting none", "a form of boosting", fix)
    elif offline != bool(b.boosting_teacher):
        expected = "the folder of a finished run" if offline else "empty: the teacher follows the model"
        fix = "" if offline else "for a finished run as teacher give --boosting-scenario offline as well"
        yield Fault("--boosting-teacher", f"is {b.boosting_teacher!r} {scenario}", expected, fix)
    if b.boosting != "none" and loss not in SUMMED and b.boosting_weight >= 1:
        averaged = f"with loss {loss}, which is averaged over the batch; boosting is summed over it"
        fix = f"begin near 1 / batch size ({1 / max(config.training.batch_size, 1):.2g}) and measure"
        yield Fault(
            "--boosting-weight", f"is {b.boosting_weight:g} {averaged}", "a smaller weight", fix, "warning"
        )


def _weighting(w: WeightingConfig, epochs: int) -> Iterator[Fault]:
    second = w.neighbours_of_neighbours
    if 0 < second < w.neighbours:
        expected = f"0 (all of them) or at least --neighbours, {w.neighbours}"
        fix = "one is drawn of every neighbour at least"
        yield Fault("--neighbours-of-neighbours", f"is {second}", expected, fix)
    if w.text_space and not w.reads_neighbours:
        fix = "give --sample-weights diversity, discrepancy or combined as well, or leave it out"
        yield Fault("--text-space", "is given, but nothing reads neighbours", "weights that do", fix)
    if w.sample_weights == "combined" and w.diversity_share == w.discrepancy_share == 0:
        yield Fault("--diversity-share", "is 0, and so is --discrepancy-share", "one of them above 0")
    if w.sample_weights != "none" and 0 < w.weight_scale < 1:
        fix = "the weights hardly differ, and shrink npairs-hinge"
        yield Fault(
            "--weight-scale", f"is {w.weight_scale:g}: λ below the batch size", "1 or more", fix, "warning"
        )
    if w.sample_weights in OF_NEIGHBOURHOODS and epochs == 1:
        fix = "the first epoch only collects embeddings; its weights are all alike"
        yield Fault("--epochs", f"is 1 with --sample-weights {w.sample_weights}", "2 or more", fix, "warning")
