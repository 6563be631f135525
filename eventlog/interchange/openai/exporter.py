"""OpenAI chat with tools out, one conversation a line: what models are fine-tuned on.

A model turn is an assistant's message with its calls, and what was answered follows it at once, as
the API wants it. Feedback that answers no call is said by the user. Turns that must not train (copied
ones, and assistant's messages that no model said) have `weight` 0. The rest is carried in
`extra.trajlog`.
"""

from base64 import b64encode
from collections.abc import Sequence
from typing import Any, ClassVar

import msgspec
from msgspec import Raw

from core.event import StoredEvent
from core.vocabulary import BlobRef
from core.vocabulary.contract import Feedback, Observation, ToolCall, ToolResult
from core.vocabulary.episode import (
    ActionSubmitted,
    EpisodeStarted,
    FeedbackRecorded,
    MessageRecorded,
    ModelResponded,
    ToolSpec,
)
from eventlog.interchange.draft import Context
from eventlog.interchange.export.carried import NAME, VERSION
from eventlog.interchange.export.carry import texts, to_carry
from eventlog.interchange.export.exporter import Exporter, Library, encode, recording, referring
from eventlog.interchange.export.put_back import put_back
from eventlog.interchange.export.recorded import Recorded, extra_of, object_of, of_draft
from eventlog.interchange.mapping import feedback_text
from eventlog.interchange.mapping.action_calls import Call, Calls, call_of
from eventlog.interchange.openai import importer as openai_chat
from eventlog.interchange.whole import is_text, reference

Json = dict[str, Any]

_EMPTY = Raw(b'""')


class OpenAI(Exporter):
    """One line of a JSONL file for each episode."""

    name: ClassVar[str] = "openai"
    suffix: ClassVar[str] = ".jsonl"

    def document(self, episode: str, events: Sequence[StoredEvent], library: Library) -> bytes:
        return encode(_Writer(episode, recording(episode, events, library.fetch), library).document())


class _Message:
    """A message being written, and the event it is; an assistant's with its calls and their answers."""

    def __init__(self, object: Json, place: int | None, number: int | None = None) -> None:
        self.object = object
        self.place = place
        self.number = number
        self.calls: list[tuple[int, str, Call, ActionSubmitted]] = []
        self.answers: list[_Message] = []


