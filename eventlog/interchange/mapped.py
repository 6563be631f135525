"""What a record becomes: whole episodes, packed, and the bytes that they refer to.

It follows from the record and the job alone, so any process may do it.
"""

from collections.abc import Callable
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from core.errors import BadEvent, BadRecord
from core.event import Event
from core.identity import uuid_text
from core.vocabulary import BlobRef
from core.vocabulary.base import Split
from core.vocabulary.episode import EpisodeEnded, Origin
from eventlog.interchange import Context, EpisodeDraft, Importer, Record, rows
from eventlog.interchange.identity import Identity
from eventlog.large import body
from eventlog.log import MAX_BATCH_BYTES, MAX_BATCH_EVENTS
from eventlog.pack import Packer

WRITER = "import"


class Job(NamedTuple):
    """An import, as far as its episodes depend on it."""

    importer: Importer
    import_id: str
    split: Split
    strict: bool
    folder: Path | None


class Digested(NamedTuple):
    """A record and the SHA-256 of its bytes, which the ids of its episodes follow from."""

    record: Record
    digest: bytes

    @classmethod
    def of(cls, record: Record) -> "Digested":
        return cls(record, sha256(record.data).digest())

    @property
    def address(self) -> str:
        return f"sha256:{self.digest.hex()}"


class Episode(msgspec.Struct, frozen=True):
    """An episode of a record: its events are those from `first` to before `last` of what was packed. They are
    kept as `events` too only for a log that does not take packed ones."""

    stream: str
    first: int
    last: int
    events: list[Event] = []


class Mapped(msgspec.Struct, frozen=True):
    """What a record became, or the `fault` for which it is refused. `present`: episodes left out."""

    episodes: list[Episode]
    present: int
    unmapped: dict[str, int]
    fault: str | None = None


class Desk(msgspec.Struct, frozen=True):
    """What mapping asks of its surroundings: to keep bytes, or to store those whose address is known;
    whether a blob is stored; the generation of a record's nth episode, None if it is to be left out."""

    keep: Callable[[bytes], BlobRef]
    store: Callable[[str, bytes], None]
    has: Callable[[str], bool]
    generation: Callable[[bytes, int], int | None]


def identity(job: Job, digest: bytes, ordinal: int, generation: int = 1) -> Identity:
    """The identity of a record's nth episode."""
    return _identity(job.importer.name, job.importer.mapping, generation, digest, ordinal)


_identity = lru_cache(maxsize=8_192)(Identity)
"""Asked for when a record is looked up, and again when it is mapped."""


class Drafted(msgspec.Struct, frozen=True):
    """A record, the drafts of its episodes, and what was asked for it; or the `fault` for which it is refused.
    `present`: episodes left out."""

    digested: Digested
    desk: Desk
    episodes: list[tuple[Identity, EpisodeDraft]]
    present: int
    fault: str | None = None


def drafted(job: Job, digested: Digested, desk: Desk) -> Drafted:
    """Turn a record into drafts of episodes."""
    record, digest = digested
    episodes: list[tuple[Identity, EpisodeDraft]] = []
    present = 0

    def named(ordinal: int) -> str:
        generation = desk.generation(digest, ordinal) or 1
        return identity(job, digest, ordinal, generation).stream.removeprefix("episode/")

    context = Context(
        record.where, job.split, desk.keep, has=desk.has, folder=job.folder, strict=job.strict, episode=named
    )
    try:
        for ordinal, draft in enumerate(job.importer.episodes(record, context)):
            generation = desk.generation(digest, ordinal)
            if generation is None:
                present += 1
            else:
                episodes.append((identity(job, digest, ordinal, generation), draft))
    except _REFUSED as error:
        return Drafted(digested, desk, [], 0, _why(job, error))
    return Drafted(digested, desk, episodes, present)


def packed(job: Job, drafted: Drafted, packer: Packer, *, events: bool = False) -> Mapped:
    """Pack the episodes of a record, all of them or none; `events` asks for these too."""
    if drafted.fault is not None:
        return Mapped([], 0, {}, drafted.fault)
    begun = len(packer)
    episodes: list[Episode] = []
    unmapped: dict[str, int] = {}
    try:
        for made, draft in drafted.episodes:
            first = len(packer)
            kept = _pack(job, draft, made, drafted.digested, drafted.desk, packer, events=events)
            episodes.append(Episode(made.stream, first, len(packer), kept))
            for reason, times in draft.unmapped.items():
                unmapped[reason] = unmapped.get(reason, 0) + times
    except _REFUSED as error:
        packer.drop(begun)
        return Mapped([], 0, {}, _why(job, error))
    return Mapped(episodes, drafted.present, unmapped)


_REFUSED = (BadRecord, BadEvent, ValueError, ArithmeticError, LookupError, TypeError, AttributeError, RecursionError)


def _why(job: Job, error: Exception) -> str:
    """Why a record is refused."""
    if isinstance(error, BadRecord | BadEvent):
        return error.what
    return f"the importer of {job.importer.name} cannot read it: {error!r}"


def _pack(
    job: Job,
    draft: EpisodeDraft,
    identity: Identity,
    digested: Digested,
    desk: Desk,
    packer: Packer,
    *,
    events: bool,
) -> list[Event]:
    """Pack an episode; its events, if they are wanted. BadRecord if it is more than a commit holds."""
    importer, record, address = job.importer, digested.record, digested.address
    stream, run = identity.stream, identity.run
    desk.store(address, record.data)
    kept = BlobRef(address, len(record.data), "application/json")
    origin = Origin(importer.name, importer.mapping, identity.generation, job.import_id, record.where, kept)
    split = job.split if draft.started.split == "train" else draft.started.split
    draft.start(replace(draft.started, origin=origin, split=split))
    episode = rows.fastest()(packer, stream, WRITER, run, identity.events)
    most = packer.size + MAX_BATCH_BYTES // 2
    expected: int | None = 0
    made: list[Event] = []
    for seq, each in enumerate(draft.events, 1):
        payload = each.payload
        if isinstance(payload, EpisodeEnded) and not payload.runs:
            payload = replace(payload, runs={uuid_text(run): seq})
        type_, schema, data = type(payload).__name__, payload.schema_number, body(payload, desk.keep)
        fault = episode.add(seq, type_, schema, each.occurred_at, each.actor, each.conversation, expected, data)
        if fault is not None:
            raise BadEvent(fault)
        if seq == MAX_BATCH_EVENTS or packer.size >= most:
            raise BadRecord(f"an episode of {len(draft.events):,} events is more than one commit holds")
        if events:
            made.append(
                Event(
                    event_id=packer.batch.ids[-1], stream=stream, writer=WRITER, run=run, seq=seq, type=type_,
                    schema=schema, occurred_at=each.occurred_at, actor=each.actor, conversation=each.conversation,
                    expected_version=expected, body=data,
                )
            )  # fmt: skip
        expected = None
    return made
