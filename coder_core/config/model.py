"""Settings of the two encoders and of pretrained towers: the sections [model] and [towers] of a configuration."""

from dataclasses import dataclass
from typing import Literal

from coder_core.config.setting import setting, with_help

Pooling = Literal["gpo", "mean", "max", "tower"]
Tuning = Literal["frozen", "lora", "full"]


@dataclass(frozen=True)
@with_help
class ModelConfig:
    """Two encoders into one space (CODER section 3.2.1)."""

    text_encoder: Literal["bigru", "bert"] = setting("bigru", "BiGRU over words, or BERT from transformers.")
    bert: str = setting("bert-base-uncased", "Name or folder of the BERT model (with text-encoder bert).")
    dimension: int = setting(1024, "D, size of the joint space (CODER section 4.1: 1024).", ge=2, le=65_536)
    word_size: int = setting(
        300, "Size of a word vector (vse_infty: 300). A GloVe file must have this width.", ge=1, le=65_536
    )
    image_pooling: Pooling = setting(
        "gpo",
        "Reduces regions, or a tower's patches, to one vector. GPO: Chen et al. 2021; CODER supplement "
        "eq. 9-11. Tower: as the image tower was trained, with its own projection.",
    )
    text_pooling: Pooling = setting("gpo", "Reduces words to one vector; tower: as it was trained.")
    scorer: Literal["cosine", "interaction"] = setting(
        "cosine",
        "Score of a pair: the cosine of its two embeddings, or DBL's single-branch interaction model, in "
        "which every word attends to the regions and nothing is pooled (Diao et al. 2024, section III-A).",
    )
    embeddings: int = setting(
        1,
        "K, number of embeddings per sample, by self-attention over its local features; a pair's score is "
        "the best of its K² cosines (PVSE, Song & Soleymani 2019; 1 is the plain model).",
        ge=1,
        le=64,
    )
    interaction_size: int = setting(
        256, "Size of an alignment vector of the interaction scorer (DBL section IV-A: 256).", ge=1, le=65_536
    )
    interaction_sharpness: float = setting(
        9.0, "λ of the interaction scorer's attention; larger is sharper (DBL section IV-A: 9).", gt=0
    )
    image_layers: int = setting(
        2,
        "Layers of the region MLP beside the linear layer; 0: only the linear layer (vse_infty: 2).",
        ge=0,
        le=64,
    )
    region_norm: Literal["none", "rms"] = setting(
        "none",
        "Region features as in the file, or every region divided by its root mean square, for features "
        "whose lengths vary widely but mean little.",
    )
    text_layers: int = setting(1, "Layers of the BiGRU (vse_infty: 1).", ge=1, le=64)
    image_dropout: float = setting(0.0, "Dropout on the region features.", ge=0, lt=1)
    image_dropout_mask: Literal["region", "image"] = setting(
        "region",
        "Image-dropout removes different numbers from each region, or the same from all regions of an "
        "image: neighboring regions are similar, so per-region masks regularize little (Tompson et al. "
        "2015).",
    )
    word_dropout: float = setting(0.0, "Dropout on the components of the word vectors.", ge=0, lt=1)
    embedding_dropout: float = setting(
        0.0, "Dropout on regions and words before they are pooled.", ge=0, lt=1
    )
    freeze_bert: bool = setting(False, "Leave BERT's own weights as they are and train the layers on top.")
    concepts: int = setting(
        0,
        "g, number of concepts: objects, properties and motions as 7 : 2 : 1 (CODER: 400); 0: no concept "
        "branch.",
        ge=0,
        le=100_000,
    )
    concept_list: str = setting(
        "",
        'JSON file {"objects": […], "properties": […], "motions": […]} with the concepts; empty: found in '
        "the train captions.",
        may_change=True,
    )
    concept_tagger: Literal["textblob", "spacy", "nltk"] = setting(
        "textblob",
        "Finds nouns, adjectives and verbs in the captions. textblob works offline; the others must be "
        "installed.",
    )
    gcn_layers: int = setting(1, "Graph convolutions over the concepts (CODER: 1, CVSE: 2).", ge=1, le=2)
    gcn_form: Literal["cvse", "wide"] = setting(
        "cvse",
        "Shape of two convolutions: cvse has a hidden width of D/2 and no activation after the last; wide "
        "has D and an activation after each.",
    )
    concept_graph: Literal["columns", "rows-columns", "cvse"] = setting(
        "columns",
        "Normalization of the concepts' graph H (the paper leaves D open): by its column sums on both "
        "sides, which drops the edges of a concept without incoming edges; by row sums on the left and "
        "column sums on the right; or H + I by its row sums (CVSE's program).",
    )
    concept_smoothing: float = setting(
        10.0,
        "λ_s of the concept attention; larger is sharper (CODER supplement eq. 14 gives no value; 10 is "
        "our choice).",
        gt=0,
    )
    concept_query: Literal["pooled", "unit"] = setting(
        "pooled",
        "Query of the concept attention: the pooled vector before it is normalized (CODER supplement "
        "A.2), or afterwards, so that attention starts equally sharp for images and captions, whatever "
        "the scale of their features.",
    )
    concept_threshold: float = setting(
        0.3,
        "ε: concepts that co-occur at least this much are connected (CVSE: 0.3 after rescaling, a raw "
        "probability of 0.168).",
        gt=0,
        reason="at 0 every concept is connected with every other",
    )
    concept_rescale: bool = setting(
        True, "Rescale the co-occurrence probability to 5^(P - 0.02) - 5^(-0.02) before the threshold (CVSE)."
    )
    beta: float = setting(
        0.9,
        "The instance branch's share of a score; the rest is the concept branch's (CODER: 0.9).",
        ge=0,
        le=1,
    )

    @property
    def by_pair(self) -> bool:
        """True if a score is not the inner product of two vectors, so that splits are scored pair by pair."""
        return self.scorer != "cosine" or self.embeddings > 1


