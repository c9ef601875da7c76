"""Results computed from embeddings or captions once and stored: layouts, clusters, semantic neighbours."""
