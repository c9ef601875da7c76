from app.frame import sidebar

sidebar.page("weights")
