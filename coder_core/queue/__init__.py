"""A queue of runs, each trained and evaluated in its own process: the rows of an ablation, the scorers of `--clean`."""
