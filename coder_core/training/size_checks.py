"""Check sizes and schedules against the data and the length of the run: prototypes, bank, warm-up, towers."""

import math

from coder_core.config.schema import Config, replaced
from coder_core.console.faults import Fault
from coder_core.data.words import Tokens
from coder_core.model.run_towers import RunTowers
from coder_core.objectives.memory import BATCH_NORMS, share_of_start, start_that_leaves
from coder_core.objectives.table import LOSSES

PAIRS_A_PROTOTYPE = 15  # as in the paper: 145,000 pairs of Flickr30K, 10,000 prototypes
MOST_OF_START = 0.05  # share of random initial weights tolerated in a momentum teacher without a warning
LONGEST_WARMUP = 1 / 8  # share of a run; Flickr8k's presets warm up for 200 of 1,872 steps
FITTING_WARMUP = 1 / 10


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


def check_sizes(config: Config, pairs: int, steps_per_epoch: int) -> list[Fault]:
    """Check the sizes of bank and prototypes, and the teacher's momentum, for a run on `pairs` training captions."""
    faults = []
    if config.memory.bank_size > pairs:
        message = f"is {config.memory.bank_size:,}, more than the {pairs:,} training captions"
        fix = "lower it, because the bank would contain stale duplicates"
        faults.append(Fault("--bank-size", message, fix=fix, severity="warning"))
    if config.memory.prototypes:
        pass_pairs = steps_per_epoch * config.training.batch_size
        faults += check_prototypes(config.memory.prototypes, pairs, pass_pairs)
    return faults + check_teacher_momentum(config, config.training.steps(steps_per_epoch))


def check_towers(towers: RunTowers | None, tokens: Tokens, processes: int) -> list[Fault]:
    """Return an error if batch norm would train in several processes, a note if a tower may truncate train captions."""
    if towers is None:
        return []
    faults = []
    tuning = towers.config
    sides = (("image", towers.image, tuning.image_tuning), ("text", towers.text, tuning.text_tuning))
    for side, half, how in sides:
        normalised = half is not None and any(isinstance(part, BATCH_NORMS) for part in half.module.modules())
        if normalised and how == "full" and processes > 1:
            problem = f"has batch normalisation, but each of {processes} processes sees only part of a batch"
            fix = "train in one process or by lora, or give the tower group or layer normalisation"
            expected = "results that do not depend on the number of processes"
            faults.append(Fault(f"--{side}-tower", problem, expected, fix))
    longest = towers.text.about.get("longest", 0) if towers.text is not None else 0
    full = int((tokens.lengths >= longest).sum()) if longest else 0
    if full:
        problem = f"{full:,} captions fill the {longest} tokens of the text tower; longer captions are cut"
        faults.append(Fault("train captions", problem, severity="note"))
    return faults


def check_prototypes(count: int, pairs: int, pass_pairs: int) -> list[Fault]:
    """Return an error if a pass has too few pairs to seed the prototypes, a warning for fewer than two pairs each."""
    fits = max(2, pairs // PAIRS_A_PROTOTYPE)
    fix = f"--prototypes {fits:,} fits this data (the paper has one for about {PAIRS_A_PROTOTYPE} pairs)"
    message = f"is {count:,}, but an epoch has {pass_pairs:,} image-caption pairs"
    if count > pass_pairs:
        return [Fault("--prototypes", message, f"at most {pass_pairs:,}", fix)]
    if count > pairs // 2:
        return [Fault("--prototypes", message, "several pairs per prototype", fix, severity="warning")]
    return []


def check_teacher_momentum(config: Config, steps: int) -> list[Fault]:
    """Return a warning if more than 5% of its random initial weights would remain in a momentum teacher at the end."""
    boosting = config.boosting
    if boosting.boosting == "none" or boosting.boosting_scenario != "momentum":
        return []
    left = share_of_start(steps, boosting.boosting_momentum)
    if left <= MOST_OF_START:
        return []
    fitting = math.floor(start_that_leaves(MOST_OF_START, steps) * 1e5) / 1e5
    message = f"is {boosting.boosting_momentum:g}: after {steps:,} steps the teacher is {left:.0%} random"
    expected = f"at most {fitting:.5g} for {MOST_OF_START:.0%}"
    fix = "lower it, because an untrained teacher gives meaningless margins"
    return [Fault("--boosting-momentum", message, expected, fix, severity="warning")]
