"""Shared by all commands: printing, progress, faults and exit status.

faults      what is wrong with an input: place, fact, expectation, way out
runner      makes a command of a function: faults, signals and a reader that is gone become exit statuses
output      a console as wide as what it writes to, plain lines, faults
tables      tables that leave out columns before they break words; the tables of retrieval metrics
progress    progress of long work: one protocol, drawn on the screen and written to a file for other processes
display     the progress of a training run
outputs     is a result's place there and writable, before the work
interrupts  Ctrl-C while a command still imports what it needs
processes   processes of their own: start, watch, stop
signals     SIGTERM, SIGHUP and Ctrl-C, noted instead of raised
"""

from coder_core.console.faults import Fault, InputError, stop_on_errors

__all__ = ["Fault", "InputError", "stop_on_errors"]
