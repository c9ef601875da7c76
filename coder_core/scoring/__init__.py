"""Scores of image-caption pairs: `scorer` (cosine, best of PVSE's cosines), `interaction` (words attend to regions)."""
