from app.frame import sidebar

sidebar.page("retrieval")
