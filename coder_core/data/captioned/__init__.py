"""Pictures with captions, as people have them: the layout of a folder, its splits, and the file of every picture."""
