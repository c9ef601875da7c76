"""Reports: one HTML file that shows how well runs retrieve on a split, what changed, and where they fail."""

from coder_core.api.report.gate import Gate, check_gate
from coder_core.api.report.page import render
from coder_core.api.report.sections import Supplements, gather
