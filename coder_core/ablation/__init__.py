"""Ablations: the tables of the papers, or a user's own, as grids of ordinary runs.

`tables` lists the settings that each row changes, and `rows` reads a user's own; `planning` turns rows and seeds into
runs, `running` starts them as processes, `results` compares them, `writing` puts them into files and a figure.
"""
