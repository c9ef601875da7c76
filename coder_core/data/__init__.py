"""Data sets: reading, checks, tokens and batches, and the reviews, judgements and embeddings of their samples."""
