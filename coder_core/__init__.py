"""CODER Lab's core: data, encoders, objectives, training, evaluation. Importing it changes nothing of the process."""
