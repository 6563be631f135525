"""Langfuse exports: rows of observations, traces and scores, as the blob storage integration writes
them (JSON lines, `trace_id`), as the UI and the API give them (JSON, `traceId`), a trace with its
observations inside, or pages of the API.

A trace is an episode. Its rows may lie anywhere in the file and in any mixture: they are gathered
first, on disk where they are many, so that memory stays bounded. Files of one export belong together:
read on their own, scores have no episode to be in.
"""

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Literal

import msgspec
from msgspec import Raw

from core.errors import BadRecord
from eventlog.interchange import Confidence, Context, EpisodeDraft, Importer, Reader, Record, Rejected, Source
from eventlog.interchange.gather import Gather, Group, Part
from eventlog.interchange.langfuse.trace import episode
from eventlog.interchange.mapping.messages import shallow
from eventlog.interchange.mapping.texts import check_texts
from eventlog.interchange.records import explain, find_layout, pieces
from eventlog.interchange.split import MAX_RECORD, Piece

Kind = Literal["trace", "observation", "score"]

_encode = msgspec.json.encode
_fields = msgspec.json.Decoder(dict[str, Raw]).decode
_string = msgspec.json.Decoder(str).decode
_TYPES = frozenset(
    {
        "SPAN",
        "GENERATION",
        "EVENT",
        "AGENT",
        "TOOL",
        "CHAIN",
        "RETRIEVER",
        "EVALUATOR",
        "EMBEDDING",
        "GUARDRAIL",
    }
)
_OF_TRACES = frozenset(
    {
        "sessionId",
        "session_id",
        "userId",
        "user_id",
        "projectId",
        "project_id",
        "release",
        "public",
        "bookmarked",
        "tags",
        "observations",
        "htmlPath",
    }
)
_MARKS: dict[Kind, bytes] = {"trace": b"T", "observation": b"O", "score": b"S"}


_Row = tuple[str, Part]
"""The trace that a row of an export belongs to, and the row, behind the mark of its kind; an observation's with when
it began, and its id, to sort by."""


class Langfuse(Importer):
    """Observations, traces and scores of Langfuse."""

    name: ClassVar[str] = "langfuse"
    mapping: ClassVar[int] = 1

    def sniff(self, head: bytes, first: dict[str, Any] | None) -> Confidence:
        if first is None:
            return Confidence.NO
        page = first.get("data")
        if isinstance(page, list) and isinstance(first.get("meta"), dict) and page and isinstance(page[0], dict):
            first = page[0]
        match _kind(first, first.get("type")):
            case "observation":
                return Confidence.CERTAIN
            case "trace" | "score":
                return Confidence.LIKELY
        return Confidence.NO

    def records(self, source: Source, reader: Reader) -> Iterator[Record | Rejected]:
        with Gather() as gather:
            end = 0
            for where, piece in pieces(source, reader, find_layout(source, reader)):
                end = piece.offset + len(piece.data or b"")
                why = _gather(gather, where, piece)
                if why is not None:
                    yield Rejected(where, why, end)
                if piece.cut and piece.data is not None:
                    yield Rejected(source.name, f"cut short: it ends at byte {end} without the closing ]", end)
            for group in gather.groups(MAX_RECORD):
                yield _record(group, end)

    def episodes(self, record: Record, context: Context) -> Iterator[EpisodeDraft]:
        yield episode(record.data, record.where, context.keep)


def _gather(gather: Gather, where: str, piece: Piece) -> str | None:
    """Put the rows of a piece where they belong; or why it has none."""
    if piece.data is None:
        return f"larger than {MAX_RECORD >> 20} MB (at byte {piece.offset})"
    try:
        check_texts(piece.data)
        found = _rows(_fields(piece.data), where)
    except msgspec.ValidationError:
        return f"not an object (at byte {piece.offset})"
    except BadRecord as error:
        return error.what
    except (ValueError, RecursionError) as error:
        return explain(piece, error)
    for trace, part in found:
        gather.add(trace.encode(), part)
    return None


