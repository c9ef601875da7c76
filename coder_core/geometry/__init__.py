"""Embeddings as points: maps on a plane, offline clusters, exact neighbours, the modality gap, the fixed text space."""
