"""Encoders: regions, words by a BiGRU or BERT, and the poolings that make one vector of them (GPO, mean, max, PVSE)."""
