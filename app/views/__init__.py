"""Sections that pages are made of: each draws one part of a page from the chosen runs."""
