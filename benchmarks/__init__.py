"""Benchmarks of speed and accuracy; most print one table."""

from coder_core.console.runner import tune_environment

tune_environment()  # before torch loads
