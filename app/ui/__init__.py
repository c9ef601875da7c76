"""Frame and widgets: sidebar, cards, controls, links, downloads, glossary, selections, and the host guard."""
