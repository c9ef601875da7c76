"""Regions of a picture that each word of a caption reads.

maps      the formulas: cosines, the interaction scorer's attention, regions laid over a picture
regions   where the regions of a run's images come from, and where they lie in the picture
reading   a run, a text and a picture -> a heat map
"""

from coder_core.api.heat_maps.maps import HeatMap, Laid, cosines, interaction_attention, lay_over
from coder_core.api.heat_maps.reading import WAYS, Way, heat_map, heat_map_ways, load_encoders

__all__ = [
    "WAYS",
    "HeatMap",
    "Laid",
    "Way",
    "cosines",
    "heat_map",
    "heat_map_ways",
    "interaction_attention",
    "lay_over",
    "load_encoders",
]
