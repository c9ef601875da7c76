"""Components that Streamlit lacks: tables, clicks, cards, downloads, links, selections on maps."""
