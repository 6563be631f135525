"""The rows of the release before, met while the next is made: what stays, what changed, what is gone."""

from typing import NamedTuple

from learners.releases.base import Base
from learners.releases.index import Entry
from learners.releases.register import Spool
from learners.rows import Key, Row


class Old(NamedTuple):
    entry: Entry
    place: int

    def same(self, reference: bytes) -> bool:
        """Whether its bytes are those of a row that refers to the same."""
        return self.entry.plain and self.entry.reference == reference


class Before:
    """The rows of the release before, met in canonical order; what changed goes into the spool. `voids` counts
    rows that are not what they were, whatever the recipe says of them."""

    def __init__(self, base: Base, spool: Spool) -> None:
        self._entries = enumerate(base.entries())
        self._next = next(self._entries, None)
        self._spool = spool
        self.voids = 0

    def meet(self, key: Key, *, kept: bool) -> Old | None:
        """The row of that key, if there was one; those before it are gone. One that is not kept leaves."""
        while self._next is not None and self._next[1].key < key:
            self._gone(self._next[1], void=True)
            self._next = next(self._entries, None)
        if self._next is None or self._next[1].key != key:
            return None
        place, entry = self._next
        self._next = next(self._entries, None)
        if not kept:
            self._gone(entry, void=False)
        return Old(entry, place)

    def made(self, entry: Entry, old: Old | None, row: Row) -> None:
        """A row that was made anew."""
        if old is not None and old.entry.digest == entry.digest:
            return
        self.voids += old is not None
        own = (row.key.stream,)
        streams = tuple(sorted({stream for stream, _ in row.sources}))
        self._spool.add((*entry.key, entry.digest, None if streams == own else streams))

    def lost(self, old: Old | None) -> None:
        """A row that cannot be made."""
        if old is not None:
            self._gone(old.entry, void=True)

    def end(self) -> None:
        while self._next is not None:
            self._gone(self._next[1], void=True)
            self._next = next(self._entries, None)

    def _gone(self, entry: Entry, *, void: bool) -> None:
        self.voids += void
        self._spool.add((*entry.key, None, None))
