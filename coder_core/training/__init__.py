"""Training: `launch` starts or continues a run, `prepare` reads data and builds the model, `trainer` loops over the
steps, `step` computes the losses of one. `parts` are the optional parts of a step, `state` saves and restores."""
