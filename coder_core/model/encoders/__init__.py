"""Encoders of regions (`regions`) and words (`recurrent`: BiGRU, `bert`), and poolings of their features."""
