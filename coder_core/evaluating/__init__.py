"""The parts of the evaluate command: its arguments, its inputs, its rows and its tables."""
