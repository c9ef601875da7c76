"""Files of a run that survive kills and show damage: sealed folders and saves, the lock, the history, the status."""
