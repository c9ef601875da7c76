"""Optional parts of a training step behind one interface, `Part` in `training/step.py`: learned scale, review weights,
momentum memory, neighbourhoods, embedding regularisers, boosting, concepts, prototypes.

`make_parts` creates those that a configuration needs.
"""
