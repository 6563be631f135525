"""The wire form of an event: one JSON object, as Kafka records, spools and pipes carry it.

The payload is in it byte for byte. Ids are UUID text, `occurred_at` is RFC 3339 text, absent fields
are left out. Envelope fields that a newer writer added are ignored.
"""

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
_decode = msgspec.json.Decoder(Envelope).decode


def encode(event: Event) -> bytes:
    """The event as JSON; BadEvent if `core.event.check` would refuse it."""
    check(event)
    return _encode(
        Envelope(
            event_id=uuid_text(event.event_id),
            stream=event.stream,
            writer=event.writer,
            run=uuid_text(event.run),
            seq=event.seq,
            type=event.type,
            schema=event.schema,
            occurred_at=None if event.occurred_at is None else to_text(event.occurred_at),
            actor=event.actor,
            owner=event.owner,
            key_id=event.key_id,
            causation_id=None if event.causation_id is None else uuid_text(event.causation_id),
            correlation_id=event.correlation_id,
            conversation=event.conversation,
            expected_version=event.expected_version,
            payload=msgspec.Raw(event.body),
        )
    )


def decode(data: bytes) -> Event:
    """The event, through the door (`core.event.check`). Whatever the bytes, BadEvent if it is none."""
    try:
        wire = _decode(data)
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
