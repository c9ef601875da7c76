"""Run folders: their files, the analyses the app reads, what is derived from them, and loading a run's model."""
