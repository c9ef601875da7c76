"""Joint space page: maps, modality gap, similarities."""

from app.components.unavailable import embedded
from app.frame import sidebar
from app.views import joint

title = "Do images and texts share one space?"
whole = "where points lie and the modality gap"
sidebar.page(title, lambda choice: joint.show(embedded(choice)), of_two=True, whole=whole, narrowed=True)
