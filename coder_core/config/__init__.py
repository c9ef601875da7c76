"""The configuration of a run.

schema, boosting, towers, weighting   every setting once: type, default, range, help and source
setting                       what a setting knows about itself
checks                        which values are impossible or doubtful, and which settings do not go together
presets                       named configurations
command_line                  settings as flags, and their former names
"""

from coder_core.config.boosting import BoostingConfig
from coder_core.config.checks import problems
from coder_core.config.presets import PRESETS
from coder_core.config.schema import (
    Config,
    DataConfig,
    MemoryConfig,
    ModelConfig,
    ObjectiveConfig,
    TrainingConfig,
    find_setting,
    from_document,
    settings,
    to_document,
    with_settings,
)
from coder_core.config.setting import Setting
from coder_core.config.towers import TowersConfig
from coder_core.config.weighting import WeightingConfig

__all__ = [
    "PRESETS",
    "BoostingConfig",
    "Config",
    "DataConfig",
    "MemoryConfig",
    "ModelConfig",
    "ObjectiveConfig",
    "Setting",
    "TowersConfig",
    "TrainingConfig",
    "WeightingConfig",
    "find_setting",
    "from_document",
    "problems",
    "settings",
    "to_document",
    "with_settings",
]
