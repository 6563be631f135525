"""The one transaction: cursors, events, heads, segments and quarantine, all or nothing.

Cursors are moved first, by compare-and-set on offset and epoch: a worker that was replaced changes
nothing. Under the log's lock only positions and versions are settled and rows copied.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple
from uuid import UUID

from eventlog import commit
from eventlog.database import Connection, Meanwhile, Uuids, doing
from eventlog.pack import Packed
from eventlog.persister import quarantine
from eventlog.persister.batch import Part, record_digest
from eventlog.persister.settle import Settled, Unsure, settle

_MOVE = (
    "SELECT trajlog.move_cursors(%s, %s::int[], %s::bigint[], %s::bigint[], %s::bigint[], %s::bigint[], %s::bytea[]), "
    "EXISTS (SELECT FROM trajlog.quarantine WHERE reason = 'refused')"
)
_REFUSED = "SELECT uuid_send(event_id), detail FROM trajlog.quarantine WHERE reason = 'refused' AND event_id = ANY(%s)"

Point = Literal["before_copy", "after_copy", "before_commit", "after_commit"]
Hook = Callable[[Point], None]
"""Called at these moments of a transaction: where tests kill a worker."""


class Fenced(Exception):
    """These partitions' cursors are not where this worker left them, or they have another owner."""

    def __init__(self, partitions: Sequence[int]) -> None:
        super().__init__(f"fenced: partitions {', '.join(map(str, partitions))}")
        self.partitions = frozenset(partitions)


class Outcome(NamedTuple):
    """What a transaction did: events written, duplicates left out, records quarantined by reason."""

    events: int
    duplicates: int
    quarantined: Counter[str]


def commit_parts(
    connection: Connection,
    topic_id: UUID,
    parts: Sequence[Part],
    *,
    careful: bool = False,
    meanwhile: Meanwhile | None = None,
    hook: Hook | None = None,
) -> Outcome:
    """Commit stretches of different partitions, in order of partition, one segment each.

    `careful` looks up which events the log has already; without it a known id raises `DuplicateEvent`.
    `Fenced` besides; then, as after any error, nothing was changed. `meanwhile`: see `commit.commit_batch`.
    """
    hook = hook or _nothing
    with doing(connection, meanwhile), connection.transaction():
        any_refused = _move_cursors(connection, topic_id, parts)
        written = [part for part in parts if part.records]
        settled = _write(connection, topic_id, written, any_refused, careful, hook) if written else []
        held = [(record, fault) for part in parts for record, fault in part.faults]
        for part, fates in zip(written, settled, strict=True):
            held += [(part.records[place], fault) for place, fault in fates.faults]
        if held:
            quarantine.hold(connection, topic_id, held)
        hook("before_commit")
    hook("after_commit")
    return Outcome(
        sum(len(fates.versions) for fates in settled),
        sum(fates.duplicates for fates in settled),
        Counter(fault.reason for _, fault in held),
    )


def _move_cursors(connection: Connection, topic_id: UUID, parts: Sequence[Part]) -> bool:
    """Move them; whether any event was ever refused. `Fenced`."""
    moves = [
        (part.partition, part.epoch, part.expected, part.next_offset, part.last.offset, record_digest(part.last))
        for part in parts
        if part.last is not None
    ]
    row = connection.execute(_MOVE, (topic_id, *map(list, zip(*moves, strict=True)))).fetchone()
    assert row is not None
    if row[0]:
        raise Fenced(row[0])
    return bool(row[1])


def _write(
    connection: Connection,
    topic_id: UUID,
    parts: Sequence[Part],
    any_refused: bool,
    careful: bool,
    hook: Hook,
) -> list[Settled]:
    ids = [event_id for part in parts for event_id in part.packed.ids]
    # Before the lock: whatever refuses or accepts an event of these partitions waits for our cursors.
    refused: dict[bytes, str] = {}
    if any_refused:
        refused = dict(connection.execute(_REFUSED, (Uuids(ids),), binary=True).fetchall())
    first_position = commit.lock(connection)
    old = commit.heads(connection, [stream for part in parts for stream in part.packed.streams])
    known = commit.known(connection, ids) if careful else None
    try:
        settled = _settle(parts, old, known, refused)
    except Unsure:
        settled = _settle(parts, old, commit.known(connection, ids), refused)
    batches = [_kept(part.packed, fates) for part, fates in zip(parts, settled, strict=True)]
    versions = [version for fates in settled for version in fates.versions]
    hook("before_copy")
    if versions:
        commit.write(connection, batches, versions, old, first_position)
    hook("after_copy")
    for part, batch in zip(parts, batches, strict=True):
        if len(batch):
            last_position = first_position + len(batch) - 1
            source = (topic_id, part.partition, part.expected, part.next_offset)
            commit.close(connection, first_position, last_position, source)
            first_position = last_position + 1
    return settled


def _settle(
    parts: Sequence[Part], old: dict[str, int], known: dict[bytes, commit.Known] | None, refused: dict[bytes, str]
) -> list[Settled]:
    heads, seen, stood = dict(old), dict[bytes, commit.Known](), dict(refused)
    return [settle(part.packed, heads, known, stood, seen) for part in parts]


def _kept(packed: Packed, fates: Settled) -> Packed:
    return packed if fates.kept is None else packed.only(fates.kept)


def _nothing(point: Point) -> None:
    pass
