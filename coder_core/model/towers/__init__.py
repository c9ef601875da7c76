"""Pretrained towers: picture and text encoders with a joint space, from transformers or a user's own code."""
