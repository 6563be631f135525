"""Appends events that come as JSON lines, answering each one once it is durable, in order.

What has arrived goes in one commit, so that a fast writer is not slowed to one event per fsync and a
slow one waits for nothing. At the first bad line it stops: what came before it stands. Where each event
goes alone (Kafka), a line that is refused may have been followed by others already: how many is said.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence

import msgspec
from msgspec import Raw

from core import choices, vocabulary
from core.errors import BadEvent, EventIdTaken, TrajlogError, WrongExpectedVersion
from core.event import Event, check
from core.identity import uuid8, uuid_bytes
from core.times import from_text
from eventlog.answers import Pipelined
from eventlog.interchange.records import explain
from eventlog.interchange.split import Piece
from eventlog.log import Accepted, Appended, Log, Wait
from eventlog.writer import Writer

MAX_LINE = 8_000_000
BATCH_EVENTS = 5_000
BATCH_BYTES = 8_000_000

WRITER = "append"


class Line(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One line: the fields of an event that its sender decides."""

    stream: str
    type: str
    payload: Raw
    schema: int | None = None
    event_id: str | None = None
    occurred_at: str | None = None
    actor: str | None = None
    owner: str | None = None
    causation_id: str | None = None
    correlation_id: str | None = None
    conversation: str | None = None
    expected_version: int | None = None


_decode = msgspec.json.Decoder(Line).decode


Unknown = Callable[[int, str], None]
Given = Sequence[Appended | Accepted]


def append_lines(
    log: Log, chunks: Iterable[bytes], unknown: Unknown | None = None, *, wait: Wait = "persisted"
) -> Iterator[Given]:
    """Append the lines that `chunks` hold, and yield the answers to those of each commit. The error of
    a bad line names its number; it comes after the answers to all lines before it. `unknown` is told
    the first line of each type that this version does not know: it is appended all the same."""
    writer = Writer(WRITER)
    told: set[str] = set()
    batch: list[tuple[int, Event]] = []
    size = 0
    for item in _lines(chunks):
        if item is not None:
            number, line = item
            try:
                event = _event(line, writer)
                batch.append((number, event))
                if unknown and event.type not in vocabulary.TYPES and event.type not in told:
                    told.add(event.type)
                    unknown(number, event.type)
            except TrajlogError as error:
                yield from _commit(log, batch, wait)
                raise _numbered(error, number) from None
            size += len(line)
        if batch and (item is None or len(batch) >= BATCH_EVENTS or size >= BATCH_BYTES):
            yield from _commit(log, batch, wait)
            batch, size = [], 0


def _lines(chunks: Iterable[bytes]) -> Iterator[tuple[int, bytes] | None]:
    """The lines with their numbers; None where there is no further one for now."""
    number, rest = 0, b""
    for chunk in chunks:
        *whole, rest = (rest + chunk).split(b"\n")
        for line in whole:
            number += 1
            if line.strip():
                yield number, line
        if len(rest) > MAX_LINE:
            yield number + 1, rest
        yield None
    if rest.strip():
        yield number + 1, rest
    yield None


def _event(line: bytes, writer: Writer) -> Event:
    if len(line) > MAX_LINE:
        raise BadEvent(f"a line of more than {MAX_LINE:,} bytes", mend="keep large values as blobs")
    try:
        given = _decode(line.removeprefix(b"\xef\xbb\xbf"))
    except msgspec.ValidationError as error:
        raise BadEvent(f"not an event: {error}", mend="see: trajlog append --help") from None
    except (ValueError, RecursionError) as error:
        raise BadEvent(explain(Piece(0, line), error), mend="write one JSON object to a line") from None
    known = vocabulary.TYPES.get(given.type)
    event_id = None if given.event_id is None else uuid_bytes(given.event_id, where="event_id")
    if event_id is not None:
        # An event with an id of its own is the same event whichever process sends it again.
        writer = Writer(WRITER, run=uuid8(b"trajlog/append/1", event_id))
    event = writer.raw(
        given.stream,
        given.type,
        bytes(given.payload),
        event_id=event_id,
        schema=given.schema if given.schema is not None else known.schema_number if known else 1,
        occurred_at=None if given.occurred_at is None else from_text(given.occurred_at, where="occurred_at"),
        actor=given.actor,
        owner=given.owner,
        causation_id=None if given.causation_id is None else uuid_bytes(given.causation_id, where="causation_id"),
        correlation_id=given.correlation_id,
        conversation=given.conversation,
        expected_version=given.expected_version,
    )
    check(event)
    if known:
        _check_payload(event)
    return event


def _check_payload(event: Event) -> None:
    """Refuse what says it is of a known type and schema and is not. Fields we do not know may stand."""
    found = vocabulary.payload(event)
    if isinstance(found, vocabulary.Unknown) and event.schema <= vocabulary.TYPES[event.type].schema_number:
        mend = choices.mend(found.why, vocabulary.TYPES[event.type]) or f"see: trajlog events {event.type}"
        raise BadEvent(f"payload does not fit {event.type}: {found.why}", where="payload", mend=mend)


def _commit(log: Log, batch: list[tuple[int, Event]], wait: Wait) -> Iterator[Given]:
    """One commit, or, where an event is refused, one for each of those before it."""
    if not batch:
        return
    if isinstance(log, Pipelined):
        yield from _send(log, batch, wait)
        return
    try:
        yield log.append_many([event for _, event in batch])
    except (BadEvent, EventIdTaken, WrongExpectedVersion):
        for number, event in batch:
            try:
                yield [log.append(event)]
            except TrajlogError as error:
                raise _numbered(error, number) from None


def _send(log: Pipelined, batch: list[tuple[int, Event]], wait: Wait) -> Iterator[Given]:
    """The answers up to the first line that was refused; those after it were sent as well."""
    answers = log.begin([event for _, event in batch], wait=wait).result()
    good: list[Appended | Accepted] = []
    for (number, _), answer in zip(batch, answers, strict=True):
        if isinstance(answer, TrajlogError):
            if good:
                yield good
            after = sum(not isinstance(later, TrajlogError) for later in answers[len(good) + 1 :])
            if after:
                lines = "1 line after it was" if after == 1 else f"{after:,} lines after it were"
                answer.mend = f"{answer.mend}; {lines} sent as well" if answer.mend else f"{lines} sent as well"
            raise _numbered(answer, number)
        good.append(answer)
    yield good


def _numbered(error: TrajlogError, number: int) -> TrajlogError:
    error.where = f"line {number}, {error.where}" if error.where else f"line {number}"
    return error
