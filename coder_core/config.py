"""Every value of a run, as frozen dataclasses. The docstring under a value is its help text and names its source.

`to_document` / `from_document` turn a configuration into plain tables (config.toml) and back; an unknown key is an
error. `problems` lists impossible values before anything is written.
"""

from __future__ import annotations

import math
import re
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Literal, get_args, get_origin, get_type_hints

from coder_core.faults import Fault, InputError

Loss = Literal["btr-sum", "btr-hardest", "infonce", "dcl-i", "dcl"]
Diversity = Literal["std", "entropy"]
Boosting = Literal["none", "rs", "rm", "as", "am"]
Pooling = Literal["gpo", "mean", "max"]
LARGEST_SEED = 2**31
RUN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


@dataclass(frozen=True)
class DataConfig:
    """Where images and captions come from, and what is left out at random while training."""

    data: str = ""
    """Folder with {split}_ims.npy and {split}_caps.txt, or a Karpathy dataset_*.json; "demo" is the built-in set."""
    pictures: str = ""
    """Folder with the picture files, so that the app can show them. Optional."""
    word_threshold: int = 4
    """A word enters the vocabulary when train captions hold it at least this often (vsepp, vse_infty: 4)."""
    word_vectors: str = "random"
    """Start: "random", "learned" (PPMI and truncated SVD of the train captions), or the path of a GloVe text file."""
    drop_regions: float = 0.2
    """Share of an image's regions left out, on average, in every training batch (vse_infty: 0.2)."""
    drop_words: float = 0.2
    """Share of a caption's words left out while training; at least one stays (vse_infty: 0.2)."""


@dataclass(frozen=True)
class ModelConfig:
    """Two encoders into one space (CODER section 3.2.1)."""

    text_encoder: Literal["bigru", "bert"] = "bigru"
    """BiGRU over words, or BERT through transformers."""
    bert: str = "bert-base-uncased"
    """Name or folder of the BERT model (used with text-encoder bert)."""
    dimension: int = 1024
    """D, size of the joint space (CODER section 4.1: 1024)."""
    word_size: int = 300
    """Size of a word vector (vse_infty: 300). A GloVe file must have this width."""
    image_pooling: Pooling = "gpo"
    """How regions become one vector. GPO: Chen et al. 2021; CODER supplement eq. 9-11."""
    text_pooling: Pooling = "gpo"
    """How words become one vector."""
    image_layers: int = 2
    """Layers of the region MLP beside the linear layer; 0 leaves the linear layer alone (vse_infty: 2)."""
    text_layers: int = 1
    """Layers of the BiGRU (vse_infty: 1)."""
    image_dropout: float = 0.0
    """Dropout on the region features."""
    word_dropout: float = 0.0
    """Dropout on the components of the word vectors."""
    embedding_dropout: float = 0.0
    """Dropout on regions and words just before they are pooled."""
    freeze_bert: bool = False
    """Leave BERT's own weights as they are and train what stands on them."""
    concepts: int = 0
    """g, concepts of the concept branch, objects 7 : properties 2 : motions 1 (CODER: 400); 0 has no such branch."""
    concept_list: str = ""
    """JSON file {"objects": […], "properties": […], "motions": […]} with the concepts; empty takes them from the train
    captions."""
    concept_tagger: Literal["textblob", "spacy", "nltk"] = "textblob"
    """Tells nouns, adjectives and verbs in the captions. textblob works offline; the others when you installed them."""
    gcn_layers: int = 1
    """Graph convolutions over the concepts (CODER: 1, CVSE: 2)."""
    concept_smoothing: float = 10.0
    """λ of the concept attention; larger is sharper (CODER supplement eq. 14: 10)."""
    concept_query: Literal["pooled", "unit"] = "pooled"
    """What reads the concepts: the pooled vector before it is normalised (CODER supplement A.2), or the same at length
    1, so that an image and a caption start equally sharp whatever the scale of their features."""
    concept_threshold: float = 0.3
    """ε: concepts are connected from this co-occurrence on (CVSE: 0.3 after rescaling, a raw probability of 0.168)."""
    concept_rescale: bool = True
    """Rescale the co-occurrence probability to 5^(P - 0.02) - 5^(-0.02) before the threshold, as CVSE does."""
    beta: float = 0.9
    """Share of the instance branch in a score; the rest is the concept branch's (CODER section 4.1: 0.9)."""


