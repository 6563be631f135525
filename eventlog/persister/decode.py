"""From a Kafka record straight to a packed row, or to what keeps it out.

This is the hot path: the envelope is read once, the door (`core.event`) is the packer's, and no
`Event` is made. What `core.codec.decode` and `eventlog.pack` make of the same bytes is the same row.
"""

from functools import lru_cache
from typing import NamedTuple

import msgspec

from core.codec import envelope
from core.errors import BadEvent
from core.event import MAX_BODY_BYTES, MAX_TEXT_BYTES
from core.identity import uuid_bytes
from core.times import from_text
from eventlog.kafka.client import Record
from eventlog.kafka.partitioner import partition_of
from eventlog.pack import Packer

MAX_RECORD_BYTES = 2 * MAX_BODY_BYTES
_MAX_DETAIL = 500
_MAX_STREAM = 4_096


class Fault(NamedTuple):
    """Why a record is no event. `reason` is one of the quarantine's; the id and the stream where they can be read."""

    reason: str
    detail: str
    event_id: bytes | None = None
    stream: str | None = None


def take(record: Record, packer: Packer, partitions: int) -> Fault | None:
    """Pack the event that the record holds; its topic has so many partitions. The fault where it is none."""
    value = record.value
    if value is None:
        return Fault("null_value", "the record has no value")
    if len(value) > MAX_RECORD_BYTES:
        return Fault("too_large", f"the record is {len(value):,} bytes, more than {MAX_RECORD_BYTES:,}")
    try:
        wire = envelope(value)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        return _unreadable(value, error)
    stream = wire.stream
    try:
        event_id = uuid_bytes(wire.event_id, where="event_id")
        run = _uuid(wire.run, "run")
        occurred_at = None if wire.occurred_at is None else from_text(wire.occurred_at, where="occurred_at")
        causation_id = None if wire.causation_id is None else _uuid(wire.causation_id, "causation_id")
    except BadEvent as error:
        return Fault("bad_event", _line(str(error)), _id_or_none(wire.event_id), _storable(stream))
    if record.key is None or len(record.key) > MAX_TEXT_BYTES:
        key, partition = None, record.partition  # not remembered: it may be large
    else:
        key, partition = _route(record.key, partitions)
    if (key != stream or partition != record.partition) and len(stream) <= MAX_TEXT_BYTES:
        return Fault("misrouted", _misrouted(record, stream, partition), event_id, _storable(stream))
    body = bytes(wire.payload)
    fault = packer.add(
        event_id, stream, wire.writer, run, wire.seq, wire.type, wire.schema, occurred_at, wire.actor, wire.owner,
        wire.key_id, causation_id, wire.correlation_id, wire.conversation, wire.expected_version, body,
    )  # fmt: skip
    if fault is None:
        return None
    reason = "too_large" if len(body) > MAX_BODY_BYTES else "bad_event"
    return Fault(reason, _line(fault), event_id, _storable(stream))


@lru_cache(maxsize=4_096)
def _uuid(text: str, where: str) -> bytes:
    """Runs and causes come in rows."""
    return uuid_bytes(text, where=where)


@lru_cache(maxsize=8_192)
def _route(key: bytes, partitions: int) -> tuple[str | None, int]:
    """The stream that a key names, and the partition it belongs in."""
    try:
        return key.decode(), partition_of(key, partitions)
    except UnicodeDecodeError:
        return None, partition_of(key, partitions)


def _misrouted(record: Record, stream: str, partition: int) -> str:
    if record.key is None:
        return "the record has no key; the key must be the stream"
    if record.key != stream.encode(errors="replace"):
        return _line(f"the key is {record.key[:80]!r}, but the stream {stream[:80]!r}")
    return f"the key belongs in partition {partition}: its sender does not partition by murmur2, or by another count"


def _unreadable(value: bytes, error: Exception) -> Fault:
    event_id, stream = _glimpse(value)
    if isinstance(error, msgspec.ValidationError):
        try:
            msgspec.json.decode(value)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as worse:
            error = worse
    if not isinstance(error, msgspec.ValidationError):
        return Fault("not_json", _line(f"not JSON: {error}"), event_id, stream)
    if "missing required field" in str(error):
        return Fault("missing_fields", _line(str(error)), event_id, stream)
    return Fault("bad_event", _line(str(error)), event_id, stream)


class _Glimpse(msgspec.Struct):
    event_id: msgspec.Raw = msgspec.Raw(b"null")
    stream: msgspec.Raw = msgspec.Raw(b"null")


_glimpse_of = msgspec.json.Decoder(_Glimpse).decode


def _glimpse(value: bytes) -> tuple[bytes | None, str | None]:
    """Event id and stream of something that is no event, as far as they can be read."""
    found: list[str | None] = []
    try:
        glimpsed = _glimpse_of(value)
        for raw in (glimpsed.event_id, glimpsed.stream):
            text = msgspec.json.decode(raw)
            found.append(text if isinstance(text, str) else None)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None, None
    event_id, stream = found
    return None if event_id is None else _id_or_none(event_id), None if stream is None else _storable(stream)


def _id_or_none(text: str) -> bytes | None:
    try:
        return uuid_bytes(text)
    except BadEvent:
        return None


def _storable(text: str) -> str | None:
    """The text if Postgres can hold it."""
    try:
        return text if "\0" not in text and len(text.encode()) <= _MAX_STREAM else None
    except UnicodeEncodeError:
        return None


def _line(text: str) -> str:
    """One short line that Postgres can hold."""
    return " ".join(text.encode(errors="backslashreplace").decode().replace("\0", "\\0").split())[:_MAX_DETAIL]
