"""The concept branch: choose concepts from captions (`vocabulary`, `tagging`, `lemmas`), connect them (`cooccurrence`,
`gcn`), attend to them (`attention`), store them with a run (`knowledge`)."""
