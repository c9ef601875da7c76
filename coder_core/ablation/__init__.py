"""Ablations: tables of the papers or a user's own, as grids of ordinary runs."""