def _rows(fields: dict[str, Raw], where: str) -> list[_Row]:
    """The rows in an object: itself, those of a page, or a trace's own observations and scores."""
    page = fields.get("data")
    if page is not None and "meta" in fields and isinstance(shallow(page), list):
        return [row for each in msgspec.json.decode(page, type=list[dict[str, Raw]]) for row in _rows(each, where)]
    kind = _kind(fields, _text(fields["type"]) if "type" in fields else None)
    if kind is None:
        keys = ", ".join(list(fields)[:6])
        raise BadRecord(f"no observation, trace or score of Langfuse: it has {keys[:80] or 'no fields'}")
    trace = _trace_of(fields, kind)
    if kind != "trace":
        return [(trace, _part(where, kind, fields, _encode(fields)))]
    rows: list[_Row] = []
    within: tuple[tuple[str, Kind], ...] = (("observations", "observation"), ("scores", "score"))
    for name, inner in within:
        listed = shallow(fields[name]) if name in fields else None
        if isinstance(listed, list) and all(isinstance(shallow(item), dict) for item in listed):
            del fields[name]
            for number, given in enumerate(map(_fields, listed)):
                if "id" not in given:
                    raise BadRecord(f"{name}[{number}] of a trace has no id")
                rows.append((trace, _part(where, inner, given, bytes(listed[number]))))
    return [*rows, (trace, _part(where, "trace", fields, _encode(fields)))]


def _part(where: str, kind: Kind, fields: dict[str, Raw], data: bytes) -> Part:
    """A row as it is gathered; an observation's with when it began, and its id, as they are written."""
    marked = _MARKS[kind] + data
    if kind != "observation":
        return Part(where, marked)
    start = fields.get("startTime", fields.get("start_time"))
    at = "" if start is None else _text(start).replace("T", " ")
    return Part(where, marked, b"", at, _text(fields["id"]))


def _kind(row: Mapping[str, Any], type_: object) -> Kind | None:
    """What kind of row this is, whose `type` is that."""
    of_trace = "traceId" in row or "trace_id" in row
    if "id" not in row:
        return None
    if type_ in _TYPES and of_trace and ("startTime" in row or "start_time" in row):
        return "observation"
    valued = {"value", "stringValue", "string_value"} & row.keys()
    if of_trace and "name" in row and valued and {"dataType", "data_type", "source"} & row.keys():
        return "score"
    return "trace" if not of_trace and "timestamp" in row and len(_OF_TRACES & row.keys()) > 1 else None


def _trace_of(fields: dict[str, Raw], kind: Kind) -> str:
    """The trace that a row belongs to; an observation without one is alone."""
    given = fields["id"] if kind == "trace" else fields["traceId" if "traceId" in fields else "trace_id"]
    trace = shallow(given)
    if isinstance(trace, str) and trace:
        return trace
    if kind == "observation":
        return f"observation {_text(fields['id'])}"
    raise BadRecord(f"a {kind} of no trace: its trace id is empty")


def _text(raw: Raw) -> str:
    """A text as itself; anything else only as being there."""
    try:
        return _string(raw)
    except msgspec.ValidationError:
        return str(...)


def _record(group: Group, end: int) -> Record | Rejected:
    """A trace's rows as one record: observations by time, then id, each row once."""
    assert group.key is not None
    where = f"{group.place} trace {group.key.decode()[:80]}"
    if group.parts is None:
        return Rejected(where, f"larger than {MAX_RECORD >> 20} MB: a trace must fit", end)
    rows: dict[bytes, dict[bytes, Part]] = {mark: {} for mark in _MARKS.values()}
    for part in group.parts:
        rows[part.data[:1]].setdefault(part.data[1:], part)
    traces, observations, scores = rows.values()
    if not traces and not observations:
        why = "scores of a trace that is not in this file: import the export's files as one, cat *.jsonl"
        return Rejected(where, f"{why} | trajlog import -", end)
    ordered = sorted(observations, key=lambda data: (observations[data].at, observations[data].name))
    joined = tuple(b",".join(found) for found in (traces, ordered, scores))
    return Record(where, b'{"trace":[%b],"observations":[%b],"scores":[%b]}' % joined, {}, end)