@dataclass(frozen=True)
class ObjectiveConfig:
    """The loss of the instance branch (CODER eq. 3-6 and 8)."""

    loss: Loss = "dcl"
    """btr-sum, btr-hardest (bidirectional triplet), infonce, dcl-i (CODER's loss without diversity), dcl (eq. 4)."""
    margin: float = 0.2
    """Margin of the triplet losses (vsepp: 0.2)."""
    warmup_epochs: float = 1.0
    """Epochs in which btr-hardest sums over all negatives before it takes the hardest (vse_infty: 1)."""
    temperature: float = 0.1
    """μ of eq. 4 (CODER: 0.1), and the temperature of infonce."""
    gamma: float = 0.3
    """γ of eq. 4: negatives above it are pushed harder (CODER: 0.3)."""
    positive_scale: Literal["one", "temperature"] = "one"
    """Scale of the positive term: "one" as HAL and USER do, "temperature" (μ) as eq. 4 is printed."""
    positive_clamp: Literal["clamp", "relu"] = "clamp"
    """Positive term: "clamp" is log1p(max(S, -1+1e-4)), "relu" is HAL's log(1 + relu(S)), flat below zero."""
    diversity: Diversity = "std"
    """How dcl measures diversity: "std" (eq. 3) or "entropy" (supplement eq. 16)."""
    epsilon: float = 0.1
    """ε of eq. 3 (CODER: 0.1)."""
    entropy_temperature: float = 1.0
    """τ of the softmax inside entropy diversity; 1 is the printed form, in which entropy varies in its 4th digit."""
    diversity_gradient: bool = False
    """Let gradients run through the diversity (the papers leave it open; default: no)."""
    diversity_from_bank: bool = True
    """Average batch-level and bank-level diversity when a bank is kept (CODER section 3.3, table 3 row 3)."""
    same_image_negatives: bool = False
    """Count other captions of the anchor's image as negatives (literal reading; default: masked)."""
    weight_instance: float = 3.0
    """Weight of the in-batch loss (λ of eq. 8: 3). Triplet losses are summed over the batch, the others averaged."""
    weight_memory: float = 1.0
    """Weight of the bank loss M-DCL (eq. 6, 8: 1). Needs a bank."""
    weight_concept: float = 1.0
    """Weight of the concept branch's DCL, both directions together (eq. 8: 1; the supplement counts it twice: 2)."""
    weight_prototypes: float = 1.0
    """Weight of the prototype-guided classification, both modalities together (eq. 7, 8: 1). Needs prototypes."""
    prototype_temperature: float = 1.0
    """Divides the classification's logits (eq. 7: 1); below 1 the classifier sharpens sooner in a short run."""
    boosting: Boosting = "none"
    """Deep Boosting Learning on top of the loss: relative (rs, rm) or absolute (as, am) margins over an anchor branch,
    summed over negatives or at the hardest (DBL eq. 7-10; the paper recommends rm and am)."""
    boosting_weight: float = 1.0
    """Weight of the boosting loss, which is summed over the batch (DBL: 1, beside the summed triplet loss)."""
    boosting_margin: float = 0.2
    """γ, by how much the target should surpass the anchor (DBL: 0.2)."""
    boosting_split: float = 0.5
    """α of as and am: the positive's share of γ, the negative's is the rest (DBL: 0.5)."""
    boosting_soft: bool = False
    """Shrink γ where the anchor's score leaves less room (DBL eq. 14-20; the paper recommends the fixed one)."""
    boosting_scenario: Literal["offline", "momentum"] = "momentum"
    """Who is the anchor: a finished run (offline), or a moving average of the model itself (momentum)."""
    boosting_momentum: float = 0.99995
    """Share of the moving average that stays at the first step; rises to 1 on a cosine (DBL: 0.99995, which on a short
    run leaves the anchor near its random start)."""
    boosting_anchor: str = ""
    """Folder of the finished run that is the offline anchor."""
    boosting_start: Literal["anchor", "scratch"] = "anchor"
    """Offline: training starts from the anchor's weights, as DBL's program does, or from scratch, as its text says."""


