"""The import: records in, whole episodes appended, each exactly once.

Ids follow from the record alone (format, mapping, generation, the record's digest, index), so what
is in the log already is recognised, and an import that was interrupted is completed by running it
again. An episode lies in one commit, many share one; behind Kafka, where it may be there in part, all
episodes of an import that did not end are sent again. The record's own bytes are a blob, stored
before the events that name it. A retraction raises the generation: the record can come again.
"""

from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from itertools import count

import msgspec

from core.errors import BadRecord, TrajlogError, UsageError
from core.event import Event
from core.identity import uuid7
from core.vocabulary.base import Split
from core.vocabulary.episode import ImportEnded, ImportStarted
from eventlog.blobs import BlobStore
from eventlog.collector import seldom_collected
from eventlog.interchange import FORMATS, Importer, Reader, Record, Rejected, Source, find
from eventlog.interchange.commits import Commits
from eventlog.interchange.detect import detect
from eventlog.interchange.keeper import Keeper
from eventlog.interchange.mapped import WRITER, Desk, Digested, Job, Mapped, drafted, identity, packed
from eventlog.interchange.presence import Firsts, Presence
from eventlog.interchange.retract import Retractions, Unfinished, stream_of
from eventlog.interchange.worker import Answers
from eventlog.interchange.workers import Workers, answers
from eventlog.ledger import Ledger
from eventlog.log import Log
from eventlog.pack import Packed, Packer
from eventlog.writer import Writer

CHUNK_RECORDS = 128
CHUNK_BYTES = 500_000
AHEAD = 24
AHEAD_BYTES = 16_000_000
"""Chunks that may be under way, and their records' bytes."""
MAX_REPORTED = 1_000
"""Rejections that a report lists; all are counted."""
WORTH = 4_000_000
"""Bytes to read for which other processes are worth their start."""

Progress = Callable[[int], None]
"""Called with the number of bytes read so far, of all sources."""


