"""Data sets: reading, checks, tokens and batches, and the reviews, judgments and embeddings of their samples."""
