"""The wire form of an event: one JSON object, as Kafka records, spools and pipes carry it.

The payload is in it byte for byte. Ids are UUID text, `occurred_at` is RFC 3339 text, absent fields
are left out. Envelope fields that a newer writer added are ignored.
"""

from functools import lru_cache

import msgspec

from core.errors import BadEvent
from core.event import Event, check
from core.identity import uuid_bytes, uuid_text
from core.times import from_text, to_text


class Envelope(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """What is on the wire."""

    event_id: str
    stream: str
    writer: str
    run: str
    seq: int
    type: str
    schema: int = 1
    occurred_at: str | None = None
    actor: str | None = None
    owner: str | None = None
    key_id: str | None = None
    causation_id: str | None = None
    correlation_id: str | None = None
    conversation: str | None = None
    expected_version: int | None = None
    payload: msgspec.Raw


_encode = msgspec.json.Encoder().encode
envelope = msgspec.json.Decoder(Envelope).decode
"""The envelope on the wire, before the door. Raises `msgspec.DecodeError`, `UnicodeDecodeError`, `RecursionError`."""


def encode(event: Event) -> bytes:
    """The event as JSON, as msgspec writes an `Envelope`; BadEvent if `core.event.check` would refuse it."""
    check(event)
    at = event.occurred_at
    causation, expected = event.causation_id, event.expected_version
    return b"".join(
        (
            b'{"event_id":"',
            uuid_text(event.event_id).encode(),
            _origin(event.stream, event.writer, event.run),
            b"%d" % event.seq,
            _kind(event.type, event.schema),
            b"" if at is None else b',"occurred_at":"' + to_text(at).encode() + b'"',
            _texts(("actor", event.actor), ("owner", event.owner), ("key_id", event.key_id)),
            b"" if causation is None else b',"causation_id":"' + uuid_text(causation).encode() + b'"',
            _texts(("correlation_id", event.correlation_id), ("conversation", event.conversation)),
            b"" if expected is None else b',"expected_version":%d' % expected,
            b',"payload":',
            event.body,
            b"}",
        )
    )


@lru_cache(maxsize=4_096)
def _origin(stream: str, writer: str, run: bytes) -> bytes:
    """What the events of a run in a stream share."""
    return (
        b'","stream":'
        + _encode(stream)
        + b',"writer":'
        + _encode(writer)
        + b',"run":"%s","seq":' % (uuid_text(run).encode())
    )


@lru_cache(maxsize=4_096)
def _kind(type_: str, schema: int) -> bytes:
    return b',"type":' + _encode(type_) + (b"" if schema == 1 else b',"schema":%d' % schema)


@lru_cache(maxsize=4_096)
def _texts(*fields: tuple[str, str | None]) -> bytes:
    """Consecutive text fields; many events share them."""
    return b"".join([b',"%s":' % name.encode() + _encode(text) for name, text in fields if text is not None])


def decode(data: bytes) -> Event:
    """The event, through the door (`core.event.check`). Whatever the bytes, BadEvent if it is none."""
    try:
        wire = envelope(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadEvent(f"not an event: {error}", mend="send one JSON object per event") from None
    event = Event(
        event_id=uuid_bytes(wire.event_id, where="event_id"),
        stream=wire.stream,
        writer=wire.writer,
        run=uuid_bytes(wire.run, where="run"),
        seq=wire.seq,
        type=wire.type,
        schema=wire.schema,
        occurred_at=None if wire.occurred_at is None else from_text(wire.occurred_at, where="occurred_at"),
        actor=wire.actor,
        owner=wire.owner,
        key_id=wire.key_id,
        causation_id=None if wire.causation_id is None else uuid_bytes(wire.causation_id, where="causation_id"),
        correlation_id=wire.correlation_id,
        conversation=wire.conversation,
        expected_version=wire.expected_version,
        body=bytes(wire.payload),
    )
    check(event)
    return event
