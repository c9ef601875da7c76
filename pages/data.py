from app.frame import sidebar

sidebar.page("data")
