"""Analysis folders: ranks, embeddings or scores, and per-sample tables of a run on a split, written and read."""
