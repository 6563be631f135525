"""What the ids of an imported episode and its events follow from: the record alone."""

from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from core.identity import EPISODE, begun, episode_id_of, then, uuid8_of

if TYPE_CHECKING:
    from core.identity import Begun


class Identity:
    """What the ids of an imported episode follow from: its record, and which of the record's episodes
    it is (`ordinal`)."""

    def __init__(self, format: str, mapping: int, generation: int, digest: bytes, ordinal: int) -> None:
        self._begun = _begun(format, mapping, generation, ordinal)
        self._digest = digest
        self.generation = generation
        self.stream = f"episode/{episode_id_of(then(self._begun.episode, digest))}"

    @property
    def run(self) -> bytes:
        return uuid8_of(then(self._begun.run, self._digest))

    @property
    def events(self) -> "Begun":
        """What the ids of its events follow from besides their number."""
        return then(self._begun.events, self._digest)


class _Ids(NamedTuple):
    """How the ids of a kind begin, before the record's digest."""

    episode: "Begun"
    run: "Begun"
    events: "Begun"


@lru_cache(maxsize=256)
def _begun(format: str, mapping: int, generation: int, ordinal: int) -> _Ids:
    """Many records share what comes before their digest."""
    parts = (format.encode(), b"%d" % mapping, b"%d" % generation, b"%d" % ordinal)
    return _Ids(begun(EPISODE, *parts), begun(b"run", *parts), begun(*parts))
