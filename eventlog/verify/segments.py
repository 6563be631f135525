"""Commit by commit: segments contiguous, chained, sealed, and in the order of time."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from core.digest import segment_seal
from eventlog import database
from eventlog.verify.report import Findings

_SEGMENTS = (
    "SELECT first_position, last_position, uuid_send(topic_id), partition, first_offset, next_offset, committed_at, "
    "previous, seal FROM trajlog.segment WHERE last_position > %s AND last_position <= %s "
    "ORDER BY last_position LIMIT 10000"
)
_BEFORE = (
    "SELECT first_position, last_position, committed_at, previous, seal FROM trajlog.segment "
    "WHERE last_position <= %s ORDER BY last_position DESC LIMIT 1"
)


class Segment(NamedTuple):
    first: int
    last: int
    committed_at: int
    previous: bytes | None
    seal: bytes
    computed: bytes | None = None


class Chain:
    """The segments in order. One whose fields are not those it was sealed with is blamed alone: what
    its neighbours say of it is judged by the neighbours' own seals."""

    def __init__(self, connection: database.Connection, since: int, until: int, findings: Findings) -> None:
        self._findings = findings
        self._unsound: list[Segment] = []
        self.count = 0
        start = Segment(1, 0, -(2**63), None, b"")
        if since:
            row = connection.execute(_BEFORE, (since,), binary=True).fetchone()
            start = Segment(*row) if row else start
        self._last = start
        after = start.last
        breaks: list[tuple[Segment, Segment]] = []
        while rows := connection.execute(_SEGMENTS, (after, until), binary=True).fetchall():
            for row in rows:
                self.count += 1
                after = row[1]
                segment = _segment(row)
                if segment.computed != segment.seal:
                    self._unsound.append(segment)
                    continue
                if segment.first != self._last.last + 1 or segment.previous != (self._last.seal or None):
                    breaks.append((self._last, segment))
                elif segment.committed_at <= self._last.committed_at:
                    findings.frame("segment", segment.last, "the segment that ends here is older than the one before")
                self._last = segment
        self._blame(breaks)

    def end(self, last_event: int) -> int:
        """The position at which the log ends: where events stand that a damaged last segment held, they count."""
        seal, first = self._last.seal or None, self._last.last + 1
        open_end = any(segment.previous == seal or segment.first == first for segment in self._unsound)
        return max(self._last.last, last_event) if open_end else self._last.last

    def _blame(self, breaks: list[tuple[Segment, Segment]]) -> None:
        places = {id(segment): segment.last for segment in self._unsound}
        for before, after in breaks:
            between = [s for s in self._unsound if after.previous in (s.seal, s.computed)]
            if between:
                places |= {id(segment): after.first - 1 for segment in between}
            elif after.first > before.last + 1:
                detail = f"there is no segment for positions {before.last + 1} to {after.first - 1}"
                self._findings.frame("segment", after.first - 1, detail)
            else:
                detail = f"the segment that ends here does not follow the one that ends at {before.last}"
                self._findings.frame("segment", after.last, detail)
        for segment in self._unsound:
            detail = "the segment that ends here has fields that are not those it was sealed with"
            self._findings.frame("segment", places[id(segment)], detail)


def _segment(row: Sequence[Any]) -> Segment:
    first, last, topic_id, partition, first_offset, next_offset, committed_at, previous, seal = row
    try:
        computed = segment_seal(
            previous=previous,
            first_position=first,
            last_position=last,
            committed_at=committed_at,
            topic_id=topic_id,
            partition=partition,
            first_offset=first_offset,
            next_offset=next_offset,
        )
    except OverflowError:  # a number that no segment can have
        computed = None
    return Segment(first, last, committed_at, previous, seal, computed)
