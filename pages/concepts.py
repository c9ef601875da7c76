"""Concepts page: the concept branch of CODER."""

from app.frame import sidebar
from app.views import concepts

whole = "the concept graph and the list of all concepts"
sidebar.page("What does the concept branch read?", concepts.show, of_two=True, whole=whole, narrowed=True)
