"""The concepts of a run: choose them from its captions (`choosing`), count, embed, connect and store them (`knowledge`)."""
