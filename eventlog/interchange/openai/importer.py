"""OpenAI chat with tools: `{messages, tools}`, one conversation a record, or a bare list of messages.

An assistant's message is a step. Its arguments are a text that is kept to the byte; content that is
null is not empty. The calls of old (`function_call`, `functions`, role `function`) are read like those
of today, and marked in `extra`, so that they go out as they came. What our own exports carry in
`extra.trajlog` is taken back.
"""

from collections.abc import Iterator
from typing import Any, ClassVar

import msgspec
from msgspec import Raw

from core.vocabulary.base import UNSET, MaybeRaw, Payload
from core.vocabulary.contract import End, Finished, Refused, ToolCall, ToolResult
from core.vocabulary.episode import (
    ActionSubmitted,
    EpisodeEnded,
    EpisodeStarted,
    FeedbackRecorded,
    MessageRecorded,
    ModelResponded,
    Role,
    ToolSpec,
)
from eventlog.interchange import (
    Confidence,
    Context,
    EpisodeDraft,
    EventDraft,
    Importer,
    Reader,
    Record,
    Rejected,
    Source,
)
from eventlog.interchange.export.carried import take
from eventlog.interchange.export.restore import restored
from eventlog.interchange.mapping import images
from eventlog.interchange.mapping.contents import exact_value, goal_of, joined_text, text_of
from eventlog.interchange.mapping.extras import extended
from eventlog.interchange.mapping.lenient import content_of, objects, soft
from eventlog.interchange.mapping.messages import Calls, Fields, arguments_of, shallow
from eventlog.interchange.records import Layout, find_layout, records
from eventlog.interchange.sources import HEAD
from eventlog.interchange.swe.message_lists import begins_one, message_lists

ROLES = frozenset({"system", "developer", "user", "assistant", "tool", "function"})

_NULL = Raw(b"null")
_NONE = Raw(b"{}")
_NO_TOOLS = Raw(b"[]")
_ACTORS: dict[Role, str] = {"user": "user", "tool": "executor"}
_KNOWN = frozenset(
    {
        "extra",
        "function_call",
        "functions",
        "id",
        "max_completion_tokens",
        "max_tokens",
        "messages",
        "metadata",
        "model",
        "n",
        "parallel_tool_calls",
        "reasoning_effort",
        "response_format",
        "seed",
        "source",
        "stop",
        "stream",
        "temperature",
        "tool_choice",
        "tools",
        "top_p",
        "user",
    }
)
"""What a request, or a line of a training file, has."""


class OpenAIChat(Importer):
    """Requests of the chat API, and the training files of that shape."""

    name: ClassVar[str] = "openai"
    mapping: ClassVar[int] = 1

    def sniff(self, head: bytes, first: dict[str, Any] | None) -> Confidence:
        if first is None:
            return Confidence.NO
        if "content" in first and first.get("role") in ROLES and begins_one(head):
            return Confidence.POSSIBLE
        messages = first.get("messages")
        if not isinstance(messages, list) or not messages or not all(map(_is_message, messages)):
            return Confidence.NO
        return Confidence.LIKELY if first.keys() <= _KNOWN else Confidence.POSSIBLE

    def records(self, source: Source, reader: Reader) -> Iterator[Record | Rejected]:
        layout = find_layout(source, reader)
        if layout is Layout.ARRAY and begins_one(reader.peek(HEAD)):
            return message_lists(source, reader)
        return records(source, reader, layout)

    def episodes(self, record: Record, context: Context) -> Iterator[EpisodeDraft]:
        yield _Chat(record.data, context).episode()


def plain(data: bytes, context: Context) -> list[EventDraft]:
    """What the messages themselves say, nothing of what is carried."""
    return _Chat(data, context).draft.events