@dataclass(frozen=True)
@with_help
class TowersConfig:
    """Encoders that read pictures and words themselves: pretrained ones, or your own (docs/training.md, Towers)."""

    image_tower: str = setting(
        "",
        "Encoder of the pictures: name or folder of a transformers model (CLIP, SigLIP, SigLIP 2, ViT, "
        "DINOv2 …), or package.module:function of your own. --data is then any layout of pictures with "
        "captions. Empty: region features are read instead.",
        may_change=True,
    )
    text_tower: str = setting(
        "",
        "Encoder of the captions in place of text-encoder: name or folder of a dual encoder (its text "
        "half) or of a text model such as BERT, or package.module:function.",
        may_change=True,
    )
    revision: str = setting(
        "", "Branch, tag or commit of towers given by name; empty: main.", may_change=True
    )
    base: str = setting(
        "",
        "Model whose configuration, image processor and tokenizer belong to a tower that lacks them, such as "
        "a .pt file or an adapter (docs/data.md, section 10).",
        may_change=True,
    )
    image_tuning: Tuning = setting(
        "frozen",
        "Training of the image tower: frozen (LiT, Zhai et al. 2022: the best use of a strong image "
        "tower), lora (low-rank adapters, Hu et al. 2022), or full.",
    )
    text_tuning: Tuning = setting("frozen", "Training of the text tower.")
    image_rate: float = setting(1.0, "The image tower's rate as a multiple of learning-rate.", ge=0)
    text_rate: float = setting(1.0, "The text tower's rate as a multiple of learning-rate.", ge=0)
    lora_rank: int = setting(
        8,
        "r: columns of an adapter's matrices, in every linear layer of a tower that is tuned by lora "
        "(peft: 8; Hu et al. 2022, table 6: 1 to 64 differ little).",
        ge=1,
        le=1024,
    )
    lora_alpha: float = setting(
        16.0, "α: an adapter's output is multiplied by α ÷ r (Hu et al. 2022; often 2 · rank).", gt=0
    )
    lora_dropout: float = setting(
        0.0, "Dropout on the adapters' input (peft: 0; Hu et al. 2022: 0.1 for GPT-2).", ge=0, lt=1
    )
    projection: Literal["linear", "none"] = setting(
        "linear",
        "Linear: a layer into the joint space on top of a tower. None: the tower's own space, whose size "
        "becomes dimension; a dual encoder then starts as it was trained.",
    )
    augment: Literal["none", "crop", "crop-flip"] = setting(
        "none",
        "Random changes to the train pictures: a crop of 90 to 100% of the area (open_clip), and a mirror "
        "image half of the time, but never if the caption contains left, right or clockwise.",
    )
    workers: int = setting(
        -1,
        "Processes that decode pictures ahead of the model; -1: a number that suits the machine, 0: only "
        "the main process.",
        ge=-1,
        le=256,
        may_change=True,
    )
    cache_pictures: int = setting(
        0,
        "Decode each train picture once, scaled down to this many pixels on its shorter side, into a cache that other "
        "runs share, and train on that; -1, or the flag alone: 1.15 times the side of the tower's input; 0: decode the "
        "files in every epoch. Other splits are always read from their files.",
        ge=-1,
        le=65_536,
        alone=-1,
    )

    @property
    def any(self) -> bool:
        """True if a tower reads pictures, captions or both."""
        return bool(self.image_tower or self.text_tower)

    @property
    def both(self) -> bool:
        """True if towers read both pictures and captions."""
        return bool(self.image_tower) and bool(self.text_tower)
