"""Configuration → modules (`build`, `coder`), captions → numbers (`reader`) and concepts (`concepts`), a split →
embeddings and scores (`encode`)."""
