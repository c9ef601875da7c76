"""Every value of a run, as frozen dataclasses. The docstring under a value is its help text and names its source.

`to_document` / `from_document` turn a configuration into plain tables (config.toml) and back; an unknown key is an
error. Impossible values: `config_problems`.
"""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Literal, get_args, get_origin, get_type_hints

from coder_core.config.boosting import BoostingConfig
from coder_core.config.weighting import WeightingConfig
from coder_core.console.faults import Fault, InputError

Loss = Literal["btr-sum", "btr-hardest", "npairs-hinge", "infonce", "cmpm", "polynomial", "dcl-i", "dcl"]
Diversity = Literal["std", "entropy"]
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
    scorer: Literal["cosine", "interaction"] = "cosine"
    """How a pair is scored: the cosine of its two embeddings, or DBL's single-branch interaction model, in which every
    word attends to the regions and nothing is pooled (Diao et al. 2024, section III-A)."""
    embeddings: int = 1
    """K, embeddings of every sample by self-attention over its local features; a pair scores the best of its K² cosines
    (PVSE, Song & Soleymani 2019; 1 is the plain model)."""
    interaction_size: int = 256
    """Size of an alignment vector of the interaction scorer (DBL section IV-A: 256)."""
    interaction_sharpness: float = 9.0
    """λ of the interaction scorer's attention; larger is sharper (DBL section IV-A: 9)."""
    image_layers: int = 2
    """Layers of the region MLP beside the linear layer; 0 leaves the linear layer alone (vse_infty: 2)."""
    region_norm: Literal["none", "rms"] = "none"
    """Region features as the file has them, or every region divided by its root mean square, for features whose lengths
    differ much and say little."""
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

    @property
    def by_pair(self) -> bool:
        """A score is not the inner product of one vector each: splits are scored pair by pair."""
        return self.scorer != "cosine" or self.embeddings > 1


@dataclass(frozen=True)
class ObjectiveConfig:
    """The loss of the instance branch (CODER eq. 3-6 and 8)."""

    loss: Loss = "dcl"
    """btr-sum, btr-hardest (bidirectional triplet), npairs-hinge (all negatives, averaged),
    infonce, cmpm (projection matching, Zhang and Lu 2018), polynomial (universal weighting, Wei et al. 2020),
    dcl-i (CODER's loss without diversity), dcl (eq. 4)."""
    margin: float = 0.2
    """Margin of the triplet losses (vsepp: 0.2), and how near a negative of polynomial must come to count."""
    npairs_margin: float = 0.1
    """Margin of npairs-hinge (Thomas and Kovashka 2022: 0.1)."""
    warmup_epochs: float = 1.0
    """Epochs in which btr-hardest sums over all negatives before it takes the hardest (vse_infty: 1)."""
    temperature: float = 0.1
    """μ of eq. 4 (CODER: 0.1), and the temperature of infonce and cmpm."""
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
    """Auto: bfloat16 autocast on a GPU, float32 on a CPU. Losses are always float32."""
    twin_precision: Literal["auto", "float32", "bfloat16"] = "auto"
    """Of the passes without gradients: the momentum twin's, and a boosting anchor's. Auto: as precision; with that left
    to auto, bfloat16 on AMD processors that multiply it too."""
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
    boosting: BoostingConfig = field(default_factory=BoostingConfig)
    weighting: WeightingConfig = field(default_factory=WeightingConfig)
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