@dataclass(frozen=True)
class MemoryConfig:
    """Momentum encoders and the two coupled banks (CODER section 3.3, MoCo)."""

    bank_size: int = 0
    """Keys kept per modality; 0 keeps no bank (CODER: 4096 on Flickr30K)."""
    momentum: float = 0.995
    """Share of the old key encoder that stays at every step (CODER: 0.995)."""
    bank_start_epoch: float = 0.0
    """Epochs before the bank loss counts; keys are collected from the start."""
    prototypes: int = 0
    """K, prototypes that image-caption pairs are clustered into and classified by; 0 has none (CODER: 10000 for the
    145,000 pairs of Flickr30K, 20000 on MS-COCO). The concept branch is classified, or the instance branch without."""
    prototype_recluster: int = 0
    """Cluster all pairs at once every this many epochs, keeping the prototypes' numbers; 0 never does."""


@dataclass(frozen=True)
class TrainingConfig:
    """The loop: how long, how fast, on what."""

    epochs: int = 30
    """Passes over the captions (CODER: 30)."""
    batch_size: int = 128
    """Image-caption pairs in a batch, over all processes (CODER: 128)."""
    learning_rate: float = 2e-4
    """Largest learning rate of AdamW (CODER: 2e-4)."""
    bert_rate: float = 0.1
    """BERT's learning rate as a share of the others' (vse_infty: 0.1)."""
    weight_decay: float = 1e-4
    """AdamW's weight decay (vse_infty: 1e-4)."""
    schedule: Literal["step", "cosine", "constant"] = "step"
    """Step: a tenth after decay-at of the steps (CODER: after 15 of 30 epochs). Cosine: falls to zero."""
    decay_at: float = 0.5
    """Share of all steps after which the step schedule divides the rate by ten."""
    warmup_steps: int = 0
    """Steps over which the learning rate rises from zero."""
    clip_norm: float = 2.0
    """Largest norm of the gradient (vse_infty: 2)."""
    seed: int = 0
    """Everything random follows from it."""
    evaluate_every: int = 1
    """Epochs between two evaluations on dev."""
    patience: int = 0
    """Stop after this many evaluations without a better R@sum; 0 never stops early."""
    save_every: float = 120.0
    """Seconds between two saves of the training state; every epoch's end saves too."""
    precision: Literal["auto", "float32", "bfloat16"] = "auto"
    """Auto: bfloat16 autocast on a GPU, float32 on a CPU (where bfloat16 is slower). Losses are always float32."""
    device: str = "auto"
    """One of "auto", "cpu", "cuda", "cuda:1" …"""
    threads: int = 0
    """CPU threads; 0 takes all cores. Another number changes the last bits of a run."""
    compile: bool = False
    """Compile the model with torch.compile (a GPU is needed to gain from it)."""
    gradient_checkpointing: bool = False
    """Recompute BERT's activations in the backward pass to save memory."""


@dataclass(frozen=True)
class Config:
    """A whole run."""

    name: str = ""
    """Name of the run's folder; empty takes the preset's name."""
    data: DataConfig = field(default_factory=DataConfig)
    model: ModelConfig = field(default_factory=ModelConfig)
    objective: ObjectiveConfig = field(default_factory=ObjectiveConfig)
    memory: MemoryConfig = field(default_factory=MemoryConfig)
    training: TrainingConfig = field(default_factory=TrainingConfig)


def to_document(config: Config) -> dict[str, Any]:
    """Plain nested tables, ready for TOML."""
    return asdict(config)


