"""Configuration: the settings of a run, their limits, and the presets."""

from coder_core.config.boosting import BoostingConfig
from coder_core.config.schema import (
    Config,
    DataConfig,
    MemoryConfig,
    ModelConfig,
    ObjectiveConfig,
    TrainingConfig,
    from_document,
    to_document,
)
from coder_core.config.weighting import WeightingConfig

__all__ = [
    "BoostingConfig", "Config", "DataConfig", "MemoryConfig", "ModelConfig", "ObjectiveConfig", "TrainingConfig",
    "WeightingConfig", "from_document", "to_document",
]  # fmt: skip
