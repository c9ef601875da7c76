"""The concept branch: choose concepts from captions (`vocabulary`, `tagging`, `lemmas`), connect and store them
(`knowledge`), attend to them (`attention`)."""
