"""Optional parts of a training step behind one interface, `Part` in `training/step.py`: momentum memory, learned scale,
neighbourhoods, embedding regularisers, boosting, prototypes. (The weights of reviews are in `training/reviewed.py`.)

`make_objective` in `training/prepare.py` creates those that a configuration needs.
"""
