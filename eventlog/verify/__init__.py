"""Is the record whole and unaltered? Recomputes digests, versions, tree and segments, and names every
break exactly. Nothing is written."""

import struct
from collections.abc import Callable, Iterable
from typing import Any, Final

from core.digest import event_digest
from core.errors import Corrupt, NotFound
from core.event import StoredEvent
from core.merkle import TILE, TILE_BITS, Frontier, leaf_hash, subtree_root
from core.tag import Receipt
from eventlog import database
from eventlog.pack import crc
from eventlog.reader import CRC, Reader, event_of
from eventlog.sealer import Tiles
from eventlog.verify.references import Blobs, References
from eventlog.verify.report import Findings, Problem, Report
from eventlog.verify.segments import Chain
from eventlog.verify.sequence import Head
from eventlog.verify.streams import Damage, Streams
from eventlog.verify.tree import Fields, Row, Tree
from eventlog.versions.receipt import fault

__all__ = ["Problem", "Report", "verify", "verify_stream"]

_FIRST = -(2**63)
_LOG = (
    "SELECT b.*, s.stream, s.version, s.first_position, s.last_position FROM (SELECT "
    "coalesce((SELECT max(position) FROM trajlog.event), 0), "
    "coalesce((SELECT max(last_position) FROM trajlog.segment), 0), "
    "coalesce((SELECT max(index) FROM trajlog.merkle WHERE level = 0), -1)) b LEFT JOIN trajlog.stream s ON {which}"
)
_WHOLE = _LOG.format(which="true")
_ONE = _LOG.format(which="s.stream = %s")

TAIL: Final = (
    "whether events committed last were cut off together with their segments: only a receipt kept elsewhere tells"
)

COVERED: Final = (
    "whether events committed after position {}, where the receipt ends, were cut off together with their segments"
)

Progress = Callable[[int], None]


class _Extent:
    """The log as it was when verification began, in one look: it may grow meanwhile."""

    def __init__(self, connection: database.Connection, *stream: str) -> None:
        rows = connection.execute(_ONE if stream else _WHOLE, stream or None).fetchall()
        self.last_event, self.last_segment, self.last_tile = rows[0][:3]
        self.heads = {row[3]: Head(*row[4:]) for row in rows if row[3] is not None}


def verify(
    reader: Reader,
    *,
    since: int = 0,
    blobs: Blobs | None = None,
    progress: Progress | None = None,
    receipt: Receipt | None = None,
) -> Report:
    """Verify every event after position `since`, with the segments and tiles they are in.

    `blobs` looks them up (None: they are not checked); `progress` is told how many events were
    read. The root is recomputed from the events themselves, all of them when `since` is 0, and must
    extend that of the `receipt`, one of this log.
    """
    findings, references = Findings(), References()
    with reader.borrow() as connection:
        extent = _Extent(connection)
        since = min(since, extent.last_segment)
        chain = Chain(connection, since, extent.last_segment, findings)
        head = chain.end(extent.last_event)
        tree = Tree(connection, head, extent.last_tile, findings)
        scan = _Scan(connection, tree, findings, since=since, head=head, until=max(head, extent.last_event))
        for rows in reader.raw_pages(after=scan.start if since else _FIRST, until=scan.until):
            for raw in rows:
                event = scan.take(raw)
                if blobs is not None and event is not None:
                    references.note(event)
            if progress:
                progress(len(rows))
        damage = scan.finish()
        scan.streams.finish(dict(extent.heads), damage)
        scan.report_positions(damage, extent)
        scan.streams.gaps(damage)
        root = scan.frontier.root()
        known = 0
        if receipt is not None:
            broken = fault(connection, receipt, head, root)
            if broken:
                findings.frame("receipt", receipt.tag.position, broken)
            else:
                known = receipt.tag.position
    if blobs is not None:
        findings.problems += references.faults(blobs)
    return Report(
        ok=findings.ok,
        position=head,
        root=root.hex(),
        events=scan.events,
        streams=len(scan.streams),
        segments=chain.count,
        problems=findings.sorted(),
        unknowable=_unknowable(tree.tiles * TILE, head, since, known),
    )


