"""State without gradients that outlives a step: the momentum twin and the coupled banks (momentum memory), prototypes
and their re-clustering, the latest embedding of every sample."""

from coder_core.training.memory.bank import CoupledBank
from coder_core.training.memory.momentum import momentum_twin, update_twin
from coder_core.training.memory.prototypes import Prototypes
from coder_core.training.memory.sample_cache import SampleCache

__all__ = ["CoupledBank", "Prototypes", "SampleCache", "momentum_twin", "update_twin"]
