"""The configuration of a run: every setting with its type, default, range, help and source; checks; presets."""
