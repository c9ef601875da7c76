"""Training: `launch` starts or continues a run, `trainer` loops over its steps, `step` gives the losses of one.

`prepare` reads data and builds the model, `parts` are the optional parts of a step, `state` saves and restores,
`reporting` tells how a run is doing, `parallel` exchanges between processes.
"""
