"""The coupled banks as a list that forgets from the front."""

from collections.abc import Iterable


class Ring:
    """Keeps the newest `size` entries, oldest first.

    Args:
        size: slots.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self.entries: list[tuple[list[float], list[float], int]] = []

    def enqueue(self, entries: Iterable[tuple[list[float], list[float], int]]) -> None:
        """Append (image key, text key, image id) triples; the oldest leave."""
        for entry in entries:
            self.entries.append(entry)
            if len(self.entries) > self.size:
                self.entries.pop(0)
