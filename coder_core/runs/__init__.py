"""Run folders: their files, analyses for the app, results derived from these, and loading of a run's model."""
