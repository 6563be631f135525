"""OpenTelemetry traces in OTLP/JSON, as the collector's file exporter writes them: one request, an
ExportTraceServiceRequest, to a line. A single request, an array of them, and log records of GenAI
events among the spans are read too.

A trace is an episode, from however many lines its spans come; traces whose spans name one
`gen_ai.conversation.id` are one episode together. Spans are gathered first, on disk where they are
many, so that memory stays bounded. Traces without a GenAI span are left out, and said in one line.
"""

from collections.abc import Iterator
from itertools import groupby
from operator import attrgetter
from typing import Any, ClassVar, NamedTuple

import msgspec
from msgspec import Raw

from core.errors import BadRecord
from eventlog.interchange import Confidence, Context, EpisodeDraft, Importer, Reader, Record, Rejected, Source
from eventlog.interchange.gather import Gather, Group, Part
from eventlog.interchange.mapping.texts import check_texts
from eventlog.interchange.otlp.exporter import EPISODE, FORMAT
from eventlog.interchange.otlp.json import Ids, KeyValue, begun, entries, ids_of, request
from eventlog.interchange.otlp.restore import restore
from eventlog.interchange.otlp.trace import episode
from eventlog.interchange.records import explain, find_layout, pieces
from eventlog.interchange.split import MAX_RECORD, Piece

_CONVERSATION = "gen_ai.conversation.id"
_JOINS = (EPISODE, _CONVERSATION)
_NAMES = tuple(key.encode() for key in _JOINS)
_SIGNS = (b'"gen_ai.', b'"traceloop.', b'"llm.request.type', EPISODE.encode())
_REQUEST = frozenset({"resourceSpans", "resourceLogs"})


_SPAN, _LOG = b"S", b"L"


class _Named(Ids):
    attributes: list[KeyValue] = msgspec.field(default_factory=list)


class _Told(_Named):
    start: int | str = msgspec.field(default=0, name="startTimeUnixNano")


class _About(NamedTuple):
    """What an entry is gathered by: its ids, what it says, when it began (ns), and its id as written."""

    trace: bytes
    span: bytes
    attributes: list[KeyValue]
    at: int
    name: str


_named = msgspec.json.Decoder(_Named).decode
_told = msgspec.json.Decoder(_Told).decode


class Otlp(Importer):
    """Spans and log records in OTLP/JSON."""

    name: ClassVar[str] = FORMAT
    mapping: ClassVar[int] = 1

    def sniff(self, head: bytes, first: dict[str, Any] | None) -> Confidence:
        if first is None or not any(isinstance(first.get(key), list) for key in _REQUEST):
            return Confidence.NO
        return Confidence.CERTAIN

    def records(self, source: Source, reader: Reader) -> Iterator[Record | Rejected]:
        with Gather() as gather:
            end = others = 0
            for where, piece in pieces(source, reader, find_layout(source, reader)):
                end = piece.offset + len(piece.data or b"")
                for why in _gather(gather, where, piece):
                    yield Rejected(where, why, end)
                if piece.cut and piece.data is not None:
                    yield Rejected(source.name, f"cut short: it ends at byte {end} without the closing ]", end)
            for group in gather.groups(MAX_RECORD):
                where = f"{group.place} {_name(group)}"
                if group.parts is None:
                    yield Rejected(where, f"larger than {MAX_RECORD >> 20} MB: an episode's spans must fit", end)
                elif not any(sign in part.data for part in group.parts for sign in _SIGNS):
                    others += 1
                else:
                    yield Record(where, _record(group), {}, end)
            if others:
                yield Rejected(source.name, f"traces without a GenAI span, left out: {others:,}", end)

    def episodes(self, record: Record, context: Context) -> Iterator[EpisodeDraft]:
        found = entries(record.data)
        if not found:
            raise BadRecord("holds no spans", where=record.where)
        restored = restore(found, record.where)
        yield from [episode(found, record.where, context.keep)] if restored is None else restored


def _gather(gather: Gather, where: str, piece: Piece) -> Iterator[str]:
    """Put a request's spans where they belong; yields why one cannot be, or why it is no request."""
    if piece.data is None:
        yield f"larger than {MAX_RECORD >> 20} MB (at byte {piece.offset})"
        return
    try:
        check_texts(piece.data)
        found = entries(piece.data)
    except msgspec.ValidationError as error:
        yield f"no OTLP request: {str(error)[:1].lower()}{str(error)[1:]} (at byte {piece.offset})"
        return
    except (ValueError, RecursionError) as error:
        yield explain(piece, error)
        return
    if found is None:
        yield f"no OTLP request of spans: it has neither resourceSpans nor resourceLogs (at byte {piece.offset})"
        return
    for entry in found:
        try:
            about = _about(entry.data)
            if not about.span and not entry.is_log:
                raise ValueError("spanId is missing")
        except (ValueError, RecursionError) as error:
            yield f"{'a log record' if entry.is_log else 'a span'} cannot be read: {error}"
            continue
        rank, group = _joined_to(about.attributes)
        data = b"".join((_LOG if entry.is_log else _SPAN, entry.data))
        gather.add(about.trace, Part(where, data, entry.context, str(about.at), about.name), group=group, rank=rank)


def _about(data: Raw) -> _About:
    """What an entry is gathered by. `ValueError` where its ids are none, or it says in a way that cannot be
    read what it is a part of."""
    try:
        told = _told(data)
        ids, attributes, at = told.raw(), told.attributes, (int(told.start), told.span)
    except (ValueError, RecursionError):  # something in it cannot be read: does it matter?
        named = _named(data) if any(name in bytes(data) for name in _NAMES) else None
        ids, attributes = (named.raw(), named.attributes) if named else (ids_of(data), [])
        at = begun(data)
    return _About(*ids, attributes, *at)


def _joined_to(attributes: list[KeyValue]) -> tuple[int, str | None]:
    """What an entry's trace is a part of, if it says so, and how much that counts."""
    given = {pair.key: pair.value.string for pair in attributes if pair.value is not None}
    named = [(rank, f"{key} {given[key]}") for rank, key in enumerate(_JOINS) if given.get(key)]
    return named[0] if named else (0, None)


def _record(group: Group) -> bytes:
    """One request of the group's spans: spans before log records, by start, then by id, each once."""
    ordered = sorted(group.parts or [], key=lambda each: (each.data[:1] == _LOG, int(each.at), each.name, each.data))
    found: list[tuple[bytes, Raw, bool]] = []
    for data, same in groupby(ordered, key=attrgetter("data")):
        for context in dict.fromkeys(each.shared for each in same):
            found.append((context, Raw(data[1:]), data[:1] == _LOG))
    return request(found)


def _name(group: Group) -> str:
    return f"trace {group.key.hex()}" if group.key is not None else str(group.name)
