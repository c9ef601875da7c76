"""The configuration of a run.

data, model, objective, training   settings: type, default, range, help and source
schema        all sections together, to and from tables and flags
setting       the facts about one setting, and its check
checks        values and combinations that are impossible or doubtful
presets       named configurations
"""
