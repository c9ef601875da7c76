"""Training: `launch` starts or continues a run, `prepare` reads the data and builds the model, `trainer` runs the
training loop, `step` computes the losses of one step. `parts` has the optional parts, `state` the saves."""
