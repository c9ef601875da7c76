"""Encoders of regions (`regions`) and words (`recurrent`: BiGRU, `bert`), and poolings of their features (`gpo`,
`pooling`: mean and max, `pvse`: several embeddings)."""
