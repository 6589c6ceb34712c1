"""A storage that refuses the writes of earlier holders."""


class FencedStorage:
    """Keeps the highest fencing token that it has seen and refuses lower ones."""

    def __init__(self):
        self._highest = 0
        self.values = []

    def write(self, token: str, value: str) -> bool:
        """Writes a value; false if a later holder has written."""
        if int(token) < self._highest:
            return False
        self._highest = int(token)
        self.values.append(value)
        return True
