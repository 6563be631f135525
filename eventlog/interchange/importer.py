"""The import: records in, whole episodes appended, each exactly once.

Ids follow from the record alone (format, mapping, generation, the record's digest, index), so what
is in the log already is recognised, and an import that was interrupted is completed by running it
again. An episode lies in one commit, many share one. The record's own bytes are a blob, stored
before the events that name it. A retraction raises the generation: the record can come again.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import suppress
from hashlib import sha256
from itertools import count

import msgspec
from msgspec.structs import replace

from core.errors import BadEvent, BadRecord, TrajlogError, UsageError
from core.event import Event, check
from core.identity import uuid7, uuid_text
from core.vocabulary.base import Split
from core.vocabulary.episode import EpisodeEnded, ImportEnded, ImportStarted, Origin
from eventlog.blobs import BlobStore
from eventlog.interchange import Context, EpisodeDraft, Importer, Reader, Record, Rejected, Source, find
from eventlog.interchange.commits import Commits, size_of
from eventlog.interchange.detect import detect
from eventlog.interchange.identity import Identity
from eventlog.interchange.keeper import Keeper
from eventlog.interchange.presence import Presence
from eventlog.interchange.retract import Retractions, stream_of
from eventlog.large import body
from eventlog.log import MAX_BATCH_BYTES, MAX_BATCH_EVENTS, Log
from eventlog.writer import Writer

CHUNK_RECORDS = 256
CHUNK_BYTES = 4_000_000
MAX_REPORTED = 1_000
"""Rejections that a report lists; all are counted."""

WRITER = "import"

Progress = Callable[[int], None]
"""Called with the number of bytes read so far, of all sources."""


class Refusal(msgspec.Struct, frozen=True):
    """A record or file that was not imported."""

    where: str
    why: str


class Report(msgspec.Struct, frozen=True):
    """What an import did. `import_id` is the import that the episodes belong to: this one if anything
    was new, else the earlier one, None where there were several or no episodes."""

    import_id: str | None = msgspec.field(name="import")
    format: str | None
    sources: list[str]
    episodes: dict[str, int]
    events: int
    unmapped: dict[str, int]
    rejected: list[Refusal]


def run(
    log: Log,
    sources: Sequence[Source],
    blobs: BlobStore,
    *,
    format: str | None = None,
    split: Split = "train",
    strict: bool = False,
    progress: Progress | None = None,
) -> Report:
    """Import the sources into the log. A bad record is reported and the rest imported; so is a bad
    source among several. `BadRecord` or `UsageError` if the only source is no source at all. `strict`
    rejects what breaks the rules of its format, where the format has rules."""
    with Keeper(blobs) as keeper, ThreadPoolExecutor(1, thread_name_prefix="trajlog-import") as committer:
        work = _Import(log, keeper, committer, [source.name for source in sources], format, split, strict)
        try:
            done = 0
            for source in sources:
                for at in work.source(source, alone=len(sources) == 1):
                    if progress:
                        progress(done + at)
                done += source.size or 0
            work.commits.flush()
            work.commits.settle()
        except BaseException:
            with suppress(Exception):
                work.commits.settle()
            with suppress(TrajlogError):
                work.end()
            raise
        work.end()
        return work.report()


class _Import:
    """An import under way."""

    def __init__(
        self,
        log: Log,
        keeper: Keeper,
        committer: Executor,
        names: list[str],
        format: str | None,
        split: Split,
        strict: bool,
    ) -> None:
        self.log = log
        self.keeper = keeper
        self.names = names
        self.split = split
        self.strict = strict
        self.forced = format is not None
        self.importer = find(format) if format else None
        self.id = uuid7().hex()
        self.writer = Writer(WRITER)
        self.presence = Presence(log)
        self.retractions = Retractions(log)
        self.commits = Commits(log, keeper, committer, self._started)
        self.present = self.refused = 0
        self.earlier: set[str] = set()
        self.unmapped: Counter[str] = Counter()
        self.refusals: list[Refusal] = []

    def source(self, source: Source, *, alone: bool) -> Iterator[int]:
        """Import a source; yields the bytes of it that were read so far."""
        before = source.size
        try:
            with source.open() as reader:
                chosen = self._importer(source, reader)
                item = None
                for items in _chunks(chosen.records(source, reader)):
                    self._look_up(chosen, items)
                    for item in items:
                        if isinstance(item, Rejected):
                            self._refuse(item.where, item.why)
                        else:
                            self._record(chosen, item, source)
                        yield item.offset
                if item is None:
                    raise BadRecord("holds no records", where=source.name, mend="check how the file was written")
            if source.size != before:
                self._refuse(source.name, "changed while it was read: import it again once it is written")
        except (BadRecord, UsageError) as error:
            if alone:
                raise
            self._refuse(error.where or source.name, f"{error.what}; {error.mend}" if error.mend else error.what)

    def end(self) -> None:
        """Say in the log that the import is through, if it began."""
        if self.log.stream_head(stream_of(self.id)):
            ended = ImportEnded(self._episodes(), self.commits.events, dict(self.unmapped))
            self.log.append(self.writer.event(stream_of(self.id), ended))

    def report(self) -> Report:
        """What was done."""
        mine = self.id if self.commits.new else None
        return Report(
            mine or (next(iter(self.earlier)) if len(self.earlier) == 1 else None),
            self.importer.name if self.importer else None,
            self.names,
            self._episodes(),
            self.commits.events,
            dict(self.unmapped),
            self.refusals,
        )

    def _started(self) -> Event:
        assert self.importer
        started = ImportStarted(self.importer.name, self.importer.mapping, self.names, self.split)
        return self.writer.event(stream_of(self.id), started)

    def _episodes(self) -> dict[str, int]:
        present = self.present + self.commits.present
        return {"new": self.commits.new, "present": present, "rejected": self.refused}

    def _importer(self, source: Source, reader: Reader) -> Importer:
        if self.forced:
            assert self.importer
            return self.importer
        found = detect(source, reader)
        if self.importer is None:
            self.importer = found
        if found.name != self.importer.name:
            raise BadRecord(
                f"is {found.name}, and this import is of {self.importer.name}",
                where=source.name,
                mend="import it on its own",
            )
        return self.importer

    def _look_up(self, chosen: Importer, items: list[Record | Rejected]) -> None:
        """Ask for the first episode of each record at once; the others are asked for one by one."""
        digests = [sha256(item.data).digest() for item in items if isinstance(item, Record)]
        self.presence.look_up(Identity(chosen.name, chosen.mapping, 1, digest, 0).stream for digest in digests)

    def _record(self, chosen: Importer, record: Record, source: Source) -> None:
        """Turn a record into events, all of them or none."""
        made: list[tuple[str, list[Event]]] = []
        unmapped: Counter[str] = Counter()
        present = 0
        try:
            digest = sha256(record.data).digest()
            context = self._context(chosen, record, digest, source)
            for ordinal, draft in enumerate(chosen.episodes(record, context)):
                identity, new = self._identity(chosen, digest, ordinal)
                if not new:
                    present += 1
                    continue
                made.append(self._events(draft, identity, self._origin(chosen, record, identity)))
                unmapped += draft.unmapped
        except (BadRecord, BadEvent) as error:
            self._refuse(record.where, error.what)
            return
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
            self._refuse(record.where, f"the importer of {chosen.name} cannot read it: {error!r}")
            return
        self.present += present
        self.unmapped += unmapped
        for stream, events in made:
            self.commits.add(stream, events)

    def _context(self, chosen: Importer, record: Record, digest: bytes, source: Source) -> Context:
        return Context(
            record.where,
            self.split,
            self.keeper.keep,
            has=self.keeper.has,
            folder=source.path.parent if source.path else None,
            strict=self.strict,
            episode=lambda ordinal: self._identity(chosen, digest, ordinal)[0].stream.removeprefix("episode/"),
        )

    def _identity(self, chosen: Importer, digest: bytes, ordinal: int) -> tuple[Identity, bool]:
        """The episode's identity, and whether it is new: not in the log, or retracted there."""
        for generation in count(1):
            identity = Identity(chosen.name, chosen.mapping, generation, digest, ordinal)
            stream = identity.stream
            if stream in self.commits:
                return identity, False
            brought_by = self.presence.import_of(stream)
            if brought_by is None:
                return identity, True
            if brought_by not in self.retractions:
                self.earlier.add(brought_by)
                return identity, False
        raise AssertionError

    def _origin(self, chosen: Importer, record: Record, identity: Identity) -> Origin:
        kept = self.keeper.keep(record.data, "application/json")
        return Origin(chosen.name, chosen.mapping, identity.generation, self.id, record.where, kept)

    def _events(self, draft: EpisodeDraft, identity: Identity, origin: Origin) -> tuple[str, list[Event]]:
        stream = identity.stream
        split = self.split if draft.started.split == "train" else draft.started.split
        started = replace(draft.started, origin=origin, split=split)
        run = identity.run
        events = []
        for seq, (payload, occurred_at, actor, conversation) in enumerate(draft.events, 1):
            payload = started if seq == 1 else payload
            if isinstance(payload, EpisodeEnded) and not payload.runs:
                payload = replace(payload, runs={uuid_text(run): seq})
            event = Event(
                event_id=identity.event(b"%d" % seq),
                stream=stream,
                writer=WRITER,
                run=run,
                seq=seq,
                type=type(payload).__name__,
                schema=payload.schema_number,
                body=body(payload, self.keeper.keep),
                occurred_at=occurred_at,
                actor=actor,
                conversation=conversation,
                expected_version=0 if seq == 1 else None,
            )
            check(event)
            events.append(event)
        if len(events) >= MAX_BATCH_EVENTS or size_of(events) >= MAX_BATCH_BYTES // 2:
            raise BadRecord(f"an episode of {len(events):,} events is more than one commit holds")
        return stream, events

    def _refuse(self, where: str, why: str) -> None:
        self.refused += 1
        if len(self.refusals) < MAX_REPORTED:
            self.refusals.append(Refusal(where, why))


def _chunks(items: Iterator[Record | Rejected]) -> Iterator[list[Record | Rejected]]:
    """The items, up to `CHUNK_RECORDS` and about `CHUNK_BYTES` at a time."""
    chunk: list[Record | Rejected] = []
    size = 0
    try:
        for item in items:
            chunk.append(item)
            size += len(item.data) if isinstance(item, Record) else 0
            if len(chunk) == CHUNK_RECORDS or size >= CHUNK_BYTES:
                yield chunk
                chunk, size = [], 0
    except BadRecord:
        yield chunk
        raise
    yield chunk
