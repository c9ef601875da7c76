"""CODER Lab's core: data, encoders, objectives, training, evaluation.

`log_split` writes a run from any training loop, and `coder_core.objectives` holds the losses. Importing this package does
not change the process, except that in a command (python -m coder_core.…, coder-…) Ctrl-C exits without a traceback.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from coder_core.console.signals import leave_quietly

if TYPE_CHECKING:
    from coder_core.embedding.log import log_split as log_split

__version__ = "0.3.0"

leave_quietly()


def __getattr__(name: str) -> Any:
    if name == "objectives":
        return import_module("coder_core.objectives")  # imports torch
    if name != "log_split":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from coder_core.embedding.log import log_split  # imports numpy

    return log_split
