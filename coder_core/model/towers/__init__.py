"""Pretrained towers: a picture encoder and a text encoder with one space, of transformers or of a user's own code."""
