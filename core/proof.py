"""A proof pack: events, each with its way up the tree, under one signed root. No database is needed.

JSON lines, in one form only (`core.tag.line`), so that every byte counts. The first line is the head:
`{format, events, tag, key, signature}`; each further line is an event: `{position, version, path, event}`.
The tag is signed; an event's digest, with its version, is leaf `position - 1` of the tree; `path` is the
inclusion proof of RFC 9162 (2.1.3). A body is a JSON string that holds the payload's bytes.
"""

from collections.abc import Iterable, Iterator
from typing import Final
from uuid import UUID

import msgspec

from core.digest import event_digest
from core.errors import Corrupt
from core.event import Event
from core.identity import uuid_text
from core.merkle import leaf_hash, verify_inclusion
from core.tag import MISREAD, Receipt, TagJson, line, read_signed, reason, tag_json, unhex
from core.times import from_text, to_text

PACK: Final = "trajlog/pack/1"


class Proven(msgspec.Struct, frozen=True):
    """An event, where it stands, and its inclusion proof in the tree of the pack's tag."""

    position: int
    version: int
    path: tuple[bytes, ...]
    event: Event


class Head(msgspec.Struct, frozen=True):
    """The first line: the signed tag, and how many events follow."""

    receipt: Receipt
    events: int


class HeadJson(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The first line of a pack."""

    format: str
    events: int
    tag: TagJson
    key: str
    signature: str


class EventJson(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """An event in a pack: as on the wire, but for the body, a string."""

    event_id: str
    stream: str
    writer: str
    run: str
    seq: int
    type: str
    schema: int
    occurred_at: str | None = None
    actor: str | None = None
    owner: str | None = None
    key_id: str | None = None
    causation_id: str | None = None
    correlation_id: str | None = None
    conversation: str | None = None
    body: str


class ProvenJson(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A further line of a pack."""

    position: int
    version: int
    path: list[str]
    event: EventJson


_decode_head = msgspec.json.Decoder(HeadJson).decode
_decode_event = msgspec.json.Decoder(ProvenJson).decode


def head_line(head: Head) -> bytes:
    """The first line of a pack."""
    receipt = head.receipt
    return line(HeadJson(PACK, head.events, tag_json(receipt.tag), receipt.key.hex(), receipt.signature.hex()))


def event_line(proven: Proven) -> bytes:
    """A further line of a pack."""
    event = proven.event
    written = EventJson(
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
        body=event.body.decode(),
    )
    return line(ProvenJson(proven.position, proven.version, [node.hex() for node in proven.path], written))


def read_head(data: bytes) -> Head:
    """The inverse of `head_line`; `Corrupt` unless the bytes are exactly those of one."""
    try:
        found = _decode_head(data)
        head = Head(read_signed(found.tag, found.key, found.signature), found.events)
        if head_line(head) != data:
            raise ValueError("it is not written as in a pack")
    except MISREAD as error:
        raise Corrupt(f"not the head of a proof pack, or an altered one ({reason(error)})", where="line 1") from None
    return head


def read_event(data: bytes, number: int) -> Proven:
    """The inverse of `event_line`; `Corrupt` unless line `number` is exactly one."""
    try:
        found = _decode_event(data)
        path = tuple(unhex(node, 32) for node in found.path)
        proven = Proven(found.position, found.version, path, _event(found.event))
        if event_line(proven) != data:
            raise ValueError("it is not written as in a pack")
    except MISREAD as error:
        raise Corrupt(f"not a proven event, or an altered one ({reason(error)})", where=f"line {number}") from None
    return proven


def prove(head: Head, lines: Iterable[bytes]) -> Iterator[Proven]:
    """The events of a pack, each proven to be in the tree under the tag's root; whether the tag itself is
    to be believed is another question. `Corrupt` names the line that is wrong.

    The events are of one stream and follow each other in it: none between them is left out.
    """
    tag = head.receipt.tag
    last: Proven | None = None
    number = 1
    for number, data in enumerate(lines, 2):
        where = f"line {number}"
        proven = read_event(data, number)
        if not included(proven, tag.position, tag.root):
            raise Corrupt(f"no such event stands at position {proven.position} under the tag's root", where=where)
        if last and (proven.event.stream, proven.version) != (last.event.stream, last.version + 1):
            raise Corrupt(f"it does not follow version {last.version} of {last.event.stream!r}", where=where)
        yield proven
        last = proven
    if number == 1 or number - 1 != head.events:
        raise Corrupt(f"the pack has {number - 1} of {head.events} events", where=f"line {number + 1}")


def included(proven: Proven, size: int, root: bytes) -> bool:
    """Whether the event is where it says in the tree of `size` leaves with that root."""
    try:
        leaf = leaf_hash(proven.version, event_digest(proven.event))
    except MISREAD:  # a number that no event has
        return False
    return verify_inclusion(leaf, proven.position - 1, size, proven.path, root)


def _event(found: EventJson) -> Event:
    return Event(
        event_id=UUID(found.event_id).bytes,
        stream=found.stream,
        writer=found.writer,
        run=UUID(found.run).bytes,
        seq=found.seq,
        type=found.type,
        schema=found.schema,
        occurred_at=None if found.occurred_at is None else from_text(found.occurred_at),
        actor=found.actor,
        owner=found.owner,
        key_id=found.key_id,
        causation_id=None if found.causation_id is None else UUID(found.causation_id).bytes,
        correlation_id=found.correlation_id,
        conversation=found.conversation,
        body=found.body.encode(),
    )
