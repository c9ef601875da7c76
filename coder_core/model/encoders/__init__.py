"""Encoders of regions (`regions`) and words (`recurrent`: BiGRU, `bert`), and poolings of their features (`gpo`,
`pooling`: mean and max, `pvse`: several embeddings)."""

from coder_core.model.encoders.bert import BertWords
from coder_core.model.encoders.gpo import GeneralisedPooling
from coder_core.model.encoders.pooling import KeepAll, MaxPooling, MeanPooling
from coder_core.model.encoders.pvse import PVSEPooling
from coder_core.model.encoders.recurrent import RecurrentWords
from coder_core.model.encoders.regions import RegionEncoder

__all__ = [
    "BertWords",
    "GeneralisedPooling",
    "KeepAll",
    "MaxPooling",
    "MeanPooling",
    "PVSEPooling",
    "RecurrentWords",
    "RegionEncoder",
]
