"""Speed and accuracy, each printing one table."""

from coder_core.console.runner import tune_environment

tune_environment()  # before torch loads
