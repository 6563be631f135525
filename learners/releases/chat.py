"""Messages as text: what a row's references become in a built release.

A model turn with its calls is one assistant's message, and what answered a call a tool's message with the
call's id. `train` is the turn's mask. Content that is more than text is in `parts`, verbatim, images as
references; `content` is then its text. Large texts come back from the blob store.
"""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec
from msgspec import Raw

from core.errors import Corrupt
from core.vocabulary import BlobRef, Payload, Unknown
from core.vocabulary.contract import Feedback, Observation, ToolCall, ToolResult
from core.vocabulary.episode import ActionSubmitted, EpisodeStarted, FeedbackRecorded, MessageRecorded, ModelResponded
from eventlog.interchange.export.recorded import Recorded, fields_of
from eventlog.interchange.mapping import feedback_text
from eventlog.interchange.mapping.action_calls import call_of
from learners.releases.events import Alone, Events

if TYPE_CHECKING:
    import pyarrow as pa

NAME: Final = "chat@1"
"""How messages are written; a change of what a row holds is a new version."""

PARTS: Final = ("part_kind", "part_version", "part_step", "part_of", "part_trains")
"""The columns of a view that say what a conversation is made of."""

_SPEC = msgspec.json.Encoder().encode
_string = msgspec.json.Decoder(str).decode

MISSING: Final = "blob missing"
UNREADABLE: Final = "event unreadable"
"""Why a row is left out whose text cannot be had: it was erased, or a newer version wrote it."""

_READ: Final = frozenset({FeedbackRecorded, ModelResponded, ActionSubmitted, MessageRecorded})
"""What is told as it was decoded: almost all there is, and looked at for every message."""

Fetch = Callable[[str], bytes | None]
Message = tuple[Any, ...]
_Call = tuple[str, str, tuple[str, str]]


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


def conversation(
    stream: str, started: int, parts: Iterable[tuple[str, int, int, int, bool]], events: Events, fetch: Fetch
) -> Told:
    """One row's text. `parts` are (kind, version, step, of, trains), as in `learners.views.conversation`."""
    written = _Written(stream, events, fetch)
    try:
        values = (written.told(parts), written.tools(started))
    except _Unreadable:
        return Told((), written.plain, UNREADABLE)
    return Told(values, written.plain, MISSING if written.missing else None)


class _Written:
    """A conversation being written."""

    def __init__(self, stream: str, events: Events, fetch: Fetch) -> None:
        self._stream = stream
        self._events = events
        self._fetch = fetch
        self.plain = True
        self.missing = False

    def told(self, parts: Iterable[tuple[str, int, int, int, bool]]) -> list[Message]:
        """The messages. `calls` are of the last assistant's, `at` is its step; `names` are calls' ids."""
        messages: list[Message] = []
        calls: list[_Call] = []
        at: int | None = None
        names: dict[int, str] = {}
        for kind, version, step, of, trains in parts:
            said = self._events.get(version)
            if type(said) not in _READ:
                said = self._payload(version)
            if type(said) is FeedbackRecorded:
                content, more = _seen(said.feedback)
                messages.append((kind, content, more, None, None, names[of] if of else None, [], step, False))
            elif type(said) is ModelResponded:
                calls, at = [], step
                content = said.content if type(said.content) is str else _text(said.content)
                thought = None if said.thought is None else _text(said.thought)
                messages.append(("assistant", content, None, thought, None, None, calls, step, trains))
            elif type(said) is ActionSubmitted:
                if at != step or messages[-1][6] is not calls:
                    calls, at = [], step
                    messages.append(("assistant", None, None, None, None, None, calls, step, trains))
                called, tool, arguments = _called(said)
                if not called or (calls and called in [call[0] for call in calls]):
                    called = f"call_{version}"
                names[version] = called
                calls.append((called, "function", (tool, arguments)))
            else:
                assert isinstance(said, MessageRecorded)
                content, more = _content(said.content)
                messages.append((kind, content, more, None, said.name, None, [], step, False))
        return messages

    def tools(self, started: int) -> str | None:
        """The schemas of the tools."""
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

    def _payload(self, version: int) -> Payload:
        found = self._events.get(version)
        if found is None:
            raise Corrupt("an event of the conversation is not there", where=f"{self._stream}@{version}")
        if not isinstance(found, Alone):
            return found
        self.plain &= found.plain
        payload = found.payload(self._had)
        if isinstance(payload, Unknown):
            raise _Unreadable
        return payload

    def _had(self, address: str) -> bytes | None:
        data = self._fetch(address)
        if data is None:
            self.missing = True
        return data


def _called(submitted: ActionSubmitted) -> tuple[str | None, str, str]:
    """An action as a call: its id, if it has one, the tool, the arguments as the model wrote them."""
    action = submitted.action
    if type(action) is ToolCall:
        text = _text(action.args_text)
        return action.call_id, action.tool, str(action.args, "utf-8") if text is None else text
    call = call_of(action, Recorded("ActionSubmitted", 1, submitted, fields_of(submitted)))
    return None, call.tool, call.as_text


def _seen(feedback: Feedback) -> tuple[str | None, str | None]:
    """What came back: its text, and its parts where it is more than that."""
    if type(feedback) is ToolResult:
        data = bytes(feedback.value)
        if data[:1] == b'"':
            return _string(data), None
        if data.startswith(b"["):
            parts = msgspec.json.decode(data)
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
    if value is None or isinstance(value, str):
        return value
    return f"[{value.media_type} {value.address} {value.size:,} bytes]"
