"""Joint space page: maps, modality gap, similarities."""

from app.frame import sidebar
from app.frame.unavailable import embedded
from app.views import joint

sidebar.page(
    "Do images and texts share one space?",
    lambda choice: joint.show(embedded(choice)),
    of_two=True,
    whole="where points lie, the modality gap and the curves of similarities",
)
