"""Pictures with captions, as people have them: the layout of a folder, its splits, and where every picture lies.

layouts      recognise a layout: the list of all
reading      read_captioned: all splits of a data set, checked; the seeded split of data without one
records      the rows that a layout gives: one image with one caption each
positions    where the pictures lie: files, members of tar files, rows of parquet files
decoding     pictures prepared in worker processes
flickr, coco, field, imagefolder, parquet, downloaded      the layouts
"""
