"""Packs the next batch bit by bit, in the moments when the database has enough to do.

One thread is quicker here than two: a second would wait for the interpreter's lock at every write.
"""

from collections.abc import Iterable
from itertools import islice

from core.event import Event
from eventlog.pack import Packed, Packer

BATCH_EVENTS = 10_000
BATCH_BYTES = 32_000_000
_STEP = 32


class Ahead:
    """The batches of any number of events, each of at most `most` events and `BATCH_BYTES`."""

    def __init__(self, events: Iterable[Event], most: int) -> None:
        self._events = iter(events)
        self._most = most
        self._packer = Packer()
        self._failure: Exception | None = None

    def some(self) -> bool:
        """Pack a few more events of the next batch; False when there is nothing to do."""
        packer = self._packer
        room = min(_STEP, self._most - len(packer))
        if self._failure is not None or room < 1 or packer.size > BATCH_BYTES:
            return False
        before = len(packer)
        try:
            packer.take(islice(self._events, room))
        except Exception as error:  # of the events' source too: the commit under way goes on, `batch` raises it
            self._failure = error
            return False
        return len(packer) > before

    def batch(self) -> Packed | None:
        """The next batch, None when there is none. Raises what an event in it was refused for."""
        while self.some():
            pass
        if self._failure is not None:
            raise self._failure
        packer, self._packer = self._packer, Packer()
        return packer.packed() if len(packer) else None
