"""Who read whose data, who may write, which keys hold."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from core.vocabulary.base import Open, Part, Payload, Private, Provisional


class DataRead(Provisional, frozen=True):
    """Somebody looked at an owner's private data."""

    home: ClassVar[str] = "access/2026-01"

    principal: Annotated[str, Open("who", "operator-1")]
    operation: Annotated[str, Open("by which command or call", "show")]
    of: Annotated[list[str], Open("opaque ids of the owners", ["owner-7"])]
    streams: Annotated[list[str], Open("what was read")] = []
    purpose: Annotated[str | None, Private("the reason given")] = None


class Grants(Part, frozen=True):
    """What a writer may write; an empty list is everything."""

    streams: Annotated[list[str], Open("stream patterns", ["episode/*"])]
    types: Annotated[list[str], Open("event types")] = []
    owners: Annotated[list[str], Open("opaque ids")] = []


class WriterEnrolled(Provisional, frozen=True):
    """A writer may write."""

    home: ClassVar[str] = "writer/planner-1"

    name: Annotated[str, Open("the writer", "planner-1")]
    generation: Annotated[int, Open("of its secret", 1)]
    grants: Annotated[Grants, Open("what it may write")]


class WriterRotated(Provisional, frozen=True):
    """A writer has a new secret."""

    home: ClassVar[str] = "writer/planner-1"

    name: Annotated[str, Open("the writer", "planner-1")]
    generation: Annotated[int, Open("of the new secret", 2)]
    until: Annotated[str | None, Open("the old one holds until, RFC 3339")] = None


class WriterRevoked(Provisional, frozen=True):
    """A writer may not write any more."""

    home: ClassVar[str] = "writer/planner-1"

    name: Annotated[str, Open("the writer", "planner-1")]
    generation: Annotated[int, Open("the last one revoked", 2)]
    why: Annotated[str | None, Open("in words")] = None


class KeyRotated(Payload, frozen=True):
    """A key was replaced; a signing key's successor is signed by the old one, and accepts it."""

    home: ClassVar[str] = "instance/0192d3c4-0000-7000-8000-0000000000bb"

    key: Annotated[Literal["instance_signing", "writer_master", "owner_master"], Open("which kind of key")]
    new: Annotated[str, Open("public key or id of the new one, hex", "0" * 64)]
    old: Annotated[str | None, Open("public key or id of the old one, hex")] = None
    signature: Annotated[str | None, Open("of the new public key by the old key, hex; null if it was lost")] = None
    accepted: Annotated[str | None, Open("of the old public key by the new key, hex")] = None
    why: Annotated[str | None, Open("in words")] = None


class LogRestored(Payload, frozen=True):
    """A copy of the log was brought back from a backup, and goes on as another instance."""

    home: ClassVar[str] = "instance/0192d3c4-0000-7000-8000-0000000000bb"

    instance: Annotated[str, Open("this copy's id", "0192d3c4-0000-7000-8000-0000000000bb")]
    previous: Annotated[str, Open("the instance it was copied from", "0192d3c4-0000-7000-8000-0000000000aa")]


class RecordRetried(Payload, frozen=True):
    """A quarantined record was sent through the door again."""

    home: ClassVar[str] = "quarantine/2026-01"

    record: Annotated[int, Open("its number in the quarantine", 3)]
    accepted: Annotated[bool, Open("whether it is an event now", True)]
    reason: Annotated[str | None, Open("why it was there, or still is")] = None


class RecordDropped(Payload, frozen=True):
    """A quarantined record was given up."""

    home: ClassVar[str] = "quarantine/2026-01"

    record: Annotated[int, Open("its number in the quarantine", 3)]
    digest: Annotated[str, Open("SHA-256 of the record, hex", "0" * 64)]
    why: Annotated[str | None, Open("in words")] = None


class RecordsLost(Payload, frozen=True):
    """What Kafka accepted, and the log will never hold: whatever the named stretch of a partition held."""

    home: ClassVar[str] = "kafka/events"

    topic: Annotated[str, Open("its name", "events")]
    topic_id: Annotated[str, Open("its id, a UUID", "0192d3c4-0000-7000-8000-0000000000cc")]
    partition: Annotated[int, Open("its number, from 0", 0)]
    first_offset: Annotated[int, Open("the first offset that was not taken", 1_000)]
    next_offset: Annotated[int | None, Open("the first one after the loss; null: all that the partition held", 1_200)]
    cause: Annotated[
        Literal["retention", "truncated", "changed", "recreated", "moved"],
        Open("deleted by retention; cut off; other records there; topic made anew; log moved to another topic"),
    ]
    why: Annotated[str | None, Open("in words")] = None
