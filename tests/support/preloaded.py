"""All that the programs of `processes` import, compare and read, so that their forks need not; garbage collection skips
it."""

import gc

import peft  # noqa: F401
import sklearn.decomposition
import sklearn.feature_extraction.text  # noqa: F401
import torch
import transformers.modeling_utils  # noqa: F401
from textblob.en.taggers import PatternTagger

from coder_core.model.device import use_onednn
from tests.support import ddp_worker, device_worker, fork_driver, raw_pixels_worker  # noqa: F401

torch.set_num_threads(1)  # products of several threads would start some, which a fork lacks
use_onednn()  # every process compares it once with float64
PatternTagger().tag("a dog")  # reads its lexicon in a second
gc.collect()
gc.freeze()
