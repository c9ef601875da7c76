"""Shared parts of the commands: parsing, faults and exit status, printing, tables, progress, signals, processes."""
