"""What the ids of an imported episode and its events follow from: the record alone."""

from typing import TYPE_CHECKING

from core.identity import episode_id, uuid8, uuid8_begun

if TYPE_CHECKING:
    from core.identity import Begun


class Identity:
    """What the ids of an imported episode follow from: its record, and which of the record's episodes
    it is (`ordinal`)."""

    def __init__(self, format: str, mapping: int, generation: int, digest: bytes, ordinal: int) -> None:
        self._parts = (format.encode(), b"%d" % mapping, b"%d" % generation, b"%d" % ordinal, digest)
        self.generation = generation
        self.stream = f"episode/{episode_id(*self._parts)}"

    @property
    def run(self) -> bytes:
        return uuid8(b"run", *self._parts)

    @property
    def events(self) -> "Begun":
        """What the ids of its events follow from besides their number."""
        return uuid8_begun(*self._parts)
