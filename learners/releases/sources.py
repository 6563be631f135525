"""The logs that a release draws on, each as of its cut, read in one transaction each."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, NamedTuple

from core.errors import Corrupt, TrajlogError, UsageError
from core.identity import uuid_text
from core.vocabulary import release as vocabulary
from eventlog.database import Connection
from eventlog.log import Log, reader_of
from eventlog.versions.cut import Cut, cut_at, resolve
from eventlog.views import reading, with_sources

if TYPE_CHECKING:
    from learners.rows import RowView

Progress = Callable[[int, int], None]

_PARKED = """
SELECT name, version, count(*), min(position) FROM trajlog.parked WHERE position <= %s GROUP BY 1, 2 ORDER BY 1, 2
"""
_FIRST = "SELECT min(first_position) FROM trajlog.stream WHERE stream ^@ ANY(%s)"


class TooOld(TrajlogError):
    """The cut is older than anything that the view reads."""


class Source(NamedTuple):
    """A log, and its cut."""

    log: Log
    cut: Cut


class Open(NamedTuple):
    """A log as of its cut, on a connection where the view's rows are."""

    log: Log
    cut: Cut
    connection: Connection

    @property
    def log_id(self) -> bytes:
        return self.cut.log_id


def at(log: Log, text: str | None) -> Source:
    """A log as of a TAG, POSITION or TIME, by default as it is."""
    return Source(log, cut_at(log, log.head().position) if text is None else resolve(log, text))


def again(log: Log, cut: vocabulary.Cut) -> Source:
    """A log as of a cut that a release recorded. `Corrupt` where the log is not what it was."""
    found = cut_at(log, cut.position)
    if found.root.hex() != cut.root:
        raise Corrupt(
            f"the log up to position {cut.position} is not what it was when the release was built",
            where=uuid_text(log.log_id),
            mend="run: trajlog verify",
        )
    return Source(log, found)


def ordered(sources: Sequence[Source]) -> list[Source]:
    """By log id. `UsageError` where a log is named twice."""
    ids = [source.cut.log_id for source in sources]
    for log_id in ids:
        if ids.count(log_id) > 1:
            raise UsageError("the same log twice", where=uuid_text(log_id), mend="give one cut of each log")
    return sorted(sources, key=lambda source: source.cut.log_id)


@contextmanager
def opened(
    sources: Sequence[Source], view: "RowView", *, progress: Progress | None = None, processes: int = 1
) -> Iterator[list[Open]]:
    """The logs as of their cuts. Refused where the view's fold stopped at an event before a cut."""
    with ExitStack() as stack:
        found = []
        for log, cut in ordered(sources):
            connection = stack.enter_context(
                reading(log, view.projections, as_of=cut.position, progress=progress, processes=processes)
            )
            # A log that was just filled has no statistics: all of it, or of an index, would be scanned for each
            # page of rows and each task, and each small query would be compiled.
            connection.execute("SET LOCAL enable_seqscan = off; SET LOCAL enable_bitmapscan = off; SET LOCAL jit = off")
            _refuse_parked(connection, view, cut)
            found.append(Open(log, cut, connection))
        yield found


def _refuse_parked(connection: Connection, view: "RowView", cut: Cut) -> None:
    read = {(projection.name, projection.version) for projection in with_sources(view.projections)}
    for name, version, count, position in connection.execute(_PARKED, (cut.position,)).fetchall():
        if (name, version) in read:
            streams = "1 stream stops" if count == 1 else f"{count:,} streams stop"
            raise TrajlogError(
                f"{streams} at an event before the cut that {name} v{version} cannot fold, first at {position}",
                where=view.name,
                mend="see trajlog project parked",
            )


def refuse_too_old(source: Open, view: "RowView") -> None:
    """Say so if the view had nothing to read by the cut."""
    prefixes = [str(prefix) for one in with_sources(view.projections) if (prefix := getattr(one, "prefix", ""))]
    with reader_of(source.log).borrow() as connection:
        (first,) = connection.execute(_FIRST, (prefixes,)).fetchone() or (None,)
    if first is None:
        raise TooOld(
            f"the log has nothing that {view.name} reads", where="release build", mend="import or record episodes first"
        )
    if first > source.cut.position:
        raise TooOld(
            f"the cut at position {source.cut.position} is older than the first event that {view.name} reads, "
            f"at position {first}",
            where="release build",
            mend="give a later cut",
        )


def recorded(source: Open, rows: int) -> vocabulary.Cut:
    """The cut as a release records it."""
    cut = source.cut
    return vocabulary.Cut(
        log_id=uuid_text(cut.log_id),
        position=cut.position,
        root=cut.root.hex(),
        seal=None if cut.seal is None else cut.seal.hex(),
        offsets={f"{uuid_text(topic)}/{partition}": n for (topic, partition), n in sorted(cut.offsets.items())},
        rows=rows,
    )
