"""The Retrieval page: queries that fail, hubs, and one query in detail."""
