"""Joint space page: maps, modality gap, similarities."""

from app.frame import sidebar

sidebar.page("joint")
