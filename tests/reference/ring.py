"""The coupled banks as a list that forgets from the front."""


class Ring:
    """Keeps the newest `size` entries, oldest first.

    Args:
        size: slots.
    """

    def __init__(self, size):
        self.size = size
        self.entries = []

    def enqueue(self, entries):
        """Append (image key, text key, image id) triples; the oldest leave."""
        for entry in entries:
            self.entries.append(entry)
            if len(self.entries) > self.size:
                self.entries.pop(0)
