"""The frame around pages: navigation, sidebar, saved views, the server and its guard."""