class _Chat:
    """One conversation, being turned into a draft."""

    def __init__(self, data: bytes, context: Context) -> None:
        root = Fields({"messages": Raw(data)} if data.startswith(b"[") else data, context.where)
        self.context = context
        self.step = 0
        self.calls = Calls()
        self.goal: str | None = None
        self.end: End | None = None
        self.carried = take(root)
        self.draft = EpisodeDraft()
        self._read(root)

    def episode(self) -> EpisodeDraft:
        """The draft, with what was carried."""
        if self.carried is not None:
            plain = self.draft.events
            self.draft.events, lost = restored(plain, plain, self.carried, self.context)
            self.draft.unmapped.update(lost)
        return self.draft

    def _read(self, root: Fields) -> None:
        if root.get("messages") in (None, _NULL):
            raise root.fault("messages is missing: this is no chat")
        messages = list(root.each("messages"))
        if not messages:
            raise root.fault("messages is empty: nothing was said")
        old = "functions" in root and "tools" not in root
        policy, tools = soft(root, "model", str), _tools(root, "functions" if old else "tools")
        for message in messages:
            self._message(message)
        self.draft.left(root.unmapped())
        extra = extended(root.rest(), functions=_NO_TOOLS if old and tools is not None else None)
        started = EpisodeStarted(goal=self.goal, policy=policy, tools=tools, extra=extra)
        self.draft.events[0] = EventDraft(started)
        if self.end is not None and self.carried is None:
            self._add(EpisodeEnded(self.end))

    def _message(self, message: Fields) -> None:
        role = message.take("role", str)
        if role not in ROLES:
            raise message.fault(f"role {str(role)[:40]!r} is none of {', '.join(sorted(ROLES))}")
        self.end = None
        if role == "assistant":
            self._turn(message)
        elif role in ("tool", "function"):
            self._answer(message, role)
        else:
            self._said(message, role)

    def _said(self, message: Fields, role: Role, old: Raw | None = None) -> None:
        content = self._content(message) or _NULL
        if role == "user" and self.goal is None:
            self.goal = goal_of(content)
        name = soft(message, "name", str)
        extra = extended(self._rest(message), role=old)
        said = MessageRecorded(role, content, name=name, step=self.step or None, extra=extra)
        self._add(said, _ACTORS.get(role))

    def _turn(self, message: Fields) -> None:
        self.step += 1
        content = self._content(message)
        text = None if content is None else text_of(content)
        if content is not None and text is None:
            message.put("content", content)
            text = joined_text(content)
        thought = soft(message, "reasoning_content", str)
        calls = [_call(call) for call in objects(message, "tool_calls")]
        old = None
        if isinstance(shallow(message.get("function_call") or _NULL), dict):
            function = Fields(message.raw("function_call") or _NONE, message.where, message.path)
            calls.append(_function(function, None))
            rest = self._rest(function)
            old = rest if isinstance(rest, Raw) else _NONE
        refused = soft(message, "refusal", str, peek=True) is not None
        extra = extended(self._rest(message), function_call=old)
        self._add(ModelResponded(self.step, content=text, thought=thought, extra=extra), "planner")
        for call in calls:
            version = self._add(ActionSubmitted(self.step, call), "planner")
            self.calls.submitted(call.call_id, self.step, version)
        if not calls:
            self.end = Refused() if refused else Finished()

    def _answer(self, message: Fields, role: str) -> None:
        """What a tool answered; a message of its own where nothing was asked."""
        call_id = soft(message, "tool_call_id", str, peek=True)
        found = self.calls.answered(call_id)
        old = Raw(b'"function"') if role == "function" else None
        if found is None:
            self._said(message, "tool", old)
            return
        message.raw("tool_call_id")
        step, action = found
        content = self._content(message)
        feedback = ToolResult(_NULL if content is None else exact_value(content))
        extra = extended(self._rest(message), role=old)
        self._add(FeedbackRecorded(step, feedback, call_id=call_id, action=action, extra=extra), "executor")

    def _content(self, message: Fields) -> Raw | None:
        content = content_of(message, "content")
        return None if content is None else images.kept(content, self.context.keep, message.fault)

    def _rest(self, fields: Fields) -> MaybeRaw:
        """What has no place in the event: counted, and returned to be kept."""
        rest = fields.rest()
        if isinstance(rest, Raw):
            self.draft.left(fields.unmapped())
        return rest

    def _add(self, payload: Payload, actor: str | None = None) -> int:
        return self.draft.add(payload, actor=actor)


def _is_message(value: object) -> bool:
    return isinstance(value, dict) and value.get("role") in ROLES


def _tools(root: Fields, name: str) -> list[ToolSpec] | None:
    """The tools, if all are functions."""
    kind = list[_Tool] if name == "tools" else list[_Named]
    if soft(root, name, kind, peek=True) is None:
        return None
    found = []
    for tool in root.parts(name):
        if name == "tools":
            tool.drop("type", "function")
        found.append(_spec(tool.inner("function") if name == "tools" else tool))
    return found


def _spec(function: Fields) -> ToolSpec:
    parameters = function.raw("parameters")
    name = function.take("name", str)
    return ToolSpec(name, soft(function, "description", str), UNSET if parameters is None else parameters)


def _call(call: Fields) -> ToolCall:
    call_id = soft(call, "id", str)
    if soft(call, "type", str, peek=True) == "custom":
        custom = call.inner("custom")
        name = custom.take("name", str)
        if name is None:
            raise custom.fault("name is missing")
        return ToolCall(name, _NULL, call_id, custom.take("input", str))
    call.drop("type", "function")
    return _function(call.inner("function"), call_id)


def _function(function: Fields, call_id: str | None) -> ToolCall:
    name = function.take("name", str)
    if name is None:
        raise function.fault("name is missing")
    raw = function.raw("arguments")
    args, text = arguments_of(raw)
    told = None if raw is None else text_of(raw)
    if raw is not None and told is not None and told != told.strip():
        function.put("arguments", raw)
    return ToolCall(name, args, call_id, text)


class _Named(msgspec.Struct):
    name: str


class _Tool(msgspec.Struct):
    function: _Named
