"""CODER Lab's core: data, encoders, objectives, training, evaluation. Importing it changes nothing of the process.

Only a command (python -m coder_core.…, coder-…) leaves quietly at Ctrl-C from here on.
"""

from coder_core.console.signals import leave_quietly

__version__ = "0.3.0"

leave_quietly()
