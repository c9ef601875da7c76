"""Pretrained towers: a picture encoder and a text encoder with one space.

pretrained    models of transformers: found on this machine, checked, loaded with what reads pictures and texts for them
dual_encoder  both encoders of such a model (CLIP, SigLIP, SigLIP 2), and the interface `Towers`
own           towers of a user's own code, package.module:function
halves        one encoder that a run trains on; `tuning` freezes it, adapts it or trains it in full
regions       patch tokens or feature-map cells of a picture tower, pooled to a grid; patches in the space of two towers
"""
