"""Events as rows of Postgres' binary COPY.

Rows are packed before the log's lock is taken; position and version are the two fixed-width first
columns, whose place in the bytes is kept, and are patched in under the lock.
"""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from struct import Struct
from typing import Final
from zlib import crc32

from core.digest import event_digest
from core.event import Event, check
from eventlog.log import MAX_BATCH_BYTES, MAX_BATCH_EVENTS, BatchTooLarge

COLUMNS: Final = (
    "position, version, event_id, run, seq, schema, digest, crc, stream, writer, type, occurred_at, "
    "actor, owner, key_id, causation_id, correlation_id, conversation, body"
)
HEADER: Final = b"PGCOPY\n\xff\r\n\0" + bytes(8)
TRAILER: Final = b"\xff\xff"
EPOCH_SHIFT: Final = 946_684_800_000_000  # µs from 1970 to 2000, where Postgres counts from

_FIRST = Struct(">hiqiqi16si16siqiii32siI")
_PATCH = Struct(">qiq")
_LEN = Struct(">i").pack
_I64 = Struct(">iq").pack
_NULL = b"\xff\xff\xff\xff"


def crc(body: bytes) -> int:
    """CRC-32 of a body as Postgres' signed int: tells a damaged body from a damaged column."""
    value = crc32(body)
    return value - (1 << 32) if value >= 1 << 31 else value


class Packed:
    """A batch ready for COPY: `events`, their `digests`, the rows' bytes and where each row starts."""

    def __init__(self, events: Sequence[Event], digests: list[bytes], rows: bytearray, starts: list[int]) -> None:
        self.events = events
        self.digests = digests
        self.rows = rows
        self.starts = starts

    def patch(self, first_position: int, versions: Sequence[int]) -> None:
        """Write the positions (dense from `first_position`) and versions into the rows."""
        rows, pack_into, position = self.rows, _PATCH.pack_into, first_position
        for start, version in zip(self.starts, versions, strict=True):
            pack_into(rows, start + 6, position, 8, version)
            position += 1


class Packer:
    """A batch in the making: `size` is its rows' bytes so far."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.size = 0
        self._digests: list[bytes] = []
        self._rows: list[bytes] = []
        self._starts: list[int] = []

    def take(self, events: Iterable[Event]) -> None:
        """Check every event at the door, digest it and pack its row. `BadEvent`, `BatchTooLarge`."""
        first, at = _FIRST.pack, self.size
        taken, digests, rows, starts = self.events, self._digests, self._rows, self._starts
        for event in events:
            check(event)
            digest = event_digest(event)
            body = event.body
            occurred_at, causation_id = event.occurred_at, event.causation_id
            row = b"".join(
                (
                    first(
                        19, 8, 0, 8, 0, 16, event.event_id, 16, event.run, 8, event.seq, 4, event.schema,
                        32, digest, 4, crc32(body),
                    ),
                    _texts(event.stream, event.writer, event.type),
                    _NULL if occurred_at is None else _I64(8, occurred_at - EPOCH_SHIFT),
                    _texts(event.actor, event.owner, event.key_id),
                    _NULL if causation_id is None else b"\0\0\0\x10" + causation_id,
                    _texts(event.correlation_id, event.conversation),
                    _LEN(len(body)),
                    body,
                )
            )  # fmt: skip
            taken.append(event)
            digests.append(digest)
            rows.append(row)
            starts.append(at)
            at += len(row)
            self.size = at
            if at > MAX_BATCH_BYTES:
                raise BatchTooLarge(f"more than {MAX_BATCH_BYTES:,} bytes in one commit", mend="split it")

    def packed(self) -> Packed:
        """The batch."""
        return Packed(self.events, self._digests, bytearray(b"".join(self._rows)), self._starts)


def pack(events: Sequence[Event]) -> Packed:
    """A batch of these events. `BadEvent`, `BatchTooLarge`."""
    if len(events) > MAX_BATCH_EVENTS:
        raise BatchTooLarge(f"{len(events):,} events in one commit, more than {MAX_BATCH_EVENTS:,}", mend="split it")
    packer = Packer()
    packer.take(events)
    return packer.packed()


@lru_cache(maxsize=65_536)
def _texts(*texts: str | None) -> bytes:
    """Consecutive text columns; many events share them."""
    raw = [None if text is None else text.encode() for text in texts]
    return b"".join([_NULL if text is None else _LEN(len(text)) + text for text in raw])
