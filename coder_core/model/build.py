"""Build the model of a configuration: the only place that maps names of settings to classes."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from coder_core.config.model import ModelConfig, Pooling
from coder_core.model.coder import Coder, ConceptBranch, ConceptGraphNetwork
from coder_core.model.concepts.knowledge import Concepts
from coder_core.model.encoders import pooling
from coder_core.model.encoders.bert import BertWords
from coder_core.model.encoders.recurrent import RecurrentWords, word_vectors
from coder_core.model.encoders.regions import RegionEncoder
from coder_core.model.run_towers import RunTowers
from coder_core.model.scoring import InteractionScorer, PVSEScorer
from coder_core.objectives.pairs import CosineScorer, Scorer

POOLINGS: dict[Pooling, type[nn.Module]] = {
    "gpo": pooling.GeneralisedPooling,
    "mean": pooling.MeanPooling,
    "max": pooling.MaxPooling,
    "tower": pooling.PooledByTower,
}


@dataclass(frozen=True)
class ModelParts:
    """What the data and the run contribute to a model besides its configuration."""

    feature_size: int  # numbers of a region
    words: int  # size of the vocabulary
    vectors: Tensor | None = None  # (words, word_size) initial word vectors; None: random
    concepts: Concepts | None = None  # None: no concept branch
    towers: RunTowers | None = None  # replace the encoders of their sides


def build_model(
    config: ModelConfig, parts: ModelParts, *, pretrained: bool = True, download: bool = True
) -> Coder:
    """Build the model of a configuration.

    `pretrained`: load BERT's weights; False if those of a save replace them anyway. `download`: allow transformers to
    download a BERT that is not on this machine.
    """
    dimension = config.dimension
    image: nn.Module | None = None
    text: nn.Module | None = None
    if parts.towers is not None:
        image = parts.towers.encoder("image", dimension)
        text = parts.towers.encoder("text", dimension)

    if text is None and config.text_encoder == "bert":
        text = BertWords(
            config.bert, dimension, frozen=config.freeze_bert, pretrained=pretrained, download=download
        )
    elif text is None:
        vectors = word_vectors(parts.words, config.word_size, parts.vectors)
        text = RecurrentWords(vectors, dimension, layers=config.text_layers, dropout=config.word_dropout)

    if image is None:
        image = RegionEncoder(
            parts.feature_size,
            dimension,
            layers=config.image_layers,
            dropout=config.image_dropout,
            rms=config.region_norm == "rms",
            one_mask=config.image_dropout_mask == "image",
        )

    image_pooling = _pooling(config, config.image_pooling)
    text_pooling = _pooling(config, config.text_pooling)
    # Built after the instance branch, whose initial weights then equal those of a model without concepts.
    branch = None if parts.concepts is None else _concept_branch(config, parts.concepts)
    return Coder(
        image,
        text,
        image_pooling,
        text_pooling,
        dimension=dimension,
        dropout=config.embedding_dropout,
        concepts=branch,
        concept_text_pooling=None if branch is None else POOLINGS[config.text_pooling](),
        scorer=_scorer(config),
    )


def _concept_branch(config: ModelConfig, concepts: Concepts) -> ConceptBranch:
    graph = concepts.graph(
        threshold=config.concept_threshold, rescaled=config.concept_rescale, norm=config.concept_graph
    )
    network = ConceptGraphNetwork(
        torch.from_numpy(graph),
        torch.from_numpy(concepts.vectors),
        config.dimension,
        layers=config.gcn_layers,
        narrow=config.gcn_form == "cvse",
    )
    unit_queries = config.concept_query == "unit"
    return ConceptBranch(network, smoothing=config.concept_smoothing, unit_queries=unit_queries)


def _pooling(config: ModelConfig, name: Pooling) -> nn.Module:
    if config.scorer == "interaction":
        return pooling.KeepAll()
    of_each = POOLINGS[name]()
    count = config.embeddings
    return of_each if count == 1 else pooling.PVSEPooling(of_each, config.dimension, count)


def _scorer(config: ModelConfig) -> Scorer:
    if config.scorer == "interaction":
        size = config.interaction_size
        sharpness = config.interaction_sharpness
        return InteractionScorer(config.dimension, size=size, sharpness=sharpness)
    return CosineScorer() if config.embeddings == 1 else PVSEScorer()
