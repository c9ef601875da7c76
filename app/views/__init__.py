"""The sections of pages; each draws one part of a page from the chosen runs."""
