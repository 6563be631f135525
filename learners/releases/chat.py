"""Messages as text: what a row's references become in a built release.

A model turn with its calls is one assistant's message, and what answered a call a tool's message with the
call's id. `train` is the turn's mask. Content that is more than text is in `parts`, verbatim, images as
references; `content` is then its text. Large texts come back from the blob store.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec
from msgspec import Raw

from core import vocabulary
from core.errors import Corrupt
from core.event import Event
from core.vocabulary import BlobRef, Payload, Unknown
from core.vocabulary.contract import Observation, ToolCall, ToolResult
from core.vocabulary.episode import ActionSubmitted, EpisodeStarted, FeedbackRecorded, MessageRecorded, ModelResponded
from eventlog.interchange.export.recorded import Recorded, fields_of
from eventlog.interchange.mapping import feedback_text
from eventlog.interchange.mapping.action_calls import call_of
from eventlog.interchange.whole import whole

if TYPE_CHECKING:
    import pyarrow as pa

    from eventlog.database import Connection
    from learners.rows import Row

NAME: Final = "chat@1"
"""How messages are written; a change of what a row holds is a new version."""

COLUMNS: Final = ("messages", "tool_schemas")

_EVENTS = """
SELECT stream, version, type, schema, body, owner IS NOT NULL FROM trajlog.event
WHERE stream = ANY(%s) AND type = ANY(%s)
"""
_BLOB = b'"address"'
_SPEC = msgspec.json.Encoder().encode

MISSING: Final = "blob missing"
UNREADABLE: Final = "event unreadable"
"""Why a row is left out whose text cannot be had: it was erased, or a newer version wrote it."""

Fetch = Callable[[str], bytes | None]
Message = tuple[Any, ...]


class Told(NamedTuple):
    """A row's text. `plain`: it rests on the events' bodies alone, not on blobs or sealed parts, so that it is
    the same as long as the log is. `fault`: why it cannot be told."""

    values: tuple[Any, ...]
    plain: bool
    fault: str | None = None


class _Unreadable(Exception):
    """This version cannot read an event of the conversation."""


def fields() -> "list[pa.Field]":
    """The columns of text, as declared."""
    import pyarrow as pa

    text = pa.large_string()
    function = pa.struct([pa.field("name", pa.string(), False), pa.field("arguments", text, False)])
    call = pa.struct(
        [
            pa.field("id", pa.string(), False),
            pa.field("type", pa.string(), False),
            pa.field("function", function, False),
        ]
    )
    message = pa.struct(
        [
            pa.field("role", pa.string(), False),
            pa.field("content", text),
            pa.field("parts", text),
            pa.field("thought", text),
            pa.field("name", pa.string()),
            pa.field("tool_call_id", pa.string()),
            pa.field("tool_calls", pa.list_(pa.field("item", call, False)), False),
            pa.field("step", pa.int64(), False),
            pa.field("train", pa.bool_(), False),
        ]
    )
    return [pa.field("messages", pa.list_(pa.field("item", message, False)), False), pa.field("tool_schemas", text)]


def told(connection: "Connection", rows: "Sequence[Row]", names: Sequence[str], fetch: Fetch) -> "Iterator[Told]":
    """The text of each row, in order. `names` are those of `Row.values`."""
    at = [names.index(f"part_{name}") for name in ("kind", "version", "step", "of", "trains")]
    events: dict[str, dict[int, tuple[Any, ...]]] = {row.key.stream: {} for row in rows}
    with connection.cursor(binary=True) as cursor:
        cursor.execute(_EVENTS, (list(events), [struct.__name__ for struct in _STRUCTS]))
        for event in cursor.fetchall():
            events[event[0]][event[1]] = event
    for row in rows:
        parts = zip(*[row.values[i] for i in at], strict=True)
        yield conversation(row.key.stream, row.key.version, parts, events[row.key.stream], fetch)


def conversation(
    stream: str,
    started: int,
    parts: Iterable[tuple[str, int, int, int, bool]],
    events: Mapping[int, tuple[Any, ...]],
    fetch: Fetch,
) -> Told:
    """One row's text, from its events by version: (stream, version, type, schema, body, sealed)."""
    written = _Written(stream, events, fetch)
    try:
        for kind, version, step, of, trains in parts:
            written.part(kind, version, step, of, trains)
        values = (written.messages, written.tools(started))
    except _Unreadable:
        return Told((), written.plain, UNREADABLE)
    return Told(values, written.plain, MISSING if written.missing else None)


