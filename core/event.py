"""The event: what is written once and never changed, and what the door lets in.

An `Event` is made by a writer; the log answers with a `StoredEvent`, which adds what only the log
can know: `version` in its stream, `position` in the log, `digest`, and the commit's time.
Times are integers: microseconds since 1970-01-01 UTC. Identifiers are their 16 raw bytes.
"""

import re
from functools import lru_cache
from typing import Any

import msgspec

from core.errors import BadEvent

MAX_TEXT_BYTES = 512
MAX_BODY_BYTES = 1_000_000
MAX_DEPTH = 128
MIN_TIME = -62_135_596_800_000_000  # 0001-01-01T00:00:00Z
MAX_TIME = 253_402_300_799_999_999  # 9999-12-31T23:59:59.999999Z
MAX_SEQ = 2**63 - 1
MAX_SCHEMA = 2**31 - 1

_TYPE = re.compile(r"[A-Z][A-Za-z0-9]{0,63}")
_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)
_NO_BRACKETS = bytes(sorted(set(range(256)) - set(b"{[]}")))


class Event(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One event as its writer made it. `body` is the payload's JSON, byte for byte.

    `expected_version` asks the log to commit only if the stream's head is there (0: the stream is
    new); it is not stored.
    """

    event_id: bytes
    stream: str
    writer: str
    run: bytes
    seq: int
    type: str
    body: bytes
    schema: int = 1
    occurred_at: int | None = None
    actor: str | None = None
    owner: str | None = None
    key_id: str | None = None
    causation_id: bytes | None = None
    correlation_id: str | None = None
    conversation: str | None = None
    expected_version: int | None = None


class StoredEvent(Event, frozen=True, kw_only=True, gc=False):
    """An event in the log. `committed_at` is its segment's time."""

    version: int
    position: int
    digest: bytes
    committed_at: int


body_of = msgspec.json.Decoder(dict[str, Any]).decode
"""A payload as Python has it. Raises `msgspec.DecodeError`, `UnicodeDecodeError`, `RecursionError`."""


def check(event: Event) -> None:
    """Let the event through the door, or raise one `BadEvent` that says why not.

    What passes can be stored by Postgres, carried by Kafka and digested for ever: no later stage
    checks again.
    """
    fault = envelope_fault(event) or body_fault(event.body)
    if fault:
        raise BadEvent(fault, where=f"{event.stream[:80]!r} seq {event.seq}")


def envelope_fault(event: Event) -> str | None:
    """What is wrong with the fields around the payload, or None."""
    if len(event.event_id) != 16 or len(event.run) != 16:
        return "event_id and run must be 16 bytes each"
    if event.causation_id is not None and len(event.causation_id) != 16:
        return "causation_id must be 16 bytes"
    try:
        _let_in(
            event.stream,
            event.writer,
            event.correlation_id,
            event.conversation,
            event.type,
            event.schema,
            event.actor,
            event.owner,
            event.key_id,
        )
    except BadEvent as error:
        return error.what
    return numbers_fault(event.seq, event.occurred_at, event.expected_version)


@lru_cache(maxsize=4_096)
def _let_in(
    stream: str,
    writer: str,
    correlation_id: str | None,
    conversation: str | None,
    type_: str,
    schema: int,
    actor: str | None,
    owner: str | None,
    key_id: str | None,
) -> None:
    """Names that many events share are looked at once. What is refused is not remembered: it may be large."""
    fault = thread_fault(stream, writer, correlation_id, conversation)
    fault = fault or kind_fault(type_, schema, actor, owner, key_id)
    if fault:
        raise BadEvent(fault)


def numbers_fault(seq: int, occurred_at: int | None, expected_version: int | None) -> str | None:
    """What keeps these numbers out, or None."""
    if not 1 <= seq <= MAX_SEQ:
        return f"seq {seq} is not between 1 and 2^63-1"
    if occurred_at is not None and not MIN_TIME <= occurred_at <= MAX_TIME:
        return "occurred_at is outside the years 1 to 9999"
    if expected_version is not None and not 0 <= expected_version <= MAX_SEQ:
        return f"expected_version {expected_version} is not between 0 and 2^63-1"
    return None


def body_fault(body: bytes) -> str | None:
    """What keeps these bytes from being a payload, or None: a JSON object of at most 1 MB in valid
    UTF-8, nested at most 128 deep, without lone surrogates, NaN or numbers out of range, and no white
    space around it (the wire would lose that, and with it the digest)."""
    if len(body) > MAX_BODY_BYTES:
        return f"payload is {len(body):,} bytes, more than {MAX_BODY_BYTES:,}; keep large values as blobs"
    if too_deep(body):
        return f"payload is nested more than {MAX_DEPTH} deep; keep it flatter, or as a text"
    try:
        body_of(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        return f"payload is not a JSON object: {error}"
    if body[0] != 0x7B or body[-1] != 0x7D:
        return "payload has white space around it; send it without"
    return None


def too_deep(data: bytes, around: int = 0) -> bool:
    """Whether JSON is nested deeper than a payload may be, inside so many levels `around` it."""
    if len(data) + 2 * around <= 2 * MAX_DEPTH:
        return False
    brackets = data.count(b"{") + data.count(b"[")
    return brackets + around > MAX_DEPTH and _depth(data) + around > MAX_DEPTH


def thread_fault(stream: str, writer: str, correlation_id: str | None, conversation: str | None) -> str | None:
    """What keeps these names out, or None: texts not empty, without NUL, at most 512 bytes."""
    return (
        _text_fault("stream", stream)
        or _text_fault("writer", writer)
        or _text_fault("correlation_id", correlation_id)
        or _text_fault("conversation", conversation)
    )


def kind_fault(type_: str, schema: int, actor: str | None, owner: str | None, key_id: str | None) -> str | None:
    """The same for what kind of event it is: a CamelCase type, a schema number, an actor."""
    if not _TYPE.fullmatch(type_):
        return f"type {type_[:80]!r} is not a CamelCase name of at most 64 letters and digits"
    if not 1 <= schema <= MAX_SCHEMA:
        return f"schema {schema} is not between 1 and 2^31-1"
    if owner is not None or key_id is not None:
        return "owner and key_id need encryption, which this version does not have; leave them out"
    return _text_fault("actor", actor)


def _text_fault(name: str, text: str | None) -> str | None:
    if text is None:
        return None
    if not text:
        return f"{name} is empty; fill it in"
    if "\0" in text:
        return f"{name} holds a NUL; leave it out"
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        return f"{name} holds a lone surrogate"
    return f"{name} is {size} bytes, more than {MAX_TEXT_BYTES}; shorten it" if size > MAX_TEXT_BYTES else None


def _depth(body: bytes) -> int:
    depth = deepest = 0
    for byte in _STRING.sub(b"", body).translate(None, _NO_BRACKETS):
        if byte in b"{[":
            depth += 1
            deepest = max(deepest, depth)
        else:
            depth -= 1
    return deepest
