"""What a worker says to people: each thing once, and again only after a while if it still holds."""

import time
from collections.abc import Callable

AGAIN_AFTER_S = 60.0


class Voice:
    """Says lines about subjects; `say` prints them."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._said: dict[object, tuple[str, float]] = {}

    def tell(self, subject: object, line: str) -> None:
        """Say how it stands with a subject, unless that was said a moment ago."""
        before, at = self._said.get(subject, ("", 0.0))
        now = time.monotonic()
        if line != before or now - at >= AGAIN_AFTER_S:
            self._said[subject] = line, now
            self._say(line)

    def over(self, subject: object, line: str) -> None:
        """Say that it is over, if it was ever said that it had begun."""
        if self._said.pop(subject, None) is not None:
            self._say(line)
