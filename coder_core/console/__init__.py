"""Shared by all commands: printing, progress, faults and exit status.

faults      a fault of an input: place, fact, expectation, fix
runner      makes a command of a function: faults, signals and a closed pipe become exit statuses; torch's variables
output      a console as wide as what it writes to, plain lines, faults
tables      tables that leave out columns before they break words; the tables of retrieval metrics
progress    progress of long work: one protocol, drawn on the screen and written to a file for other processes
display     the progress of a training run
plain_files open and replace files in untrusted folders; check that a result can be written
documents   check the values of JSON from untrusted files
processes   jobs: start, watch, stop
signals     SIGTERM, SIGHUP and Ctrl-C, noted instead of raised; Ctrl-C during imports
"""
