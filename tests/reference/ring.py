"""The coupled memory banks as a list that drops its oldest entries."""


class Ring:
    """List of the newest `size` entries, oldest first.

    Args:
        size: slots.
    """

    def __init__(self, size):
        self.size = size
        self.entries = []

    def enqueue(self, entries):
        """Append (image key, text key, image id) triples and drop the oldest beyond `size`."""
        for entry in entries:
            self.entries.append(entry)
            if len(self.entries) > self.size:
                self.entries.pop(0)
