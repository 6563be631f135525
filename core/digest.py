"""What is fixed for ever: the digest of an event and the seal of a segment.

Both are SHA-256 over a label, a zero byte and fields; a field is `tag u8, length u32, bytes`, tags
ascending, null omitted, empty kept, integers big-endian, text as UTF-8 exactly as received.
A new field takes a new tag. Golden vectors: tests/core/golden.
"""

from collections.abc import Iterable
from functools import lru_cache
from hashlib import sha256
from struct import Struct

from core.event import Event

EVENT_LABEL = b"trajlog/event/1\0"
SEGMENT_LABEL = b"trajlog/segment/1\0"

_HEAD = Struct(">BI").pack
_U64 = Struct(">BIQ").pack
_I64 = Struct(">BIq").pack


def fields(tagged: Iterable[tuple[int, bytes | None]]) -> bytes:
    """The canonical encoding of `(tag, value)` pairs given in ascending order of tag."""
    return b"".join(_HEAD(tag, len(value)) + value for tag, value in tagged if value is not None)


def event_preimage(event: Event) -> bytes:
    """The bytes that `event_digest` hashes."""
    return preimage(
        event.event_id,
        author(event.stream, event.writer, event.run),
        event.seq,
        kind(event.type, event.schema),
        event.occurred_at,
        actors(event.actor, event.owner, event.key_id),
        event.causation_id,
        thread(event.correlation_id, event.conversation),
        event.body,
    )


def preimage(
    event_id: bytes,
    author: bytes,
    seq: int,
    kind: bytes,
    occurred_at: int | None,
    actors: bytes,
    causation_id: bytes | None,
    thread: bytes,
    body: bytes,
) -> bytes:
    """The same from fields that are encoded already. Tags: 1 event_id, 2 stream, 3 writer, 4 run, 5 seq
    u64, 6 type, 7 schema u32, 8 occurred_at i64, 9 actor, 10 owner, 11 key_id, 12 causation_id,
    13 correlation_id, 14 conversation, 15 body."""
    return b"".join(
        (
            EVENT_LABEL + b"\x01\0\0\0\x10",
            event_id,
            author,
            _U64(5, 8, seq),
            kind,
            b"" if occurred_at is None else _I64(8, 8, occurred_at),
            actors,
            b"" if causation_id is None else b"\x0c\0\0\0\x10" + causation_id,
            thread,
            _HEAD(15, len(body)),
            body,
        )
    )


def event_digest(event: Event) -> bytes:
    """SHA-256 (32 bytes) of everything the writer said; what the log adds is not in it."""
    return sha256(event_preimage(event)).digest()


def segment_seal(
    *,
    previous: bytes | None,
    first_position: int,
    last_position: int,
    committed_at: int,
    topic_id: bytes | None = None,
    partition: int | None = None,
    first_offset: int | None = None,
    next_offset: int | None = None,
) -> bytes:
    """SHA-256 (32 bytes) of one commit's frame, chained to the one before. Tags: 1 previous seal,
    2 and 3 first and last position u64, 4 topic id, 5 partition u32, 6 and 7 first and next offset
    u64, 8 committed_at i64."""
    return sha256(
        SEGMENT_LABEL
        + fields(
            [
                (1, previous),
                (2, first_position.to_bytes(8, "big")),
                (3, last_position.to_bytes(8, "big")),
                (4, topic_id),
                (5, None if partition is None else partition.to_bytes(4, "big")),
                (6, None if first_offset is None else first_offset.to_bytes(8, "big")),
                (7, None if next_offset is None else next_offset.to_bytes(8, "big")),
                (8, committed_at.to_bytes(8, "big", signed=True)),
            ]
        )
    ).digest()


# What many events share is encoded once.


@lru_cache(maxsize=4_096)
def author(stream: str, writer: str, run: bytes) -> bytes:
    """Fields 2 to 4."""
    return fields([(2, stream.encode()), (3, writer.encode()), (4, run)])


@lru_cache(maxsize=4_096)
def kind(type_: str, schema: int) -> bytes:
    """Fields 6 and 7."""
    return fields([(6, type_.encode()), (7, schema.to_bytes(4, "big"))])


@lru_cache(maxsize=4_096)
def actors(actor: str | None, owner: str | None, key_id: str | None) -> bytes:
    """Fields 9 to 11."""
    return fields([(9, _utf8(actor)), (10, _utf8(owner)), (11, _utf8(key_id))])


@lru_cache(maxsize=4_096)
def thread(correlation_id: str | None, conversation: str | None) -> bytes:
    """Fields 13 and 14."""
    return fields([(13, _utf8(correlation_id)), (14, _utf8(conversation))])


def _utf8(text: str | None) -> bytes | None:
    return None if text is None else text.encode()
