"""Impossible and doubtful values of a configuration, each named by its flag before anything is written."""

from __future__ import annotations

import math

from coder_core.config.boosting import BoostingConfig
from coder_core.config.schema import LARGEST_SEED, RUN_NAME, Config, MemoryConfig, ModelConfig, to_document
from coder_core.config.weighting import OF_NEIGHBOURHOODS
from coder_core.console.faults import Fault


def _outside(place: str, value: float, fits: bool, expected: str, fix: str = "") -> list[Fault]:
    return [] if fits else [Fault(f"--{place}", f"is {value:g}", expected, fix)]


def _not_finite(config: Config) -> list[Fault]:
    """Inf, where it means nothing (NaN lies outside every range). A clip norm and a save interval may be infinite."""
    return [
        Fault(f"--{key.replace('_', '-')}", f"is {value}", "a finite number")
        for table in to_document(config).values()
        if isinstance(table, dict)
        for key, value in table.items()
        if isinstance(value, float) and math.isinf(value) and key not in ("clip_norm", "save_every")
    ]


def _concept_problems(model: ModelConfig) -> list[Fault]:
    found = _outside("beta", model.beta, 0 <= model.beta <= 1, "a share from 0 to 1")
    found += _outside("gcn-layers", model.gcn_layers, model.gcn_layers in (1, 2), "1 (CODER) or 2 (CVSE)")
    found += _outside("concept-smoothing", model.concept_smoothing, model.concept_smoothing > 0, "a value above 0")
    found += _outside(
        "concept-threshold", model.concept_threshold, model.concept_threshold > 0, "a value above 0",
        "At 0 every concept is connected with every other",
    )  # fmt: skip
    if model.concepts == 1:
        found.append(Fault("--concepts", "is 1", "0 (no concept branch) or 2 and more", "one concept says nothing"))
    if model.concept_list and model.concepts == 0:
        fix = "give --concepts as well, or leave the list out"
        found.append(Fault("--concept-list", "is given with --concepts 0", "concepts to read", fix))
    return found


def _scorer_problems(config: Config) -> list[Fault]:
    model = config.model
    found = _outside("embeddings", model.embeddings, model.embeddings >= 1, "1 or more")
    found += _outside("interaction-size", model.interaction_size, model.interaction_size >= 1, "1 or more")
    sharpness = model.interaction_sharpness
    found += _outside("interaction-sharpness", sharpness, sharpness > 0, "a value above 0")
    if model.scorer == "interaction" and model.embeddings > 1:
        fix = "leave one of the two out"
        found.append(Fault("--embeddings", f"is {model.embeddings} with --scorer interaction", "1", fix))
    if not model.by_pair:
        return found
    flag = "--scorer interaction" if model.scorer == "interaction" else f"--embeddings {model.embeddings}"
    needing = {
        "bank-size": config.memory.bank_size, "prototypes": config.memory.prototypes, "concepts": model.concepts,
    }  # fmt: skip
    for place, value in needing.items():
        if value > 0:
            fix = f"give --{place} 0, or leave {flag} out"
            found.append(Fault(f"--{place}", f"is {value} with {flag}", "0: it compares single embeddings", fix))
    return found


def _prototype_problems(memory: MemoryConfig) -> list[Fault]:
    found: list[Fault] = []
    if memory.prototypes == 1:
        found.append(Fault("--prototypes", "is 1", "0 (none) or 2 and more", "one class says nothing"))
    if memory.prototype_recluster and memory.prototypes == 0:
        fix = "give --prototypes as well, or leave it out"
        found.append(Fault("--prototype-recluster", "is given with --prototypes 0", "prototypes to cluster", fix))
    return found


