"""Events as rows of Postgres' binary COPY.

Rows are packed before the log's lock is taken; position and version are the two fixed-width first
columns, whose place in the bytes is kept, and are patched in under the lock.
"""

from collections.abc import Collection, Iterable, Sequence
from functools import lru_cache
from hashlib import sha256
from operator import attrgetter
from struct import Struct
from typing import Any, Final, NamedTuple
from zlib import crc32

from core import digest
from core.digest import preimage
from core.errors import BadEvent
from core.event import Event, body_fault, kind_fault, numbers_fault, thread_fault
from core.times import IN_2000
from eventlog.log import MAX_BATCH_BYTES, MAX_BATCH_EVENTS, BatchTooLarge

COLUMNS: Final = (
    "position, version, event_id, run, seq, schema, digest, crc, stream, writer, type, occurred_at, "
    "actor, owner, key_id, causation_id, correlation_id, conversation, body"
)
ROW: Final = (
    "event_id", "stream", "writer", "run", "seq", "type", "schema", "occurred_at", "actor", "owner", "key_id",
    "causation_id", "correlation_id", "conversation", "expected_version", "body",
)  # fmt: skip
"""An event's fields, in the order in which a `Packer` takes them."""
HEADER: Final = b"PGCOPY\n\xff\r\n\0" + bytes(8)
TRAILER: Final = b"\xff\xff"

_FIRST = Struct(">hiqiqi16si16siqiii32siI")
_row = attrgetter(*ROW)
_PATCH = Struct(">qiq")
_ID: Final = 30
_DIGEST: Final = 90
"""Where in a row they begin."""
_LEN = Struct(">i").pack
_I64 = Struct(">iq").pack
_NULL = b"\xff\xff\xff\xff"


def crc(body: bytes) -> int:
    """CRC-32 of a body as Postgres' signed int: tells a damaged body from a damaged column."""
    value = crc32(body)
    return value - (1 << 32) if value >= 1 << 31 else value


class Packed:
    """A batch ready for COPY. What the commit asks of its events is a list each, in order: `ids`,
    `streams`, `owners`, `digests`, `expected` versions; `rows` are the bytes, `starts` where each begins."""

    def __init__(self) -> None:
        self.ids: list[bytes] = []
        self.streams: list[str] = []
        self.owners: list[str | None] = []
        self.digests: list[bytes] = []
        self.expected: list[int | None] = []
        self.rows = bytearray()
        self.starts: list[int] = []

    def __len__(self) -> int:
        return len(self.ids)

    def __getstate__(self) -> tuple[Any, ...]:
        """Pickled without what the rows say too."""
        return self.streams, self.owners, self.expected, self.starts, self.rows

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.streams, self.owners, self.expected, self.starts, self.rows = state
        rows = bytes(self.rows)
        self.ids = [rows[start + _ID : start + _ID + 16] for start in self.starts]
        self.digests = [rows[start + _DIGEST : start + _DIGEST + 32] for start in self.starts]

    def place(self, number: int) -> int:
        """Where in the rows an event begins, or where they end."""
        return self.starts[number] if number < len(self.starts) else len(self.rows)

    def patch(self, first_position: int, versions: Sequence[int]) -> None:
        """Write the positions (dense from `first_position`) and versions into the rows."""
        rows, pack_into, position = self.rows, _PATCH.pack_into, first_position
        for start, version in zip(self.starts, versions, strict=True):
            pack_into(rows, start + 6, position, 8, version)
            position += 1

    def only(self, places: Collection[int]) -> "Packed":
        """A batch of the events at these places, which ascend."""
        few = Packed()
        ends = [*self.starts[1:], len(self.rows)]
        for name in ("ids", "streams", "owners", "digests", "expected"):
            column = getattr(self, name)
            setattr(few, name, [column[i] for i in places])
        for i in places:
            few.starts.append(len(few.rows))
            few.rows += self.rows[self.starts[i] : ends[i]]
        return few

    @classmethod
    def joined(cls, stretches: Iterable["Stretch"]) -> "Packed":
        """One batch of stretches of several, in order."""
        whole = cls()
        for packed, first, last in stretches:
            begin, end = packed.place(first), packed.place(last)
            at = len(whole.rows) - begin
            whole.ids += packed.ids[first:last]
            whole.streams += packed.streams[first:last]
            whole.owners += packed.owners[first:last]
            whole.digests += packed.digests[first:last]
            whole.expected += packed.expected[first:last]
            whole.starts += [start + at for start in packed.starts[first:last]]
            whole.rows += memoryview(packed.rows)[begin:end]
        return whole


class Stretch(NamedTuple):
    """Consecutive events of a batch: those from `first` to before `last`."""

    packed: Packed
    first: int
    last: int


