"""Check a data set, or the data of a run, and print what was found.

arguments    flags of the command check_data
survey       a data set, read as training would read it
stored_run   the data of an evaluated run
tables       tables and sentences that both print
"""