def _boosting_problems(config: Config) -> list[Fault]:
    b, loss = config.boosting, config.objective.loss
    found: list[Fault] = []
    for place, value in [
        ("boosting-weight", b.boosting_weight), ("boosting-margin", b.boosting_margin),
        ("boosting-start-epoch", b.boosting_start_epoch),
    ]:  # fmt: skip
        found += _outside(place, value, value >= 0, "0 or more")
    for place, value in [("boosting-split", b.boosting_split), ("boosting-momentum", b.boosting_momentum)]:
        found += _outside(place, value, 0 <= value <= 1, "a value from 0 to 1")
    for place, value in [
        ("boosting-temperature", b.boosting_temperature),
        ("boosting-anchor-temperature", b.boosting_anchor_temperature),
    ]:
        found += _outside(place, value, value > 0, "a value above 0")
    offline, online = b.boosting_scenario == "offline", b.boosting_scenario == "online"
    if online:
        found += _outside("boosting-branches", b.boosting_branches, b.boosting_branches >= 2, "2 or more")
        if b.boosting_start_epoch > 0:
            about = f"is {b.boosting_start_epoch:g} with --boosting-scenario online"
            fix = "leave it out: branches that train together are encoded from the first step"
            found.append(Fault("--boosting-start-epoch", about, "0", fix))
    elif b.boosting_branches != BoostingConfig().boosting_branches:
        fix = "give --boosting-scenario online as well, or leave it out"
        about = f"is {b.boosting_branches} with --boosting-scenario {b.boosting_scenario}"
        found.append(Fault("--boosting-branches", about, "branches that train together", fix))
    if b.boosting == "none" and (offline or online or b.boosting_anchor):
        place, about = ("anchor", "given") if b.boosting_anchor else ("scenario", b.boosting_scenario)
        fix = "give --boosting rm or am as well, or leave it out"
        found.append(Fault(f"--boosting-{place}", f"is {about} with --boosting none", "a form of boosting", fix))
    elif offline != bool(b.boosting_anchor):
        expected = "the folder of a finished run" if offline else "empty: the anchor follows the model"
        about = f"is {b.boosting_anchor!r} with --boosting-scenario {b.boosting_scenario}"
        fix = "" if offline else "for a finished run as anchor give --boosting-scenario offline as well"
        found.append(Fault("--boosting-anchor", about, expected, fix))
    if b.boosting != "none" and loss not in ("btr-sum", "btr-hardest") and b.boosting_weight >= 1:
        about = (
            f"is {b.boosting_weight:g} with loss {loss}, which is averaged over the batch; boosting is summed over it"
        )
        fix = f"begin near 1 / batch size ({1 / max(config.training.batch_size, 1):.2g}) and measure"
        found.append(Fault("--boosting-weight", about, "a smaller weight", fix, severity="warning"))
    return found


def _weighting_problems(config: Config) -> list[Fault]:
    w, t = config.weighting, config.training
    found: list[Fault] = []
    for place, value in [
        ("diversity-share", w.diversity_share),
        ("discrepancy-share", w.discrepancy_share), ("within-image", w.within_image), ("within-text", w.within_text),
    ]:  # fmt: skip
        found += _outside(place, value, value >= 0, "0 or more")
    found += _outside("weight-scale", w.weight_scale, w.weight_scale > 0, "a value above 0")
    found += _outside("weight-direction", w.weight_direction, w.weight_direction in (-1, 0, 1), "-1, 0 or 1")
    found += _outside("neighbours", w.neighbours, w.neighbours >= 1, "1 or more")
    found += _outside("text-space-size", w.text_space_size, w.text_space_size >= 2, "2 or more")
    again = w.neighbours_of_neighbours
    found += _outside(
        "neighbours-of-neighbours", again, again == 0 or again >= w.neighbours,
        f"0 (all of them) or at least --neighbours, {w.neighbours}", "one is drawn of every neighbour at least",
    )  # fmt: skip
    if w.text_space and not w.reads_neighbours:
        fix = "give --sample-weights diversity, discrepancy or combined as well, or leave it out"
        found.append(Fault("--text-space", "is given, but nothing reads neighbours", "weights that do", fix))
    if w.sample_weights == "combined" and w.diversity_share == w.discrepancy_share == 0:
        found.append(Fault("--diversity-share", "is 0, and so is --discrepancy-share", "one of them above 0"))
    if w.sample_weights != "none" and 0 < w.weight_scale < 1:
        about, fix = (
            f"is {w.weight_scale:g}: λ below the batch size",
            "the weights hardly differ, and shrink npairs-hinge",
        )
        found.append(Fault("--weight-scale", about, "1 or more", fix, severity="warning"))
    if w.sample_weights in OF_NEIGHBOURHOODS and t.epochs == 1:
        found.append(Fault(
            "--epochs", f"is 1 with --sample-weights {w.sample_weights}", "2 or more",
            "the first epoch only collects embeddings; its weights are all alike", severity="warning",
        ))  # fmt: skip
    return found


