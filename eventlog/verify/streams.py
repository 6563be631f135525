"""Stream by stream: versions dense and in order, heads as they should be, writers' numbers without gaps."""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable
from typing import Any
from uuid import UUID

import msgspec

from core.event import StoredEvent
from core.merkle import TILE
from eventlog import database
from eventlog.verify.report import SEQ, Findings
from eventlog.verify.sequence import END, Fault, Head, Place, judge
from eventlog.verify.tree import Row, Tree

_PLACES = "SELECT position, version FROM trajlog.event WHERE stream = %s AND position <= %s ORDER BY position"
_SEQS = (
    "SELECT seq, position FROM trajlog.event WHERE stream = %s AND run = %s AND position <= %s ORDER BY seq, position"
)


class _Track:
    """One stream so far: the version and position reached, and whether a version did not follow."""

    __slots__ = ("broken", "first", "position", "version")

    def __init__(self, version: int, first: int) -> None:
        self.version = version
        self.first = first
        self.position = first
        self.broken = False


class _Ended(msgspec.Struct):
    runs: dict[str, int] = {}


_ended = msgspec.json.Decoder(_Ended).decode


class Damage:
    """What the events alone show of a log that ends at position `end`. `altered`: positions whose event
    is not what its digest was taken over; `gone`: positions, as committed, of events that are lost or
    not to be trusted; `holes`: those without an event; `slack`: how far positions may have moved."""

    def __init__(
        self, tree: Tree, end: int, altered: frozenset[int], blamed: Iterable[int], holes: frozenset[int], slack: int
    ) -> None:
        self.tree = tree
        self.end = end
        self.altered = altered
        self.holes = holes
        self.slack = slack
        self.added: dict[str, set[int]] = {}
        for row in tree.added:
            self.added.setdefault(row.stream, set()).add(row.position)
        put_in = {row.position for row in tree.added}
        untrusted = {at for at in blamed if at in altered or not (at in tree.origin or at in put_in)}
        self.gone: list[float] = sorted({*tree.lost, *holes, *map(tree.committed, untrusted)})
        self.named: dict[float, tuple[str, int]] = {}
        self.vacated = {was for at, was in tree.origin.items() if was != tree.committed(at)}
        self.missing = 0


