"""Pictures with captions -> a run of zero-shot embeddings, or region features.

arguments   flags of the commands embed and features
pictures, importing, extraction   what these commands do with their flags
sources     what the flags name: pictures, model, decoding processes; look_sources: those of the command look
resumable   blocks of pictures and captions, and the mapped arrays they fill, so that a killed process loses little
embed       embed_split: a run of zero-shot embeddings
regions     RegionFolder: region features in the precomp layout
"""
