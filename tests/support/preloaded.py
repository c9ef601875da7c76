"""All that the programs of `processes` import, so that their forks import nothing; garbage collection skips it."""

import gc

import peft  # noqa: F401
import sklearn.decomposition
import sklearn.feature_extraction.text  # noqa: F401
import textblob  # noqa: F401
import transformers.modeling_utils  # noqa: F401

from tests.support import ddp_worker, device_worker, fork_driver, raw_pixels_worker  # noqa: F401

gc.collect()
gc.freeze()