def verify_stream(reader: Reader, stream: str, *, blobs: Blobs | None = None) -> Report:
    """Verify one stream: its events, versions, numbering, blobs, and their place in the tree.
    `NotFound` where the log has no such stream."""
    findings, references = Findings(), References()
    with reader.borrow() as connection:
        extent = _Extent(connection, stream)
        head = extent.last_segment
        tree = Tree(connection, head, extent.last_tile, findings)
        streams = Streams(connection, findings, whole=True, until=extent.last_event)
        count = 0
        for rows in reader.raw_stream(stream, until=extent.last_event):
            count += len(rows)
            for raw in rows:
                event, fields, sound = _judge(raw, findings, streams)
                tree.place(Row(*fields))
                if blobs is not None and sound:
                    references.note(event)
        if not count and not extent.heads:
            raise NotFound("no such stream", where=stream, mend="trajlog ls lists the episodes")
        damage = Damage(tree, head, frozenset(findings.blamed), findings.blamed, frozenset(), 0)
        streams.finish(extent.heads, damage)
        streams.gaps(damage)
        root = _root(connection, head)
    if blobs is not None:
        findings.problems += references.faults(blobs)
    unknowable = _unknowable(tree.tiles * TILE, head, 0)
    return Report(findings.ok, head, root, count, 1, 0, findings.sorted(), unknowable)


class _Scan:
    """One pass over the events in the order of positions."""

    def __init__(
        self, connection: database.Connection, tree: Tree, findings: Findings, *, since: int, head: int, until: int
    ) -> None:
        self.start = since // TILE * TILE
        self.until = until
        self.tree = tree
        self.streams = Streams(connection, findings, whole=since == 0, until=until)
        self.frontier = Tiles(connection).frontier(self.start) if self.start else Frontier()
        self.events = 0
        self._findings = findings
        self._since = since
        self._head = head
        self._position = self.start
        self._index = self.start // TILE
        self._tile: list[Fields] = []
        self._leaves: list[bytes] = []
        self._beyond: list[Row] = []
        self._holes: list[range] = []

    def take(self, raw: tuple[Any, ...]) -> StoredEvent | None:
        """Judge a row by itself and put it in its tile; the event, where it is sound."""
        event, fields, sound = _judge(raw, self._findings, self.streams)
        position = event.position
        if position > self._since:
            self.events += 1
        if self._position + 1 < position <= self._head:
            self._holes.append(range(self._position + 1, position))
        if position > 0:
            index = min(position - 1, self._head) // TILE
            if index != self._index:
                self._close(index)
        if 1 <= position <= self._head:
            self._position = position
            self._leaves.append(fields[-1])
        else:
            self._beyond.append(Row(*fields))
        self._tile.append(fields)
        return event if sound else None

    def finish(self) -> Damage:
        """Close the last tiles, and match what is lost with what came: what the events alone show."""
        if self._position < self._head:
            self._holes.append(range(self._position + 1, self._head + 1))
        self._close(max(self._index + 1, self.tree.tiles))
        altered = frozenset(self._findings.blamed)
        holes = frozenset(position for hole in self._holes for position in hole)
        self.tree.finish(holes)
        slack = max(self._trailing(), len(self._beyond))
        return Damage(self.tree, self._head, altered, self._findings.blamed, holes, slack)

    def _trailing(self) -> int:
        return len(self._holes[-1]) if self._holes and self._holes[-1].stop == self._head + 1 else 0

    def _close(self, index: int) -> None:
        """The rows of the tiles before `index` are complete: compare them, and grow the root by them."""
        while self._index < index:
            leaves = self._leaves
            root = subtree_root(leaves) if len(leaves) == TILE else b""
            if root and self.frontier.size % TILE == 0:
                self.frontier.push(root, TILE_BITS)
            else:
                for leaf in leaves:
                    self.frontier.push(leaf)
            self.tree.compare(self._index, self._tile, leaves, root)
            self._tile, self._leaves = [], []
            self._index += 1

    def report_positions(self, damage: Damage, extent: _Extent) -> None:
        """Name the positions without an event, and the events without a position in the log."""
        tree, findings = self.tree, self._findings
        lost = sorted({*tree.lost, *damage.holes} - damage.vacated)
        accounted = damage.missing + sum(position not in damage.holes for position in tree.lost)
        trailing = self._trailing()
        if trailing and accounted >= trailing:  # the rest moved up
            lost = [position for position in lost if position <= self._head - trailing or position in damage.named]
        for run in _runs(lost, damage.named):
            stream, version = damage.named.get(run[0], (None, None)) if len(run) == 1 else (None, None)
            what = "no event at this position" if len(run) == 1 else f"no events at positions {run[0]} to {run[-1]}"
            findings.problems.append(Problem("missing", run[0], stream, version, what))
        self._report_beyond(extent)

    def _report_beyond(self, extent: _Extent) -> None:
        beyond = [row for row in self._beyond if row.position not in self._findings.blamed]
        accounted = sum(problem.kind == "inserted" for problem in self._findings.problems)
        if not beyond or accounted >= len(beyond) == len(self._beyond):  # the rest moved down
            return
        if all(row.position > 0 and _known(row, extent) for row in beyond):
            detail = f"there is no segment for positions {beyond[0].position} to {beyond[-1].position}"
            self._findings.frame("segment", beyond[-1].position, detail)
            return
        for row in beyond:
            self._findings.event("inserted", row, "outside of what the segments hold")


