"""Pretrained towers: a picture encoder and a text encoder with one space.

towers        what a pair of towers offers
dual_encoder  any dual encoder of transformers (CLIP, SigLIP, SigLIP 2): found on this machine, checked, loaded
own           towers of a user's own code, package.module:function
"""
