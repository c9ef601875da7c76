"""Every setting of a run, as frozen dataclasses. The help text of a setting names the source of its default.

The command line, the form in the app, config.toml and the ablations' grids follow from these fields (`settings`).
`checks.problems` tells which settings do not go together.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cache
from typing import Any, Literal, get_type_hints

from coder_core.config.boosting import BoostingConfig
from coder_core.config.setting import Setting, setting, setting_of
from coder_core.config.towers import TowersConfig
from coder_core.config.weighting import WeightingConfig
from coder_core.console.faults import Fault, InputError

Format = Literal[
    "auto",
    "precomp",
    "karpathy",
    "flickr8k",
    "flickr30k-annotations",
    "flickr30k-results",
    "kaggle",
    "coco",
    "imagefolder",
    "parquet",
    "webdataset",
    "img2dataset",
]
Loss = Literal[
    "btr-sum", "btr-hardest", "npairs-hinge", "infonce", "sigmoid", "cmpm", "polynomial", "dcl-i", "dcl"
]
Diversity = Literal["std", "entropy"]
Pooling = Literal["gpo", "mean", "max", "tower"]
LARGEST_SCALE = 100.0  # of the logits; a larger one made CLIP's training unstable
RUN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")  # with what is added to it, a file name


@dataclass(frozen=True)
class DataConfig:
    """Where images and captions come from, and what is left out at random while training."""

    data: str = setting(
        "",
        help='Folder with {split}_ims.npy and {split}_caps.txt, or a Karpathy dataset_*.json; "demo" is the built-in set. '
        "With an image tower: pictures with captions in any layout (docs/data.md, section 9).",
    )
    pictures: str = setting(
        "",
        help="Folder with the picture files, so that the app can show them, and an image tower read them. Optional.",
    )
    format: Format = setting(
        "auto", help="Layout of pictures with captions, for an image tower; recognised by itself."
    )
    dev_share: float = setting(
        0.1,
        minimum=0,
        maximum=1,
        help="Share of the images that become dev, where pictures with captions have no splits: a hash of every image's "
        "name decides.",
    )
    test_share: float = setting(
        0.1, minimum=0, maximum=1, help="Share of the images that become test, likewise."
    )
    split_seed: int = setting(0, minimum=0, below=2**31, help="Seed of that hash.")
    skip_broken: bool = setting(
        False, help="Leave out pictures that are missing or broken, with their captions, instead of stopping."
    )
    word_threshold: int = setting(
        4,
        minimum=1,
        help="A word enters the vocabulary when train captions hold it at least this often (vsepp, vse_infty: 4).",
    )
    word_vectors: str = setting(
        "random",
        suggestions=("random", "learned"),
        help='Start: "random", "learned" (PPMI and truncated SVD of the train captions), or the path of a GloVe text '
        "file.",
    )
    drop_regions: float = setting(
        0.2,
        minimum=0,
        maximum=0.5,
        help="Share of an image's regions left out, on average, in every training batch (vse_infty: 0.2).",
    )
    drop_words: float = setting(
        0.2,
        minimum=0,
        below=1,
        help="Share of a caption's words left out while training; at least one stays (vse_infty: 0.2).",
    )
    train_part: float = setting(
        1.0,
        above=0,
        maximum=1,
        help="Share of the train images, drawn by the seed, that the run learns from; the vocabulary is that of all. For "
        "experiments with less data (ablate boosting-offline), and for two runs that judge each other's pairs "
        "(docs/data.md, section 6).",
    )
    other_part: bool = setting(
        False, help="Learn from the images that train-part leaves out instead of those it draws."
    )
    vague_captions: float = setting(
        0.0,
        minimum=0,
        maximum=1,
        help="Share of the train captions made vague: coarse words for nouns, or little more than a noun. For experiments "
        "on ambiguity (ablate ambiguity); dev and test stay as they are.",
    )
    reviews: str = setting(
        "",
        help="File of people's verdicts on pairs of train (docs/data.md, section 12); dev and test stay as they are.",
    )
    wrong_weight: float = setting(
        0.0,
        minimum=0,
        maximum=1,
        help="With reviews: weight of pairs judged wrong-caption; 0 leaves them out, 1 as if nobody had judged them.",
    )
    vague_weight: float = setting(
        0.5,
        minimum=0,
        maximum=1,
        help="With reviews: weight of pairs judged too-vague, likewise; half lets them teach without leading.",
    )
    duplicate_weight: float = setting(
        1.0,
        minimum=0,
        maximum=1,
        help="With reviews: weight of pairs judged duplicate, likewise; the field trains on duplicates too.",
    )
    also_matches: bool = setting(
        True,
        help="With reviews: train also on pairs judged also-matches, and take none of the two images' captions as negatives "
        "of the other.",
    )


@dataclass(frozen=True)
class ModelConfig:
    """Two encoders into one space (CODER section 3.2.1)."""

    text_encoder: Literal["bigru", "bert"] = setting(
        "bigru", help="BiGRU over words, or BERT through transformers."
    )
    bert: str = setting(
        "bert-base-uncased", help="Name or folder of the BERT model (used with text-encoder bert)."
    )
    dimension: int = setting(
        1024, minimum=2, maximum=65_536, help="D, size of the joint space (CODER section 4.1: 1024)."
    )
    word_size: int = setting(
        300,
        minimum=1,
        maximum=65_536,
        help="Size of a word vector (vse_infty: 300). A GloVe file must have this width.",
    )
    image_pooling: Pooling = setting(
        "gpo",
        help="How regions, or a tower's patches, become one vector. GPO: Chen et al. 2021; CODER supplement eq. 9-11. "
        "Tower: the image tower pools as it was trained to, with its own projection.",
    )
    text_pooling: Pooling = setting(
        "gpo", help="How words become one vector; tower: as the text tower was trained to."
    )
    scorer: Literal["cosine", "interaction"] = setting(
        "cosine",
        help="How a pair is scored: the cosine of its two embeddings, or DBL's single-branch interaction model, in which "
        "every word attends to the regions and nothing is pooled (Diao et al. 2024, section III-A).",
    )
    embeddings: int = setting(
        1,
        minimum=1,
        maximum=64,
        help="K, embeddings of every sample by self-attention over its local features; a pair scores the best of its K² "
        "cosines (PVSE, Song & Soleymani 2019; 1 is the plain model).",
    )
    interaction_size: int = setting(
        256,
        minimum=1,
        maximum=65_536,
        help="Size of an alignment vector of the interaction scorer (DBL section IV-A: 256).",
    )
    interaction_sharpness: float = setting(
        9.0, above=0, help="λ of the interaction scorer's attention; larger is sharper (DBL section IV-A: 9)."
    )
    image_layers: int = setting(
        2,
        minimum=0,
        maximum=64,
        help="Layers of the region MLP beside the linear layer; 0 leaves the linear layer alone (vse_infty: 2).",
    )
    region_norm: Literal["none", "rms"] = setting(
        "none",
        help="Region features as the file has them, or every region divided by its root mean square, for features whose "
        "lengths differ much and say little.",
    )
    text_layers: int = setting(1, minimum=1, maximum=64, help="Layers of the BiGRU (vse_infty: 1).")
    image_dropout: float = setting(0.0, minimum=0, below=1, help="Dropout on the region features.")
    image_dropout_mask: Literal["region", "image"] = setting(
        "region",
        help="Each region loses numbers of its own, or all regions of an image the same ones: what one region lacks a "
        "similar neighbour still shows, so a mask of its own regularises little (Tompson et al. 2015).",
    )
    word_dropout: float = setting(
        0.0, minimum=0, below=1, help="Dropout on the components of the word vectors."
    )
    embedding_dropout: float = setting(
        0.0, minimum=0, below=1, help="Dropout on regions and words just before they are pooled."
    )
    freeze_bert: bool = setting(
        False, help="Leave BERT's own weights as they are and train what stands on them."
    )
    concepts: int = setting(
        0,
        minimum=0,
        maximum=100_000,
        help="g, concepts of the concept branch, objects 7 : properties 2 : motions 1 (CODER: 400); 0 has no such branch.",
    )
    concept_list: str = setting(
        "",
        help='JSON file {"objects": […], "properties": […], "motions": […]} with the concepts; empty takes them from the '
        "train captions.",
    )
    concept_tagger: Literal["textblob", "spacy", "nltk"] = setting(
        "textblob",
        help="Tells nouns, adjectives and verbs in the captions. textblob works offline; the others when you installed "
        "them.",
    )
    gcn_layers: int = setting(
        1, minimum=1, maximum=2, help="Graph convolutions over the concepts (CODER: 1, CVSE: 2)."
    )
    gcn_form: Literal["cvse", "wide"] = setting(
        "cvse",
        before="wide",
        help="Of two convolutions: cvse has a hidden width of D/2 and no activation after the last; wide has D and an "
        "activation after each, as runs had before this setting.",
    )
    concept_graph: Literal["columns", "rows-columns", "cvse"] = setting(
        "columns",
        help="How the concepts' graph H is normalised (the paper leaves D open): by its column sums on both sides, which "
        "drops the edges of a concept that no other points at; by row sums on the left and column sums on the right; "
        "or H + I by its row sums (CVSE's program).",
    )
    concept_smoothing: float = setting(
        10.0,
        above=0,
        help="λ_s of the concept attention; larger is sharper (CODER supplement eq. 14 gives no value; 10 is this "
        "project's).",
    )
    concept_query: Literal["pooled", "unit"] = setting(
        "pooled",
        help="What reads the concepts: the pooled vector before it is normalised (CODER supplement A.2), or the same at "
        "length 1, so that an image and a caption start equally sharp whatever the scale of their features.",
    )
    concept_threshold: float = setting(
        0.3,
        above=0,
        reason="at 0 every concept is connected with every other",
        help="ε: concepts are connected from this co-occurrence on (CVSE: 0.3 after rescaling, a raw probability of "
        "0.168).",
    )
    concept_rescale: bool = setting(
        True,
        help="Rescale the co-occurrence probability to 5^(P - 0.02) - 5^(-0.02) before the threshold, as CVSE does.",
    )
    beta: float = setting(
        0.9,
        minimum=0,
        maximum=1,
        help="Share of the instance branch in a score; the rest is the concept branch's (CODER section 4.1: 0.9).",
    )

    @property
    def by_pair(self) -> bool:
        """A score is not the inner product of one vector each: splits are scored pair by pair."""
        return self.scorer != "cosine" or self.embeddings > 1


@dataclass(frozen=True)
class ObjectiveConfig:
    """The loss of the instance branch (CODER eq. 3-6 and 8)."""

    loss: Loss = setting(
        "dcl",
        help="btr-sum, btr-hardest (bidirectional triplet), npairs-hinge (all negatives, averaged), infonce, sigmoid "
        "(SigLIP, Zhai et al. 2023), cmpm (projection matching, Zhang and Lu 2018), polynomial (universal weighting, "
        "Wei et al. 2020), dcl-i (CODER's loss without diversity), dcl (eq. 4).",
    )
    margin: float = setting(
        0.2,
        minimum=0,
        help="Margin of the triplet losses (vsepp: 0.2), and how near a negative of polynomial must come to count.",
    )
    npairs_margin: float = setting(
        0.1, minimum=0, help="Margin of npairs-hinge (Thomas and Kovashka 2022: 0.1)."
    )
    warmup_epochs: float = setting(
        1.0,
        minimum=0,
        help="Epochs in which btr-hardest sums over all negatives before it takes the hardest (vse_infty: 1).",
    )
    temperature: float = setting(
        0.1,
        above=0,
        help="μ of eq. 4 (CODER: 0.1), and the temperature of infonce and cmpm; a learned scale starts at 1 / temperature "
        "(SigLIP: 10).",
    )
    learn_scale: bool = setting(
        False,
        help="Learn the scale 1 / temperature of infonce or cmpm with the model, up to 100 (CLIP). sigmoid always does.",
    )
    logit_bias: float = setting(
        -10.0, minimum=-100, maximum=100, help="Where the bias that sigmoid learns starts (SigLIP: -10)."
    )
    gamma: float = setting(0.3, help="γ of eq. 4: negatives above it are pushed harder (CODER: 0.3).")
    positive_scale: Literal["one", "temperature"] = setting(
        "one",
        help='Scale of the positive term: "one" as HAL and USER do, "temperature" (μ) as eq. 4 is printed.',
    )
    positive_clamp: Literal["clamp", "relu"] = setting(
        "clamp",
        help='Positive term: "clamp" is log1p(max(S, -1+1e-4)), "relu" is HAL\'s log(1 + relu(S)), flat below zero.',
    )
    diversity: Diversity = setting(
        "std", help='How dcl measures diversity: "std" (eq. 3) or "entropy" (supplement eq. 16).'
    )
    epsilon: float = setting(0.1, above=0, help="ε of eq. 3 (CODER: 0.1).")
    entropy_temperature: float = setting(
        1.0,
        above=0,
        help="τ of the softmax inside entropy diversity; 1 is the printed form, in which entropy varies in its 4th digit.",
    )
    diversity_gradient: bool = setting(
        False, help="Let gradients run through the diversity (the papers leave it open; default: no)."
    )
    diversity_from_bank: bool = setting(
        True,
        help="Average batch-level and bank-level diversity when a bank is kept (CODER section 3.3, table 3 row 3).",
    )
    same_image_negatives: bool = setting(
        False,
        help="Count other captions of the anchor's image as negatives (literal reading; default: masked).",
    )
    weight_instance: float = setting(
        3.0,
        minimum=0,
        help="Weight of the in-batch loss (λ of eq. 8: 3). Triplet losses are summed over the batch, the others averaged.",
    )
    weight_memory: float = setting(
        1.0, minimum=0, help="Weight of the bank loss M-DCL (eq. 6, 8: 1). Needs a bank."
    )
    weight_concept: float = setting(
        1.0,
        minimum=0,
        help="Weight of the concept branch's DCL, both directions together (eq. 8: 1; the supplement counts it twice: 2).",
    )
    weight_prototypes: float = setting(
        1.0,
        minimum=0,
        help="Weight of the prototype-guided classification, both modalities together (eq. 7, 8: 1). Needs prototypes.",
    )
    weight_heads: float = setting(
        0.0,
        minimum=0,
        help="Weight of PVSE's diversity loss, which keeps what the K heads of a sample read apart (PVSE on MS-COCO: 0.1); "
        "summed over the batch where the loss is. Needs --embeddings above 1.",
    )
    weight_mmd: float = setting(
        0.0,
        minimum=0,
        help="Weight of PVSE's discrepancy (MMD) between all images and all captions of the batch (PVSE on MS-COCO: 0.01), "
        "likewise.",
    )
    prototype_temperature: float = setting(
        1.0,
        above=0,
        help="Divides the classification's logits (eq. 7: 1); below 1 the classifier sharpens sooner in a short run.",
    )

    @property
    def learns_scale(self) -> bool:
        """The scale of the logits is trained with the model."""
        return self.learn_scale or self.loss == "sigmoid"


@dataclass(frozen=True)
class MemoryConfig:
    """Momentum encoders and the two coupled banks (CODER section 3.3, MoCo)."""

    bank_size: int = setting(
        0,
        minimum=0,
        maximum=100_000_000,
        help="Keys kept per modality; 0 keeps no bank (CODER: 4096 on Flickr30K).",
    )
    momentum: float = setting(
        0.995,
        minimum=0,
        maximum=1,
        help="Share of the old key encoder that stays at every step (CODER: 0.995).",
    )
    twin_dropout: bool = setting(
        True,
        help="The key encoders read with dropout, as the model does; off, the keys of one batch are the same twice (the "
        "paper does not say).",
    )
    bank_anchors: bool = setting(
        False,
        help="M-DCL takes the bank's entries as anchors too, each against the batch, its positive being its own pair in the "
        "bank (eq. 6 read literally; default: the batch alone).",
    )
    bank_start_epoch: float = setting(
        0.0, minimum=0, help="Epochs before the bank loss counts; keys are collected from the start."
    )
    prototypes: int = setting(
        0,
        minimum=0,
        maximum=10_000_000,
        help="K, prototypes that image-caption pairs are clustered into and classified by; 0 has none (CODER: 10000 for "
        "the 145,000 pairs of Flickr30K, 20000 on MS-COCO). The concept branch is classified, or the instance branch "
        "without.",
    )
    prototype_recluster: int = setting(
        0,
        minimum=0,
        help="Cluster all pairs at once every this many epochs, keeping the prototypes' numbers; 0 never does.",
    )


@dataclass(frozen=True)
class TrainingConfig:
    """The loop: how long, how fast, on what."""

    epochs: int = setting(30, minimum=1, help="Passes over the captions (CODER: 30).")
    batch_size: int = setting(
        128,
        minimum=2,
        reason="a contrastive loss needs negatives in the batch",
        help="Image-caption pairs in a batch, over all processes (CODER: 128).",
    )
    piece_size: int = setting(
        0,
        minimum=0,
        help="Pairs that each process takes through the encoders at a time; 0 takes its whole share of the batch. Small "
        "pieces train a large batch in little memory (gradient caching, Gao et al. 2021): the loss still compares all "
        "pairs, and every piece is encoded twice, for a third to a half more time. Region features need "
        "--image-layers 1 or 0.",
    )
    learning_rate: float = setting(
        2e-4,
        above=0,
        help="Largest learning rate of AdamW (CODER: 2e-4). Of towers tuned in full at most 1e-5 (WiSE-FT, FLIP).",
    )
    bert_rate: float = setting(
        0.1, minimum=0, help="BERT's learning rate as a share of the others' (vse_infty: 0.1)."
    )
    weight_decay: float = setting(1e-4, minimum=0, help="AdamW's weight decay (vse_infty: 1e-4).")
    schedule: Literal["step", "cosine", "constant", "plateau"] = setting(
        "step",
        help="Step: a tenth after decay-at of the steps (CODER: after 15 of 30 epochs). Cosine: falls to zero. Plateau: a "
        "tenth whenever plateau evaluations brought no better R@sum.",
    )
    decay_at: float = setting(
        0.5,
        above=0,
        maximum=1,
        help="Share of all steps after which the step schedule divides the rate by ten.",
    )
    plateau: int = setting(
        5,
        minimum=1,
        help="Evaluations in a row without a better R@sum after which the plateau schedule divides the rate by ten (Thomas "
        "and Kovashka 2022: 5 epochs, by the validation loss).",
    )
    warmup_steps: int = setting(0, minimum=0, help="Steps over which the learning rate rises from zero.")
    clip_norm: float = setting(
        2.0, above=0, infinite=True, help="Largest norm of the gradient (vse_infty: 2)."
    )
    seed: int = setting(0, minimum=0, below=2**31, help="Everything random follows from it.")
    evaluate_every: int = setting(1, minimum=1, help="Epochs between two evaluations on dev.")
    choose_on: Literal["all", "half"] = setting(
        "all",
        help="What the best epoch is chosen on: dev, or half of its images, so that the other half stays unseen by the "
        "choice. Half also writes R@sum of both halves into the history and the tables of ablate.",
    )
    patience: int = setting(
        0, minimum=0, help="Stop after this many evaluations without a better R@sum; 0 never stops early."
    )
    save_every: float = setting(
        120.0,
        above=0,
        infinite=True,
        help="Seconds between two saves of the training state; every epoch's end saves too.",
    )
    precision: Literal["auto", "float32", "bfloat16"] = setting(
        "auto", help="Auto: bfloat16 autocast on a GPU, float32 on a CPU. Losses are always float32."
    )
    twin_precision: Literal["auto", "float32", "bfloat16"] = setting(
        "auto",
        help="Of the passes without gradients: the momentum twin's, and a boosting teacher's. Auto: as precision; with "
        "that left to auto, bfloat16 on AMD processors that multiply it too.",
    )
    device: str = setting(
        "auto", suggestions=("auto", "cpu", "cuda"), help='One of "auto", "cpu", "cuda", "cuda:1" …'
    )
    threads: int = setting(
        0,
        minimum=0,
        maximum=1024,
        help="CPU threads; 0 takes all cores. Another number changes the last bits of a run.",
    )
    compile: bool = setting(
        False, help="Compile the model with torch.compile (a GPU is needed to gain from it)."
    )
    tensorboard: bool = setting(
        False,
        help="Also write TensorBoard events into the run's folder tensorboard/; they are read with tensorboard --logdir.",
    )
    gradient_checkpointing: bool = setting(
        False, help="Recompute BERT's and the towers' activations in the backward pass to save memory."
    )


@dataclass(frozen=True)
class Config:
    """All settings of a run."""

    name: str = setting("", help="Name of the run's folder; empty takes the preset's name.")
    data: DataConfig = field(default_factory=DataConfig)
    model: ModelConfig = field(default_factory=ModelConfig)
    towers: TowersConfig = field(default_factory=TowersConfig)
    objective: ObjectiveConfig = field(default_factory=ObjectiveConfig)
    boosting: BoostingConfig = field(default_factory=BoostingConfig)
    weighting: WeightingConfig = field(default_factory=WeightingConfig)
    memory: MemoryConfig = field(default_factory=MemoryConfig)
    training: TrainingConfig = field(default_factory=TrainingConfig)

    @property
    def has_vocabulary(self) -> bool:
        """Whether captions are read as words of a vocabulary of the run's own."""
        return self.model.text_encoder == "bigru" and not self.towers.text_tower


