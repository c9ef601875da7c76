"""Training from outside: what can be started and with which arguments, jobs, and the sample weights of a run."""
