"""A run's results in the files of other programs: faiss indexes, Parquet tables, a model of transformers."""