@cache
def settings() -> dict[str, Setting]:
    """Every setting by its key, section by section. The run's name is none."""
    sections = {key: hint for key, hint in get_type_hints(Config).items() if key != "name"}
    return {
        declared.name: setting_of(section, declared, get_type_hints(cls)[declared.name])
        for section, cls in sections.items()
        for declared in fields(cls)
    }


@cache
def _by_any_name() -> dict[str, Setting]:
    return {key: known for known in settings().values() for key in (known.key, *known.old_keys)}


def find_setting(name: str) -> Setting | None:
    """The setting of a key or a flag, by its present or a former name: bank_size, bank-size or --bank-size."""
    return _by_any_name().get(name.removeprefix("--").replace("-", "_"))


def with_settings(config: Config, values: Mapping[str, Any], place: str = "") -> Config:
    """Replace settings, each named by its key or flag.

    Args:
        config: to start from.
        values: by name.
        place: where the values stand, for messages: "mine.toml row 2".

    Raises:
        InputError: unknown names, wrong types, values outside their range; all of them.
    """
    changes: dict[str, dict[str, Any]] = {}
    faults: list[Fault | None] = []
    for name, value in values.items():
        declared = find_setting(name)
        if declared is None:
            fix = "python -m coder_core.train --help lists every setting"
            faults.append(
                Fault(_at(place, name[:80]), "is not a setting of a run", "a name such as bank-size", fix)
            )
            continue
        changes.setdefault(declared.section, {})[declared.key] = declared.read(value)
        faults.append(declared.fault(declared.read(value), _at(place, declared.flag)))
    _refuse(faults)
    return replace(config, **{key: replace(getattr(config, key), **table) for key, table in changes.items()})


