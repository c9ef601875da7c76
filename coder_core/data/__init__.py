"""Data sets read and checked, as words and batches; reviews, judgements and embeddings that come with them."""
