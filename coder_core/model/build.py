"""Build the model of a configuration: the only place that maps names of settings to classes."""

import torch
from torch import Tensor, nn

from coder_core.config.model import ModelConfig, Pooling
from coder_core.model.coder import Coder
from coder_core.model.concepts.attention import ConceptBranch, ConceptGraphNetwork
from coder_core.model.concepts.knowledge import Concepts
from coder_core.model.encoders import pooling
from coder_core.model.encoders.bert import BertWords
from coder_core.model.encoders.recurrent import RecurrentWords
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


def build_model(
    config: ModelConfig,
    *,
    feature_size: int,
    words: int,
    vectors: Tensor | None = None,
    checkpointing: bool = False,
    pretrained: bool = True,
    download: bool = True,
    concepts: Concepts | None = None,
    towers: RunTowers | None = None,
) -> Coder:
    """Build the model of a configuration, with a concept branch if `concepts` are given; `towers` replace its encoders.

    Args:
        vectors: (words, word_size) initial word vectors; None: random.
        checkpointing: recompute the activations of BERT and of the towers in the backward pass.
        pretrained: load BERT's weights; False if those of a save replace them anyway.
        download: allow transformers to download a BERT that is not on this machine.
    """
    image: nn.Module | None = None
    text: nn.Module | None = None
    if towers is not None:
        image = towers.encoder("image", config.dimension, checkpointing)
        text = towers.encoder("text", config.dimension, checkpointing)
    if text is None and config.text_encoder == "bert":
        options = {"checkpointing": checkpointing, "pretrained": pretrained, "download": download}
        text = BertWords(config.bert, config.dimension, frozen=config.freeze_bert, **options)
    elif text is None:
        sizes = (words, config.word_size, config.dimension)
        text = RecurrentWords(*sizes, layers=config.text_layers, dropout=config.word_dropout, vectors=vectors)
    if image is None:
        image = RegionEncoder(
            feature_size,
            config.dimension,
            layers=config.image_layers,
            dropout=config.image_dropout,
            rms=config.region_norm == "rms",
            one_mask=config.image_dropout_mask == "image",
        )
    poolings = [_pooling(config, name) for name in (config.image_pooling, config.text_pooling)]
    # Built after the instance branch, whose initial weights then equal those of a model without concepts.
    branch = None if concepts is None else _concept_branch(config, concepts)
    return Coder(
        image,
        text,
        *poolings,
        dimension=config.dimension,
        dropout=config.embedding_dropout,
        concepts=branch,
        concept_text_pooling=None if branch is None else POOLINGS[config.text_pooling](),
        scorer=_scorer(config),
    )


def _concept_branch(config: ModelConfig, concepts: Concepts) -> ConceptBranch:
    threshold = config.concept_threshold
    rescaled = config.concept_rescale
    graph = concepts.graph(threshold=threshold, rescaled=rescaled, norm=config.concept_graph)
    arrays = torch.from_numpy(graph), torch.from_numpy(concepts.vectors)
    narrow = config.gcn_form == "cvse"
    unit_queries = config.concept_query == "unit"
    network = ConceptGraphNetwork(*arrays, config.dimension, layers=config.gcn_layers, narrow=narrow)
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
