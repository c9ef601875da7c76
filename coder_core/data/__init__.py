"""Data sets: read and checked, as words and batches.

dataset      read_split: one split of a data set with features; Karpathy's JSON and its features
precomp      {split}_ims.npy, _caps.txt, _ids.txt, and which caption belongs to which image
split        one split: features or pictures with captions; what splits must share; checksums
captioned    pictures with captions in any layout; content: faults of the pictures and captions themselves
features     .npy files, memory-mapped, their values checked; lines: text files
pictures     picture files, opened inside their folder only
words        captions as numbers; glove: word vectors, read or learned
batches      training batches that follow from seed and step; augmentation: changed pictures, vague captions
embeddings   another model's embeddings
reviews      people's verdicts on pairs; judgements: positives beyond the labels, probes
survey       all faults of a data set, and its counts, shapes and sizes
"""
