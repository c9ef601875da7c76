"""The Joint space page: maps of all samples with one selection, and the modality gap."""

from app.views.joint.page import show

__all__ = ["show"]
