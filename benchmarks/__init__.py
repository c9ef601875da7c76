"""Speed and accuracy, each printing one table."""

import coder_core  # noqa: F401  (its setting of the threads comes before torch)
