"""Data sets of pictures with captions: layout detection, splits, and the location of every picture."""