class Streams:
    """Follows every sound event in the order of positions. `whole`: the log is read from its beginning;
    `until`: the last position that is looked at."""

    def __init__(self, connection: database.Connection, findings: Findings, *, whole: bool, until: int) -> None:
        self._connection = connection
        self._findings = findings
        self._whole = whole
        self._until = until
        self._tracks: dict[str, _Track] = {}
        self._runs: dict[tuple[str, bytes], list[int]] = {}
        self._stated: dict[tuple[str, bytes], int] = {}

    def __len__(self) -> int:
        return len(self._tracks)

    def follow(self, event: StoredEvent) -> int:
        """The version that this event should have, by the one before it in its stream."""
        track = self._tracks.get(event.stream)
        if track is None:
            self._tracks[event.stream] = track = _Track(0 if self._whole else event.version - 1, event.position)
        expected = track.version + 1
        if event.version != expected:
            track.broken = True
        track.version = event.version
        track.position = event.position
        key = (event.stream, event.run)
        run = self._runs.get(key)
        if run is None:
            self._runs[key] = [event.seq, event.seq, 1]
        else:
            if event.seq > run[1]:
                run[1] = event.seq
            elif event.seq < run[0]:
                run[0] = event.seq
            run[2] += 1
        if event.type == "EpisodeEnded":
            self._state(event)
        return expected

    def _state(self, event: StoredEvent) -> None:
        try:
            runs = _ended(event.body).runs
        except msgspec.DecodeError:
            return
        for name, seq in runs.items():
            try:
                key = (event.stream, UUID(name).bytes)
            except ValueError:
                continue
            self._stated[key] = max(seq, self._stated.get(key, 0))

    # -- versions and heads --------------------------------------------------------------------------

    def finish(self, heads: dict[str, Head], damage: Damage) -> None:
        """Judge the streams that do not read as their heads say; without a whole log, only those that
        were followed."""
        tree = damage.tree
        doubtful: list[tuple[str, Head | None]] = []
        for stream, track in self._tracks.items():
            head = heads.pop(stream, None)
            first = tree.committed(track.first) if self._whole or head is None else head.first
            if track.broken or head != (track.version, first, tree.committed(track.position)):
                doubtful.append((stream, head))
        if self._whole:
            doubtful += heads.items()
        renamed = self._renamed(doubtful)
        for stream, head in doubtful:
            if stream not in renamed:
                self._judge(stream, head, damage)

    def _renamed(self, doubtful: list[tuple[str, Head | None]]) -> set[str]:
        """A head without events and events without a head, of the same numbers: one fault."""
        empty = {head: stream for stream, head in doubtful if head is not None and stream not in self._tracks}
        found = set()
        for stream, head in doubtful:
            track = self._tracks.get(stream)
            if head is None and track is not None and not track.broken:
                other = empty.get(Head(track.version, track.first, track.position))
                if other is not None:
                    detail = f"the stream's head goes by the name {other!r}"
                    self._findings.stream("column", stream, detail, position=track.position, version=track.version)
                    found |= {stream, other}
        return found

    def _judge(self, stream: str, head: Head | None, damage: Damage) -> None:
        places, drift = self._places(stream, head, damage)
        verdict = judge(
            places,
            head,
            damage.gone,
            whole=self._whole,
            holes=damage.holes,
            slack=damage.slack,
            drift=drift,
            end=damage.end,
        )
        for fault in verdict.faults:
            self._report(stream, fault, damage)
        damage.vacated |= verdict.vacated
        for position, version in verdict.named.items():
            damage.named[position] = (stream, version)

    def _places(self, stream: str, head: Head | None, damage: Damage) -> tuple[list[Place], int]:
        """The stream's events that can be trusted, placed as they were committed; and by how much its
        versions moved because events were taken out or put in before them."""
        tree, blamed, added = damage.tree, self._findings.blamed, damage.added.get(stream, set())
        begin = -END if self._whole else self._tracks[stream].first
        places = []
        moved = 0
        for at, version in self._connection.execute(_PLACES, (stream, self._until)).fetchall():
            origin = tree.origin.get(at)
            if at < begin or at in damage.altered or (origin is None and at in blamed and at not in added):
                continue
            if not 1 <= at <= damage.end and (head is None or version > head.version):
                continue  # put in outside of the log
            if not added:
                was = tree.version.get(at, version)
                if was != version and at not in blamed:
                    moved = was - version
                elif at > tree.tiles * TILE:
                    was = version + moved
                version = was
            places.append(Place(tree.committed(at) if origin is None else origin, version, at))
        return places, len(added) or abs(moved)

    def _report(self, stream: str, fault: Fault, damage: Damage) -> None:
        if fault.kind == "missing":
            damage.missing += fault.lacks
            insort(damage.gone, fault.at - 0.5)
            self._findings.stream("missing", stream, fault.detail, position=fault.at, version=fault.version)
        elif fault.kind == "head":
            self._findings.stream("column", stream, fault.detail, position=fault.at, version=fault.version)
        else:
            self._findings.event(fault.kind, _row(fault, stream), fault.detail)

    # -- writers' numbers ----------------------------------------------------------------------------

    def gaps(self, damage: Damage) -> None:
        """Name the numbers that writers used and the log has not, where no known damage explains it."""
        for key in {**self._runs, **self._stated}:
            lowest, highest, count = self._runs.get(key, (1, 0, 0))
            stated = self._stated.get(key, 0)
            if highest - (1 if self._whole else lowest) + 1 == count and stated <= highest:
                continue
            missing = list(self._missing(key, stated, damage))
            if missing:
                stream, run = key
                lacks = ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in missing)
                self._findings.stream(SEQ, stream, f"run {UUID(bytes=run)} lacks seq {lacks}")

    def _missing(self, key: tuple[str, bytes], stated: int, damage: Damage) -> Iterable[tuple[int, int]]:
        """The first and last of each stretch of numbers that nobody accounts for."""
        stream, run = key
        committed, blamed = damage.tree.committed, self._findings.blamed
        params = (stream, UUID(bytes=run), self._until)
        had: list[tuple[int, Any]] = [
            (seq, committed(at))
            for seq, at in self._connection.execute(_SEQS, params).fetchall()
            if at not in damage.altered and (at not in blamed or at in damage.tree.origin)
        ]
        before, place = 0, 0
        for seq, at in [*had, (stated + 1, END)]:
            lacks = seq - before - 1
            low, high = min(place, at), max(place, at)
            between = bisect_left(damage.gone, high) - bisect_right(damage.gone, low)
            if lacks > between:
                yield before + 1, seq - 1
            if seq > before:
                before, place = seq, at


def _row(fault: Fault, stream: str) -> Row:
    return Row(fault.at, stream, fault.version, 0, b"", b"", b"")