def _at(place: str, name: str) -> str:
    return f"{place}, {name}" if place else name


def _refuse(faults: Sequence[Fault | None]) -> None:
    if found := [fault for fault in faults if fault is not None]:
        raise InputError(found)


def to_document(config: Config) -> dict[str, Any]:
    """Plain nested tables, ready for TOML."""
    return asdict(config)


def from_document(document: Mapping[str, Any], place: str = "config.toml") -> Config:
    """Read the tables that `to_document` made, also those of an older version.

    Raises:
        InputError: unknown keys, wrong types, values outside their range; all of a table are named.
    """
    sections = get_type_hints(Config)
    if unknown := sorted(set(document) - set(sections)):
        expected = f"one of {', '.join(sections)}"
        raise InputError([Fault(f"{place} key {key}", "is not known", expected) for key in unknown])
    values: dict[str, Any] = {}
    for key, value in document.items():
        kind = "str" if key == "name" else "dict"
        if not isinstance(value, str if key == "name" else dict):
            raise InputError(Fault(f"{place} [{key}]", f"is {value!r}", f"a value of type {kind}"))
        values[key] = (
            value if isinstance(value, str) else _section(sections[key], key, value, f"{place} [{key}]")
        )
    return Config(**values)


def _section(cls: type, section: str, table: Mapping[str, Any], place: str) -> Any:
    by_key = {key: one for key, one in _by_any_name().items() if one.section == section}
    expected = f"one of {', '.join(sorted(declared.name for declared in fields(cls)))}"
    _refuse(
        [Fault(f"{place} key {key}", "is not known", expected) for key in sorted(set(table) - set(by_key))]
    )
    _refuse(
        [by_key[key].fault(by_key[key].read(value), f"{place} key {key}") for key, value in table.items()]
    )
    values = {by_key[key].key: by_key[key].read(value) for key, value in table.items()}
    older = {
        one.key: one.before for one in by_key.values() if one.before is not None and one.key not in values
    }
    return cls(**older, **values)
