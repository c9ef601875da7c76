"""The optional parts of a training step behind one interface: learned scale, momentum memory, neighbourhoods,
boosting, concepts, prototypes.

`make_parts` gives those a configuration asks for. `part.py` says what every part offers and when it is called.
"""
