"""Pictures with captions -> a run of zero-shot embeddings, or region features.

arguments the flags of both commands
plan      which pictures and captions are computed together, whatever the workers, the processes and the restarts
arrays    arrays in files, mapped
parts     what is done, on disk, so that a killed process loses little
pictures  decoding and preparing in worker processes, ahead of the model
embed     embed_split: all of it
regions   RegionFolder: region features in the precomp layout
"""
