"""The former place of `info_nce`."""

from coder_core.objectives.info_nce import info_nce as info_nce
