"""Pictures with captions, as people have them: which layout a folder has, its splits, and where every picture lies.

layouts      the list of layouts, each with how it is recognised
reading      read_captioned: all splits of a data set, checked; the seeded split of data without one
records      what a layout gives: one image with one caption a record
positions    where the pictures lie: files, members of tar files, rows of parquet files
flickr, coco, field, imagefolder, parquet, downloaded      the layouts
"""

from coder_core.data.captioned.layouts import FORMATS, holds_pictures_only, recognise
from coder_core.data.captioned.reading import CaptionedSplit, decode_all, read_captioned

__all__ = ["FORMATS", "CaptionedSplit", "decode_all", "holds_pictures_only", "read_captioned", "recognise"]