def _known(row: Row, extent: _Extent) -> bool:
    """Whether the stream's head counts this event."""
    head = extent.heads.get(row.stream)
    return head is not None and row.version <= head.version and row.position <= head.last


def _judge(raw: tuple[Any, ...], findings: Findings, streams: Streams) -> tuple[StoredEvent, Fields, bool]:
    """Judge a row by its digest and checksum; only a sound one is followed in its stream."""
    event = event_of(raw, 0)
    try:
        digest = event_digest(event)
    except (OverflowError, struct.error):  # a number that no event can have
        digest = b""
    sound = digest == event.digest and raw[CRC] == crc(event.body)
    expected = event.version
    if sound:
        expected = streams.follow(event)
    elif digest == event.digest:
        findings.event("column", event, "the crc is not that of the body")
    elif raw[CRC] == crc(event.body):
        findings.event("column", event, "a column is not what the digest was taken over")
    else:
        findings.event("body", event, "the body is not what the digest was taken over")
    leaf = leaf_hash(event.version, digest) if digest and event.version > 0 else b"%d" % event.position
    return event, (event.position, event.stream, event.version, expected, digest, event.digest, leaf), sound


def _runs(positions: list[int], named: dict[float, tuple[str, int]]) -> Iterable[list[int]]:
    """Consecutive positions together, but those whose event has a name alone."""
    run: list[int] = []
    for position in positions:
        if run and (position != run[-1] + 1 or position in named or run[-1] in named):
            yield run
            run = []
        run.append(position)
    if run:
        yield run


def _root(connection: database.Connection, head: int) -> str:
    try:
        return Tiles(connection).root(head).hex()
    except Corrupt:
        return ""


def _unknowable(tiled: int, head: int, since: int, known: int = 0) -> list[str]:
    """What nobody can know where tiles stand up to `tiled`, and a receipt kept elsewhere up to `known`."""
    unknowable = [COVERED.format(known) if known else TAIL]
    tiled = max(tiled, known)
    if tiled < head:
        unknowable.append(
            f"whether positions {tiled + 1} to {head}, after the last full tile, were rewritten together with their "
            "digests or changed places"
        )
    if since:
        unknowable.append(f"positions 1 to {since}, which were not read")
    return unknowable
