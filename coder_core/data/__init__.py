"""Data sets: read and checked, as words and batches.

dataset      read_split: one split of a data set, whatever its layout; what splits must share
precomp      {split}_ims.npy, _caps.txt, _ids.txt, and which caption belongs to which image
karpathy     dataset_*.json with features beside it; gather copies scattered rows of one features file
features     .npy files, memory-mapped, their values checked; lines: text files; raw_split: what both layouts give
pictures     picture files, opened inside their folder only
words        captions as numbers; glove: word vectors, read or learned
batches      training batches that follow from seed and step
embeddings   another model's embeddings
survey       all faults of a data set; description: its counts, shapes and sizes
demo         the built-in data set
"""
