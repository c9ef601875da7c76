"""Reviews page: verdicts on the data and their effect."""

from app.frame import sidebar
from app.views import reviews

sidebar.page("What did people say about the data?", reviews.show)
