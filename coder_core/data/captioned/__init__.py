"""Pictures with captions, as people have them: the layout of a folder, its splits, and where every picture lies.

layouts      recognise a layout: the list of all
annotated, flickr, archives      the layouts: each reads its files into records
records      one image with one caption each, and what the layouts share
reading      read_captioned: all splits of a data set, checked; the seeded split of data without one
positions    locations of the pictures: files, members of tar files, rows of parquet files
decoding     pictures prepared in worker processes; checking: every picture decoded once
"""