def problems(config: Config) -> list[Fault]:
    """Impossible values (errors) and doubtful ones (warnings), each naming its flag."""
    o, m, t, d, b = config.objective, config.model, config.training, config.data, config.memory
    found: list[Fault] = []
    for place, value in [
        ("temperature", o.temperature), ("prototype-temperature", o.prototype_temperature), ("epsilon", o.epsilon),
        ("entropy-temperature", o.entropy_temperature),
        ("learning-rate", t.learning_rate), ("clip-norm", t.clip_norm),
    ]:  # fmt: skip
        found += _outside(place, value, value > 0, "a value above 0")
    for place, value in [
        ("margin", o.margin), ("npairs-margin", o.npairs_margin),
        ("warmup-epochs", o.warmup_epochs), ("weight-instance", o.weight_instance),
        ("weight-memory", o.weight_memory), ("weight-concept", o.weight_concept), ("weight-decay", t.weight_decay),
        ("weight-prototypes", o.weight_prototypes), ("prototypes", b.prototypes),
        ("prototype-recluster", b.prototype_recluster),
        ("bank-start-epoch", b.bank_start_epoch), ("concepts", m.concepts), ("warmup-steps", t.warmup_steps),
        ("patience", t.patience), ("bank-size", b.bank_size),
        ("image-layers", m.image_layers), ("threads", t.threads), ("bert-rate", t.bert_rate),
    ]:  # fmt: skip
        found += _outside(place, value, value >= 0, "0 or more")
    for place, value in [
        ("word-size", m.word_size), ("text-layers", m.text_layers), ("epochs", t.epochs),
        ("word-threshold", d.word_threshold), ("evaluate-every", t.evaluate_every),
    ]:  # fmt: skip
        found += _outside(place, value, value >= 1, "1 or more")
    found += _not_finite(config)
    if config.name and not RUN_NAME.fullmatch(config.name):
        expected = "letters, digits, '.', '_' and '-', a letter or digit first"
        found.append(Fault("--name", f"is {config.name!r}", expected, "it becomes the name of a folder"))
    found += _outside("momentum", b.momentum, 0 <= b.momentum <= 1, "a value from 0 to 1")
    found += _outside("dimension", m.dimension, m.dimension >= 2, "2 or more")
    found += _outside("decay-at", t.decay_at, 0 < t.decay_at <= 1, "a share above 0 and at most 1")
    found += _outside("drop-regions", d.drop_regions, 0 <= d.drop_regions <= 0.5, "a share from 0 to 0.5")
    for place, value in [
        ("drop-words", d.drop_words), ("image-dropout", m.image_dropout), ("word-dropout", m.word_dropout),
        ("embedding-dropout", m.embedding_dropout),
    ]:  # fmt: skip
        found += _outside(place, value, 0 <= value < 1, "a share from 0 to below 1")
    found += _outside("save-every", t.save_every, t.save_every > 0, "a number of seconds above 0")
    found += _outside("seed", t.seed, 0 <= t.seed < LARGEST_SEED, f"a whole number from 0 to {LARGEST_SEED - 1}")
    found += _outside(
        "batch-size", t.batch_size, t.batch_size >= 2, "2 or more", "A contrastive loss needs negatives in the batch"
    )
    if o.loss != "infonce":
        found += _outside("gamma", o.gamma, -1 <= o.gamma <= 1, "a cosine, from -1 to 1")
    if 0 < b.bank_size < t.batch_size:
        found.append(
            Fault(
                "--bank-size",
                f"is {b.bank_size}, smaller than the batch of {t.batch_size}",
                "0 (no bank) or at least --batch-size",
                "a bank must hold at least one whole batch of keys",
            )
        )
    found += _concept_problems(m)
    found += _scorer_problems(config)
    found += _prototype_problems(b)
    found += _boosting_problems(config)
    found += _weighting_problems(config)
    others = (o.weight_memory > 0 and b.bank_size > 0) or (o.weight_concept > 0 and m.concepts > 0)
    if o.loss in ("dcl", "dcl-i") and o.weight_instance == 0 and not others:
        found.append(Fault("--weight-instance", "is 0 and no bank loss is on", "at least one loss with a weight"))
    if b.bank_size > 0 and o.loss not in ("dcl", "dcl-i"):
        found.append(Fault("--bank-size", f"is {b.bank_size} with loss {o.loss}", "0: only dcl and dcl-i read a bank"))
    if b.bank_size > 0 and b.momentum == 1:
        found.append(
            Fault("--momentum", "is 1", "below 1", "the key encoder would keep its random start", severity="warning")
        )
    return found