_Item = Digested | Rejected
_Made = tuple[Mapped, Packed]
"""What a record became, and the batch that its episodes' events lie in."""
_Work = Future[Answers | None] | list[_Made]
"""What a chunk of records becomes, in a worker or here."""


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
    workers: int = 0,
    progress: Progress | None = None,
) -> Report:
    """Import the sources into the log. A bad record is reported and the rest imported; so is a bad
    source among several. `BadRecord` or `UsageError` if the only source is no source at all. `strict`
    rejects what breaks the rules of its format, where the format has rules.

    `workers`: processes that may help with much to read (`workers.count()`)."""
    with (
        seldom_collected(),
        Workers(workers) as helpers,
        Keeper(blobs) as keeper,
        ThreadPoolExecutor(1, thread_name_prefix="trajlog-import") as committer,
    ):
        work = _Import(log, keeper, committer, helpers, [source.name for source in sources], format, split, strict)
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
        workers: Workers,
        names: list[str],
        format: str | None,
        split: Split,
        strict: bool,
    ) -> None:
        self.log = log
        self.keeper = keeper
        self.workers = workers
        self.names = names
        self.split = split
        self.strict = strict
        self.forced = format is not None
        self.importer = find(format) if format else None
        self.id = uuid7().hex()
        self.writer = Writer(WRITER)
        self.presence = Presence(log)
        self.retractions = Retractions(log)
        self.unfinished = Unfinished(log)
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
                folder = source.path.parent if source.path else None
                job = Job(chosen, self.id, self.split, self.strict, folder)
                values = chosen.name not in FORMATS
                if self._worthwhile(job, before or 0):
                    self.workers.start()  # formats that gather first have nothing for them to do yet
                item = None
                for item, made in self._mapped(job, before, _chunks(chosen.records(source, reader), values)):
                    if isinstance(item, Rejected):
                        self._refuse(item.where, item.why)
                        yield item.offset
                    else:
                        assert made is not None
                        self._add(item.record, *made)
                        yield item.record.offset
                if item is None:
                    raise BadRecord("holds no records", where=source.name, mend="check how the file was written")
            if source.size != before:
                self._refuse(source.name, "changed while it was read: import it again once it is written")
        except (BadRecord, UsageError) as error:
            if alone:
                raise
            self._refuse(error.where or source.name, f"{error.what}; {error.mend}" if error.mend else error.what)

    def end(self) -> None:
        """Say in the log that the import is through, if it began, and nothing of it may be there in part."""
        if self.commits.failed and not self.log.direct:
            return
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

    def _mapped(
        self, job: Job, size: int | None, chunks: Iterator[list[_Item]]
    ) -> Iterator[tuple[_Item, _Made | None]]:
        """Each item with what it became, in order. The workers map the chunks that they can take, this
        process the others."""
        begun: deque[tuple[list[_Item], Firsts, _Work]] = deque()
        read = ahead = 0
        for items in chunks:
            records = [item for item in items if isinstance(item, Digested)]
            streams = [identity(job, digest, 0).stream for _, digest in records]
            known = self.presence.look_up(streams)
            read = records[-1].record.offset if records else read
            future = self._sent(job, records, streams, max(read, size or 0))
            begun.append((items, known, future or self._map(job, records)))
            ahead += _size(items)
            while begun and (len(begun) > AHEAD or ahead > AHEAD_BYTES or _done(begun[0][2])):
                ahead -= _size(begun[0][0])
                yield from self._settled(job, *begun.popleft())
        while begun:
            yield from self._settled(job, *begun.popleft())

    def _sent(self, job: Job, records: list[Digested], streams: list[str], size: int) -> Future[Answers | None] | None:
        """Give the workers a chunk, if it may be taken for new as a whole."""
        if not self._worthwhile(job, size) or any(map(self.presence.import_of, streams)):
            return None
        return self.workers.submit(job, records)

    def _worthwhile(self, job: Job, size: int) -> bool:
        """Whether workers are worth their start for so many bytes, and can do what there is to do."""
        return size >= WORTH and job.importer.name in FORMATS and isinstance(self.log, Ledger)

    def _settled(
        self, job: Job, items: list[_Item], known: Firsts, work: _Work
    ) -> Iterator[tuple[_Item, _Made | None]]:
        records = [item for item in items if isinstance(item, Digested)]
        results = iter(work if isinstance(work, list) else self._taken(job, records, known, answers(work)))
        for item in items:
            yield item, next(results) if isinstance(item, Digested) else None

    def _taken(self, job: Job, records: list[Digested], known: Firsts, found: Answers | None) -> Iterator[_Made]:
        """What workers made, its bytes stored; what they left, and what is not new, is mapped here."""
        if found is None:
            yield from self._map(job, records)
            return
        streams = [each.stream for answer in found.records if answer for each in answer.mapped.episodes]
        self.presence.look_up(streams, known)
        for record, answer in zip(records, found.records, strict=True):
            if answer is None or any(self.presence.import_of(each.stream) for each in answer.mapped.episodes):
                yield from self._map(job, [record])
                continue
            if answer.mapped.episodes:
                self.keeper.store(record.address, record.record.data)
                for address, data in answer.blobs.items():
                    self.keeper.store(address, data)
            yield answer.mapped, found.packed

    def _map(self, job: Job, records: list[Digested]) -> list[_Made]:
        """Map records here."""
        keeper, packer = self.keeper, Packer()
        desk = Desk(keeper.keep, keeper.store, keeper.has, partial(self._generation, job))
        events = not isinstance(self.log, Ledger)
        made = [packed(job, drafted(job, each, desk), packer, events=events) for each in records]
        batch = packer.packed()
        return [(each, batch) for each in made]

    def _generation(self, job: Job, digest: bytes, ordinal: int) -> int | None:
        """The generation of a record's nth episode, None if it is in the log and was not retracted there."""
        for generation in count(1):
            brought_by = self.presence.import_of(identity(job, digest, ordinal, generation).stream)
            if brought_by is None:
                return generation
            if brought_by in self.unfinished:
                self.earlier.add(brought_by)
                return generation
            if brought_by not in self.retractions:
                self.earlier.add(brought_by)
                return None
        raise AssertionError

    def _add(self, record: Record, made: Mapped, packed: Packed) -> None:
        if made.fault is not None:
            self._refuse(record.where, made.fault)
            return
        self.present += made.present
        for reason, times in made.unmapped.items():
            self.unmapped[reason] += times
        for episode in made.episodes:
            if episode.stream in self.commits:
                self.present += 1
            else:
                self.commits.add(episode, packed)

    def _refuse(self, where: str, why: str) -> None:
        self.refused += 1
        if len(self.refusals) < MAX_REPORTED:
            self.refusals.append(Refusal(where, why))


def _done(work: _Work) -> bool:
    return isinstance(work, list) or work.done()


def _size(items: list[_Item]) -> int:
    return sum(len(item.record.data) for item in items if isinstance(item, Digested))


def _chunks(items: Iterator[Record | Rejected], values: bool) -> Iterator[list[_Item]]:
    """The items, up to `CHUNK_RECORDS` and about `CHUNK_BYTES` at a time; with their `values` if they
    are wanted: our formats read the bytes."""
    chunk: list[_Item] = []
    size = 0
    try:
        for item in items:
            if isinstance(item, Record):
                chunk.append(Digested.of(item if values or not item.value else item._replace(value={})))
                size += len(item.data)
            else:
                chunk.append(item)
            if len(chunk) == CHUNK_RECORDS or size >= CHUNK_BYTES:
                yield chunk
                chunk, size = [], 0
    except BadRecord:
        yield chunk
        raise
    yield chunk
