"""Results computed once and stored: layouts, clusters, semantic neighbours, hub correction, graded metrics."""