class _Written:
    """A conversation being written; `turn` is the assistant's message that still takes calls."""

    def __init__(self, stream: str, events: Mapping[int, tuple[Any, ...]], fetch: Fetch) -> None:
        self._stream = stream
        self._events = events
        self._fetch = fetch
        self.plain = True
        self.missing = False
        self.messages: list[Message] = []
        self._calls: list[tuple[str, str, tuple[str, str]]] = []
        self._step: int | None = None
        self._names: dict[int, str] = {}

    def part(self, kind: str, version: int, step: int, of: int, trains: bool) -> None:
        said = self._payload(version)
        if kind == "call":
            assert isinstance(said, ActionSubmitted)
            if self._step != step or not self.messages or self.messages[-1][6] is not self._calls:
                self._assistant(step, trains, None, None)
            self._call(version, said)
        elif kind == "tool":
            assert isinstance(said, FeedbackRecorded)
            content, parts = self._seen(said)
            self.messages.append(("tool", content, parts, None, None, self._names[of], [], step, False))
        elif isinstance(said, ModelResponded):
            self._assistant(step, trains, _text(said.content), _text(said.thought))
        elif isinstance(said, MessageRecorded):
            content, parts = _content(said.content)
            self.messages.append((kind, content, parts, None, said.name, None, [], step, False))
        else:
            assert isinstance(said, FeedbackRecorded)
            content, parts = self._seen(said)
            self.messages.append((kind, content, parts, None, None, None, [], step, False))

    def tools(self, started: int) -> str | None:
        said = self._payload(started)
        assert isinstance(said, EpisodeStarted)
        if said.tools is None:
            return None
        specs = []
        for tool in said.tools:
            spec: dict[str, Any] = {"name": tool.name}
            if tool.description is not None:
                spec["description"] = tool.description
            if isinstance(tool.parameters, Raw):
                spec["parameters"] = tool.parameters
            specs.append({"type": "function", "function": spec})
        return msgspec.json.format(_SPEC(specs), indent=-1).decode()

    def _assistant(self, step: int, trains: bool, content: str | None, thought: str | None) -> None:
        self._calls = []
        self._step = step
        self.messages.append(("assistant", content, None, thought, None, None, self._calls, step, trains))

    def _call(self, version: int, submitted: ActionSubmitted) -> None:
        action = submitted.action
        own = action.call_id if isinstance(action, ToolCall) else None
        name = own if own and all(own != taken for taken, *_ in self._calls) else f"call_{version}"
        self._names[version] = name
        recorded = Recorded("ActionSubmitted", 1, submitted, {})
        if not isinstance(action, ToolCall):
            recorded = recorded._replace(fields=fields_of(submitted))
        call = call_of(action, recorded)
        self._calls.append((name, "function", (call.tool, call.as_text)))

    def _payload(self, version: int) -> Payload:
        found = self._events.get(version)
        if found is None:
            raise Corrupt("an event of the conversation is not there", where=f"{self._stream}@{version}")
        _, _, type_, schema, body, sealed = found
        payload = _read(type_, schema, body)
        if isinstance(payload, Unknown):
            raise _Unreadable
        if sealed or _BLOB in body:
            self.plain = False
            payload = whole(payload, self._had)
        return payload

    def _had(self, address: str) -> bytes | None:
        data = self._fetch(address)
        if data is None:
            self.missing = True
        return data

    def _seen(self, said: FeedbackRecorded) -> tuple[str | None, str | None]:
        """What came back: its text, and its parts where it is more than that."""
        feedback = said.feedback
        if isinstance(feedback, ToolResult) and bytes(feedback.value).startswith(b"["):
            parts = msgspec.json.decode(feedback.value)
            if parts and all(isinstance(part, dict) and isinstance(part.get("type"), str) for part in parts):
                return _content(feedback.value)
        text = feedback_text.text_of(feedback)
        if isinstance(feedback, Observation) and feedback.blobs:
            return text, _SPEC(feedback.blobs).decode()
        return text, None


def _content(raw: Raw) -> tuple[str | None, str | None]:
    """A message's content as text, and verbatim where it is more."""
    data = bytes(raw)
    if data[:1] != b"[":
        return feedback_text.of_json(raw), None
    parts = msgspec.json.decode(data)
    texts = [part["text"] for part in parts if isinstance(part, dict) and isinstance(part.get("text"), str)]
    only = len(texts) == len(parts) and all(part.keys() == {"type", "text"} for part in parts)
    return "\n".join(texts) if texts else None, None if only else data.decode()


def _text(value: str | BlobRef | None) -> str | None:
    if isinstance(value, BlobRef):
        return f"[{value.media_type} {value.address} {value.size:,} bytes]"
    return value


def _read(type_: str, schema: int, body: bytes) -> Payload | Unknown:
    current = _CURRENT.get((type_, schema))
    try:
        if current is not None:
            return current(body)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        return Unknown(type_, schema, body, str(error))
    return vocabulary.payload(
        Event(event_id=b"", stream="", writer="", run=b"", seq=1, type=type_, schema=schema, body=body)
    )


_STRUCTS: Final = (EpisodeStarted, MessageRecorded, ModelResponded, ActionSubmitted, FeedbackRecorded)
_CURRENT: Final[dict[tuple[str, int], Callable[[bytes], Payload]]] = {
    (struct.__name__, struct.schema_number): msgspec.json.Decoder(struct).decode for struct in _STRUCTS
}
