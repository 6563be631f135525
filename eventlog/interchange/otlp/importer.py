"""OpenTelemetry traces in OTLP/JSON, as the collector's file exporter writes them: one request, an
ExportTraceServiceRequest, to a line. A single request, an array of them, and log records of GenAI
events among the spans are read too.

A trace is an episode, from however many lines its spans come; traces whose spans name one
`gen_ai.conversation.id` are one episode together. Spans are gathered first, on disk where they are
many, so that memory stays bounded. Traces without a GenAI span are left out, and said in one line.
"""

from collections.abc import Iterator
from typing import Any, ClassVar

import msgspec
from msgspec import Raw

from core.errors import BadRecord
from eventlog.interchange import Confidence, Context, EpisodeDraft, Importer, Reader, Record, Rejected, Source
from eventlog.interchange.gather import BATCH, Gather, Group, Part
from eventlog.interchange.mapping.texts import check_texts
from eventlog.interchange.otlp.exporter import EPISODE, FORMAT
from eventlog.interchange.otlp.json import Ids, KeyValue, Stretch, begun, entries, ids_of, request, stretches
from eventlog.interchange.otlp.restore import restore
from eventlog.interchange.otlp.trace import episode
from eventlog.interchange.records import explain, find_layout, pieces
from eventlog.interchange.split import MAX_RECORD, Piece

_CONVERSATION = "gen_ai.conversation.id"
_JOINS = (EPISODE, _CONVERSATION)
_NAMES = tuple(key.encode() for key in _JOINS)
_SIGNS = (b'"gen_ai.', b'"traceloop.', b'"llm.request.type', EPISODE.encode())
_REQUEST = frozenset({"resourceSpans", "resourceLogs"})


_SPAN, _LOG = b"\0", b"\1"


class _Named(Ids):
    attributes: list[KeyValue] = msgspec.field(default_factory=list)


class _Told(_Named):
    start: int | str = msgspec.field(default=0, name="startTimeUnixNano")


_Place = tuple[bytes, int, str | None]
"""The trace that an entry belongs to, and what that is a part of, as `_joined_to` has it."""
_Places = dict[_Place, list[tuple[Raw, str, str]]]
"""The entries of each place, each with the time and the id to sort by."""


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
        restored = restore(record.data)
        if restored is None:
            found = entries(record.data)
            if not found:
                raise BadRecord("holds no spans", where=record.where)
            restored = [episode(found, record.where, context.keep)]
        yield from restored


def _gather(gather: Gather, where: str, piece: Piece) -> Iterator[str]:
    """Put a request's spans where they belong; yields why one cannot be, or why it is no request."""
    if piece.data is None:
        yield f"larger than {MAX_RECORD >> 20} MB (at byte {piece.offset})"
        return
    try:
        check_texts(piece.data)
        found = stretches(piece.data)
    except msgspec.ValidationError as error:
        yield f"no OTLP request: {str(error)[:1].lower()}{str(error)[1:]} (at byte {piece.offset})"
        return
    except (ValueError, RecursionError) as error:
        yield explain(piece, error)
        return
    if found is None:
        yield f"no OTLP request of spans: it has neither resourceSpans nor resourceLogs (at byte {piece.offset})"
        return
    for stretch in found:
        yield from _add(gather, where, stretch)


def _add(gather: Gather, where: str, stretch: Stretch) -> Iterator[str]:
    """Put the entries of a stretch where they belong, `BATCH` bytes of them at a time; yields why one cannot be."""
    places: _Places = {}
    size = 0
    for data in stretch.entries:
        try:
            place, at, name = _placed(data, stretch.is_log)
        except (ValueError, RecursionError) as error:
            yield f"{'a log record' if stretch.is_log else 'a span'} cannot be read: {error}"
            continue
        places.setdefault(place, []).append((data, at, name))
        size += len(data)
        if size > BATCH:
            _put(gather, where, stretch, places)
            places, size = {}, 0
    _put(gather, where, stretch, places)


def _put(gather: Gather, where: str, stretch: Stretch, places: _Places) -> None:
    """Put entries where they belong, those of one place as one part: each followed by the sign of its kind, which
    no JSON holds."""
    kind = _LOG if stretch.is_log else _SPAN
    for (trace, rank, group), found in places.items():
        entries, starts, names = zip(*found, strict=True)
        part = Part(where, kind.join((*entries, b"")), stretch.context, " ".join(starts), " ".join(names))
        gather.add(trace, part, group=group, rank=rank)


def _placed(data: Raw, is_log: bool) -> tuple[_Place, str, str]:
    """Where an entry belongs, when it began (ns) and its id as written. `ValueError` where its ids are none, or it
    says in a way that cannot be read what it is a part of."""
    try:
        told = _told(data)
        trace, span = told.raw()
        attributes, at, name = told.attributes, int(told.start), told.span
    except (ValueError, RecursionError):  # something in it cannot be read: does it matter?
        named = _named(data) if any(name in bytes(data) for name in _NAMES) else None
        (trace, span), attributes = (named.raw(), named.attributes) if named else (ids_of(data), [])
        at, name = begun(data)
    if not span and not is_log:
        raise ValueError("spanId is missing")
    return (trace, *_joined_to(attributes)), str(at), name


def _joined_to(attributes: list[KeyValue]) -> tuple[int, str | None]:
    """What an entry's trace is a part of, if it says so, and how much that counts."""
    given = {pair.key: pair.value.string for pair in attributes if pair.key in _JOINS and pair.value is not None}
    for rank, key in enumerate(_JOINS):
        if given.get(key):
            return rank, f"{key} {given[key]}"
    return 0, None


def _record(group: Group) -> bytes:
    """One request of the group's spans: spans before log records, by start, then by id, each once."""
    found: list[tuple[bytes, int, str, bytes, int, bytes]] = []
    for order, (_, data, context, starts, names) in enumerate(group.parts or ()):
        kind, start = data[-1:], 0
        for at, name in zip(starts.split(" "), names.split(" "), strict=True):
            end = data.index(kind, start)
            found.append((kind, int(at), name, data[start:end], order, context))
            start = end + 1
    found.sort()
    contexts: dict[tuple[bytes, bool], list[bytes]] = {}
    for kind, _, _, data, _, context in found:
        listed = contexts.setdefault((context, kind == _LOG), [])
        if not listed or listed[-1] != data:
            listed.append(data)
    return request(contexts)


def _name(group: Group) -> str:
    return f"trace {group.key.hex()}" if group.key is not None else str(group.name)
