"""Exports for other programs: faiss indexes, Parquet tables, transformers models, hard negatives, cleaned data sets."""
