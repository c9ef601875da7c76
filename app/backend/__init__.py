"""The door to `coder_core`: the only modules of the app that import `coder_core.api`, and the only ones that cache.

    runs            list and open runs; pictures, histories, samples of large splits
    diversity       rank correlations and changes of diversity between two runs
    retrieval       rank changes, margins, hubs, free queries
    similarity      matrices of the Similarity page
    joint_space     maps, modality gap, similarity distributions
    clusters        prototypes and offline clusters
    concepts        graph and attention of the concept branch
    sample_weights  weights of the pairs and what they come from
    data_quality    mismatched pairs, bad pictures, duplicates, captions that say little
    training        start, stop and resume runs
    jobs            processes that outlive the page that started them: training, maps, clusterings

Cached functions are keyed by their arguments; a run counts as its path and its stamp, which changes when its analysis
is written anew (`runs.BY_STAMP`). Arrays are never hashed. Names from a widget or the URL are matched against the
names there are, never joined to a path.
"""
