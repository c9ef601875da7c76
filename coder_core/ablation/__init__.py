"""Ablations: the tables of the papers, or a user's own, as grids of ordinary runs.

`tables` and `grid` say which settings each row changes, `planning` turns rows and seeds into runs, `running` starts
them as processes, `results` compares what they reached, `writing` and `figure` put it into files.
"""