class Packer:
    """A batch in the making: `size` is its rows' bytes so far. `eventlog.native` adds to `batch` and `rows` too."""

    def __init__(self) -> None:
        self.size = 0
        self.batch = Packed()
        self.rows: list[bytes] = []

    def __len__(self) -> int:
        return len(self.rows)

    def take(self, events: Iterable[Event]) -> None:
        """Let every event through the door, digest it and pack its row. `BadEvent`, `BatchTooLarge`."""
        for event in events:
            fault = self.add(*_row(event))
            if fault is not None:
                raise BadEvent(fault, where=f"{event.stream[:80]!r} seq {event.seq}")
            if self.size > MAX_BATCH_BYTES:
                raise BatchTooLarge(f"more than {MAX_BATCH_BYTES:,} bytes in one commit", mend="split it")

    def add(
        self,
        event_id: bytes,
        stream: str,
        writer: str,
        run: bytes,
        seq: int,
        type_: str,
        schema: int,
        occurred_at: int | None,
        actor: str | None,
        owner: str | None,
        key_id: str | None,
        causation_id: bytes | None,
        correlation_id: str | None,
        conversation: str | None,
        expected_version: int | None,
        body: bytes,
    ) -> str | None:
        """The same for one event, given by its fields; answers with what `core.event.check` has against
        it, and then nothing was taken."""
        if len(event_id) != 16:
            return "event_id and run must be 16 bytes each"
        if causation_id is not None and len(causation_id) != 16:
            return "causation_id must be 16 bytes"
        try:
            author, thread, names, threads = thread_of(stream, writer, run, correlation_id, conversation)
            kind, actors, type_text, actor_texts = kind_of(type_, schema, actor, owner, key_id)
        except BadEvent as error:
            return error.what
        fault = numbers_fault(seq, occurred_at, expected_version) or body_fault(body)
        if fault:
            return fault
        digest_ = sha256(
            preimage(event_id, author, seq, kind, occurred_at, actors, causation_id, thread, body)
        ).digest()
        row = b"".join(
            (
                _FIRST.pack(
                    19, 8, 0, 8, 0, 16, event_id, 16, run, 8, seq, 4, schema, 32, digest_, 4, crc32(body)
                ),
                names,
                type_text,
                _NULL if occurred_at is None else _I64(8, occurred_at - IN_2000),
                actor_texts,
                _NULL if causation_id is None else b"\0\0\0\x10" + causation_id,
                threads,
                _LEN(len(body)),
                body,
            )
        )  # fmt: skip
        packed = self.batch
        packed.ids.append(event_id)
        packed.streams.append(stream)
        packed.owners.append(owner)
        packed.digests.append(digest_)
        packed.expected.append(expected_version)
        packed.starts.append(self.size)
        self.rows.append(row)
        self.size += len(row)
        return None

    def drop(self, first: int) -> None:
        """Forget the event of this number, and all after it."""
        batch = self.batch
        if first < len(self.rows):
            self.size = batch.starts[first]
        for column in (batch.ids, batch.streams, batch.owners, batch.digests, batch.expected, batch.starts, self.rows):
            del column[first:]

    def packed(self) -> Packed:
        """The batch; the packer is spent."""
        self.batch.rows = bytearray(b"".join(self.rows))
        return self.batch


def pack(events: Sequence[Event]) -> Packed:
    """A batch of these events. `BadEvent`, `BatchTooLarge`."""
    if len(events) > MAX_BATCH_EVENTS:
        raise BatchTooLarge(f"{len(events):,} events in one commit, more than {MAX_BATCH_EVENTS:,}", mend="split it")
    packer = Packer()
    packer.take(events)
    return packer.packed()


# What many events share is checked and encoded once: its digest fields in two parts, its columns in two.
# What is refused (`BadEvent`) is not remembered: it may be large.
_Shared = tuple[bytes, bytes, bytes, bytes]


@lru_cache(maxsize=8_192)
def thread_of(stream: str, writer: str, run: bytes, correlation_id: str | None, conversation: str | None) -> _Shared:
    """Of the names that a thread of events shares: two digest fields, two stretches of columns. `BadEvent`."""
    fault = thread_fault(stream, writer, correlation_id, conversation)
    if fault is None and len(run) != 16:
        fault = "event_id and run must be 16 bytes each"
    if fault:
        raise BadEvent(fault)
    return (
        digest.author(stream, writer, run),
        digest.thread(correlation_id, conversation),
        _texts(stream, writer),
        _texts(correlation_id, conversation),
    )


@lru_cache(maxsize=4_096)
def kind_of(type_: str, schema: int, actor: str | None, owner: str | None, key_id: str | None) -> _Shared:
    """The same of what kind of events they are. `BadEvent`."""
    fault = kind_fault(type_, schema, actor, owner, key_id)
    if fault:
        raise BadEvent(fault)
    return (
        digest.kind(type_, schema),
        digest.actors(actor, owner, key_id),
        _texts(type_),
        _texts(actor, owner, key_id),
    )


def _texts(*texts: str | None) -> bytes:
    """Consecutive text columns."""
    raw = [None if text is None else text.encode() for text in texts]
    return b"".join([_NULL if text is None else _LEN(len(text)) + text for text in raw])