class _Writer:
    """An episode on its way into a conversation. `turns` are the assistant's messages that may call,
    `calls` knows where each action went."""

    def __init__(self, episode: str, recorded: list[Recorded], library: Library) -> None:
        self.episode = episode
        self.recorded = recorded
        self.library = library
        started = recorded[0].payload
        assert isinstance(started, EpisodeStarted)
        self.started = started
        self.native = started.origin is not None and started.origin.format == "openai"
        self.messages: list[_Message] = []
        self.turns: list[_Message] = []
        self.calls: Calls[_Message] = Calls()

    def document(self) -> Json:
        for place, recorded in enumerate(self.recorded):
            self._event(place, recorded)
        if not self.messages:
            self.messages.append(_Message({"role": "user", "content": ""}, None))
        document: Json = {"messages": [self._written(message) for message in self._in_order()]}
        extra = extra_of(self.started) if self.native else {}
        if self.started.tools is not None:
            old = "functions" in extra
            specs = [_specification(tool) for tool in self.started.tools]
            named = specs if old else [{"type": "function", "function": spec} for spec in specs]
            document["functions" if old else "tools"] = named
        if self.native and self.started.policy is not None:
            document["model"] = self.started.policy
        put_back(document, extra)
        if self.library.bare:
            return document
        own = document.pop("extra", {})
        own = own if isinstance(own, dict) else {}
        document["extra"] = own | {NAME: {"version": VERSION}}
        document["extra"][NAME] = self._carried(document)
        return document

    def _in_order(self) -> list[_Message]:
        return [each for message in self.messages for each in (message, *message.answers)]

    def _carried(self, document: Json) -> Json:
        context = Context(self.episode, "train", referring)
        data = encode(document)
        plain = [of_draft(event) for event in openai_chat.plain(data, context)]
        places: list[int | None] = [0]
        for message in self._in_order():
            places += [message.place, *(place for place, *_ in message.calls)]
        carried = to_carry(plain, self.recorded, places, self.episode)
        blobs = texts(carried, data, self.library.fetch)
        return carried | ({"blobs": blobs} if blobs else {})

    def _event(self, place: int, recorded: Recorded) -> None:
        payload = recorded.payload
        if isinstance(payload, MessageRecorded):
            self._said(place, payload)
        elif isinstance(payload, ModelResponded):
            self._turn(place, payload)
        elif isinstance(payload, ActionSubmitted):
            self._action(place, payload, recorded)
        elif isinstance(payload, FeedbackRecorded):
            self._feedback(place, payload)

    def _said(self, place: int, said: MessageRecorded) -> None:
        message = object_of((("role", said.role), ("content", self._content(said.content)), ("name", said.name)))
        if said.role == "assistant":
            message["weight"] = 0
        if said.role == "tool" and extra_of(said).get("role") == "function":
            message["role"] = "function"
        self.messages.append(_Message(message, place))

    def _turn(self, place: int, turn: ModelResponded) -> None:
        content: Any = turn.content if isinstance(turn.content, str) else None
        parts = extra_of(turn).get("content") if self.native else None
        if isinstance(parts, list):
            content = self._content(Raw(msgspec.json.encode(parts)))
        message: Json = {"role": "assistant", "content": content}
        if isinstance(turn.thought, str):
            message["reasoning_content"] = turn.thought
        if turn.copied:
            message["weight"] = 0
        made = _Message(message, place, turn.step)
        self.messages.append(made)
        self.turns.append(made)

    def _action(self, place: int, submitted: ActionSubmitted, recorded: Recorded) -> None:
        message = self.turns[-1] if self.turns and self.turns[-1].number == submitted.step else None
        if message is None:
            message = next((turn for turn in reversed(self.turns) if turn.number == submitted.step), None)
        if message is None:
            message = _Message({"role": "assistant", "content": None, "weight": 0}, None, submitted.step)
            self.messages.append(message)
            self.turns.append(message)
        name = self.calls.submit(place + 1, submitted.action, message, {name for _, name, _, _ in message.calls})
        message.calls.append((place, name, call_of(submitted.action, recorded), submitted))

    def _feedback(self, place: int, answer: FeedbackRecorded) -> None:
        found = self.calls.answered(answer)
        content = self._seen(answer.feedback)
        if found is None:
            self.messages.append(_Message({"role": "user", "content": content}, place))
            return
        turn, name = found
        message: Json = {"role": "tool", "tool_call_id": name, "content": content}
        if extra_of(answer).get("role") == "function":
            message = {"role": "function", "content": content}
        turn.answers.append(_Message(message, place))

    def _written(self, message: _Message) -> Json:
        made = message.object
        rest = {} if message.place is None or not self.native else extra_of(self.recorded[message.place].payload)
        if message.calls:
            _, _, call, submitted = message.calls[0]
            old = "function_call" in rest and len(message.calls) == 1 and _call_id(submitted) is None
            if old:
                made["function_call"] = {"name": call.tool, "arguments": call.as_text}
            else:
                made["tool_calls"] = [
                    _tool_call(name, call, rest.get(f"tool_calls[{index}]"))
                    for index, (_, name, call, _) in enumerate(message.calls)
                ]
        put_back(made, rest)
        return made

    def _content(self, content: Raw) -> Any:
        """A message's content, images as data URLs again."""
        if b'"address"' not in bytes(content):
            return content
        return self._inlined(msgspec.json.decode(content))

    def _inlined(self, value: Any) -> Any:
        blob = reference(value)
        if blob is not None:
            return self._url(blob) or value
        if isinstance(value, list):
            return [self._inlined(item) for item in value]
        return {name: self._inlined(item) for name, item in value.items()} if isinstance(value, dict) else value

    def _url(self, blob: BlobRef) -> str | None:
        data = self.library.fetch(blob.address) if blob.media_type.startswith("image/") else None
        return None if data is None else f"data:{blob.media_type};base64,{b64encode(data).decode()}"

    def _seen(self, feedback: Feedback) -> Any:
        """What came back as a message's content."""
        text = feedback_text.text_of(feedback)
        if isinstance(feedback, ToolResult) and bytes(feedback.value).startswith(b"["):
            parts = msgspec.json.decode(feedback.value)
            if parts and all(isinstance(part, dict) and isinstance(part.get("type"), str) for part in parts):
                return self._content(feedback.value)
        if not isinstance(feedback, Observation) or not feedback.blobs:
            return text
        urls = [url for blob in feedback.blobs if (url := self._url(blob)) is not None]
        shown = [{"type": "image_url", "image_url": {"url": url}} for url in urls]
        words = [] if text is None else [text]
        words += [told for blob in feedback.blobs if (told := self._told(blob)) is not None]
        parts = [{"type": "text", "text": each} for each in words]
        return [*parts, *shown] if shown or len(words) > 1 else next(iter(words), None)

    def _told(self, blob: BlobRef) -> str | None:
        """A UI tree, or another text that was seen."""
        data = self.library.fetch(blob.address) if is_text(blob) else None
        try:
            return None if data is None else data.decode()
        except UnicodeDecodeError:
            return None


def _tool_call(name: str, call: Call, rest: Any) -> Json:
    if isinstance(rest, dict) and rest.get("type") == "custom":
        return {"id": name, "type": "custom", "custom": {"name": call.tool, "input": call.text or ""}}
    function: Json = {"name": call.tool, "arguments": call.as_text}
    given = rest.get("function") if isinstance(rest, dict) else None
    if isinstance(given, dict) and isinstance(given.get("arguments"), str):
        function["arguments"] = given["arguments"]
    return {"id": name, "type": "function", "function": function}


def _call_id(submitted: ActionSubmitted) -> str | None:
    return submitted.action.call_id if isinstance(submitted.action, ToolCall) else None


def _specification(tool: ToolSpec) -> Json:
    parameters = tool.parameters if isinstance(tool.parameters, Raw) else None
    return object_of((("name", tool.name), ("description", tool.description), ("parameters", parameters)))
