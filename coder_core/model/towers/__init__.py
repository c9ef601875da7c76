"""Pretrained towers: a picture encoder and a text encoder with one space.

towers        what a pair of towers offers
find          where a model lies on this machine
dual_encoder  any dual encoder of transformers (CLIP, SigLIP, SigLIP 2): found on this machine, checked, loaded
regions       patch tokens or feature-map cells of a picture tower, pooled to a grid
patches       a picture's patches in the space of its towers, and the attention that reads them
own           towers of a user's own code, package.module:function
"""