def _checked(value: Any, kind: Any, place: str) -> Any:
    if get_origin(kind) is Literal:
        if value not in get_args(kind):
            raise InputError(Fault(place, f"is {value!r}", "one of " + ", ".join(map(repr, get_args(kind)))))
        return value
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if not isinstance(value, kind) or (kind is not bool and isinstance(value, bool)):
        raise InputError(Fault(place, f"is {value!r}", f"a value of type {kind.__name__}"))
    return value


def _section(cls: type, table: dict[str, Any], place: str) -> Any:
    kinds = get_type_hints(cls)
    known = {f.name for f in fields(cls)}
    unknown = sorted(set(table) - known)
    if unknown:
        keys = ", ".join(sorted(known))
        raise InputError([Fault(f"{place} key {key}", "is not known", f"one of {keys}") for key in unknown])
    return cls(**{key: _checked(value, kinds[key], f"{place} key {key}") for key, value in table.items()})


def from_document(document: dict[str, Any], place: str = "config.toml") -> Config:
    """Read `to_document`'s tables back.

    Raises:
        InputError: an unknown key, or a value of the wrong type; all unknown keys of a table are named.
    """
    kinds = get_type_hints(Config)
    unknown = sorted(set(document) - set(kinds))
    if unknown:
        raise InputError([Fault(f"{place} key {key}", "is not known", f"one of {', '.join(kinds)}") for key in unknown])
    values: dict[str, Any] = {}
    for key, value in document.items():
        if key == "name":
            values[key] = _checked(value, str, f"{place} key name")
        else:
            values[key] = _section(kinds[key], _checked(value, dict, f"{place} [{key}]"), f"{place} [{key}]")
    return Config(**values)


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


def _prototype_problems(memory: MemoryConfig) -> list[Fault]:
    found: list[Fault] = []
    if memory.prototypes == 1:
        found.append(Fault("--prototypes", "is 1", "0 (none) or 2 and more", "one class says nothing"))
    if memory.prototype_recluster and memory.prototypes == 0:
        fix = "give --prototypes as well, or leave it out"
        found.append(Fault("--prototype-recluster", "is given with --prototypes 0", "prototypes to cluster", fix))
    return found


def _boosting_problems(config: Config) -> list[Fault]:
    o = config.objective
    found: list[Fault] = []
    for place, value in [("boosting-weight", o.boosting_weight), ("boosting-margin", o.boosting_margin)]:
        found += _outside(place, value, value >= 0, "0 or more")
    for place, value in [("boosting-split", o.boosting_split), ("boosting-momentum", o.boosting_momentum)]:
        found += _outside(place, value, 0 <= value <= 1, "a value from 0 to 1")
    offline = o.boosting_scenario == "offline"
    if o.boosting == "none" and (offline or o.boosting_anchor):
        place, about = ("anchor", "given") if o.boosting_anchor else ("scenario", "offline")
        fix = "give --boosting rm or am as well, or leave it out"
        found.append(Fault(f"--boosting-{place}", f"is {about} with --boosting none", "a form of boosting", fix))
    elif offline != bool(o.boosting_anchor):
        expected = "the folder of a finished run" if offline else "empty: the anchor follows the model"
        about = f"is {o.boosting_anchor!r} with --boosting-scenario {o.boosting_scenario}"
        fix = "" if offline else "for a finished run as anchor give --boosting-scenario offline as well"
        found.append(Fault("--boosting-anchor", about, expected, fix))
    if o.boosting != "none" and o.loss not in ("btr-sum", "btr-hardest") and o.boosting_weight >= 1:
        about = (
            f"is {o.boosting_weight:g} with loss {o.loss}, which is averaged over the batch; boosting is summed over it"
        )
        fix = f"begin near 1 / batch size ({1 / max(config.training.batch_size, 1):.2g}) and measure"
        found.append(Fault("--boosting-weight", about, "a smaller weight", fix, severity="warning"))
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
        ("margin", o.margin), ("warmup-epochs", o.warmup_epochs), ("weight-instance", o.weight_instance),
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
    found += _prototype_problems(b)
    found += _boosting_problems(config)
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
