"""Conversations that a source repeats: each model call holds the whole prompt again, and what a tool
answered is told twice, once by the tool and once in the next prompt. Told here, each thing is
recorded once.

`hear` takes a prompt and records what is new in it; `respond` records a model turn and its calls;
`answer` what a tool gave back.
"""

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Raw

from core.event import MAX_TEXT_BYTES
from core.vocabulary.base import UNSET, MaybeRaw
from core.vocabulary.contract import Feedback, ToolCall, ToolResult
from core.vocabulary.episode import (
    ActionSubmitted,
    FeedbackRecorded,
    MessageRecorded,
    ModelResponded,
    Role,
)
from eventlog.interchange.draft import EpisodeDraft
from eventlog.interchange.mapping.messages import tool_value
from eventlog.large import LARGE

_ACTORS: dict[Role, str] = {"user": "user", "tool": "executor", "assistant": "planner"}
NULL = Raw(b"null")


class Said(msgspec.Struct, frozen=True):
    """A message of a prompt, or a model's answer. `key` tells whether two messages are the same one;
    `text` is what a model turn said, `call_id` the call that a tool message answers."""

    role: Role
    content: Raw = NULL
    text: str | None = None
    thought: str | None = None
    calls: tuple[ToolCall, ...] = ()
    call_id: str | None = None
    name: str | None = None
    extra: MaybeRaw = UNSET
    feedback: Feedback | None = None
    id: str | None = None
    finish: str | None = None
    unmapped: tuple[str, ...] = ()

    @property
    def key(self) -> tuple[Any, ...]:
        if self.role == "tool" and self.call_id is not None:
            return (self.role, self.call_id)
        if self.id is not None:
            return (self.id,)
        if self.role == "assistant":
            return (self.role, self.text or "", *((call.tool, call.call_id) for call in self.calls))
        return (self.role, bytes(self.content))


class _Open(msgspec.Struct, frozen=True):
    """A call without an answer; `version` is its event's."""

    step: int
    version: int
    call: ToolCall


class Conversation:
    """An episode's conversation, as it is written into its draft."""

    def __init__(self, draft: EpisodeDraft) -> None:
        self.draft = draft
        self.step = 0
        self.goal: str | None = None
        self._known: dict[tuple[Any, ...], int] = {}
        self._last: Sequence[Said] = ()
        self._held: dict[tuple[Any, ...], int] = {}
        self._open: list[_Open] = []

    def hear(self, prompt: Sequence[Said], at: int | None, *, conversation: str | None = None) -> None:
        """Record what is new in a prompt: what follows the last one, if it begins with that; else
        whatever it holds more often than was recorded."""
        if not prompt:
            return
        continues = len(prompt) >= len(self._last) and all(map(_is_same, prompt, self._last))
        first = len(self._last) if continues else 0
        held = self._held if continues else {}
        for said in prompt[first:]:
            key = said.key
            known, times = self._known.get(key, 0), held.get(key, 0) + 1
            if continues and said.id is None and said.role in ("user", "system", "developer"):
                times = max(times, known + 1)
            held[key] = times
            if times > known:
                self._known[key] = known + 1
                self.record(said, at, conversation)
        self._last, self._held = prompt, held

    def respond(self, said: Said, at: int | None, *, conversation: str | None = None, **fields: Any) -> int:
        """Record a model turn and its calls; `fields` are further ones of `ModelResponded`. Returns
        the step."""
        self.step += 1
        self._count(said.key)
        if said.unmapped:
            self.draft.left(said.unmapped)
        fields.setdefault("extra", said.extra)
        turn = ModelResponded(self.step, content=said.text, thought=said.thought, **fields)
        self.draft.add(turn, occurred_at=at, actor="planner", conversation=conversation)
        for call in said.calls:
            self.submit(call, at, conversation=conversation)
        return self.step

    def submit(self, call: ToolCall, at: int | None, *, conversation: str | None = None) -> None:
        """Record a call, of the current step."""
        step = max(self.step, 1)
        version = self.draft.add(
            ActionSubmitted(step, call), occurred_at=at, actor="planner", conversation=conversation
        )
        self._open.append(_Open(step, version, call))

    def waiting(self, call_id: str | None, tool: str | None = None, args: Raw = NULL) -> ToolCall | None:
        """The call of that id that has no answer yet; without an id, one of that tool, best of those
        arguments. None if there is none."""
        found = self._find(call_id, tool, args)
        return None if found is None else self._open[found].call

    def answer(
        self,
        feedback: Feedback,
        at: int | None,
        *,
        call_id: str | None = None,
        tool: str | None = None,
        args: Raw = NULL,
        conversation: str | None = None,
        **fields: Any,
    ) -> None:
        """Record what a tool gave back; `fields` are further ones of `FeedbackRecorded`."""
        found = self._find(call_id, tool, args)
        step, version = max(self.step, 1), None
        if found is not None:
            opened = self._open.pop(found)
            step, version, call_id = opened.step, opened.version, call_id or opened.call.call_id
        if call_id is not None:
            self._count(("tool", call_id))
        recorded = FeedbackRecorded(step, feedback, call_id=call_id, action=version, **fields)
        self.draft.add(recorded, occurred_at=at, actor="executor", conversation=conversation)

    def record(self, said: Said, at: int | None, conversation: str | None = None) -> None:
        """Record a message, whether it was said before or not: as a tool's answer if it is one."""
        if said.unmapped:
            self.draft.left(said.unmapped)
        found = self._find(said.call_id, None, NULL) if said.role == "tool" and said.call_id else None
        if found is not None:
            opened = self._open.pop(found)
            feedback = said.feedback or ToolResult(tool_value(said.content))
            recorded = FeedbackRecorded(
                opened.step, feedback, call_id=said.call_id, action=opened.version, extra=said.extra
            )
            self.draft.add(recorded, occurred_at=at, actor="executor", conversation=conversation)
            return
        if said.role == "user" and self.goal is None:
            self.goal = text_of(said.content)
        heard = MessageRecorded(said.role, said.content, name=said.name, step=self.step or None, extra=said.extra)
        self.draft.add(heard, occurred_at=at, actor=_ACTORS.get(said.role), conversation=conversation)

    def _find(self, call_id: str | None, tool: str | None, args: Raw) -> int | None:
        """Which open call is meant: of those with the id, the first one of the latest step; without an
        id, the first one of the tool, best of the same arguments."""
        found: int | None = None
        for i, each in enumerate(self._open):
            if call_id is None:
                if each.call.tool == tool:
                    if _same(each.call.args, args):
                        return i
                    found = i if found is None else found
            elif each.call.call_id == call_id and (found is None or each.step > self._open[found].step):
                found = i
        return found

    def _count(self, key: tuple[Any, ...]) -> None:
        self._known[key] = self._known.get(key, 0) + 1


def _is_same(one: Said, other: Said) -> bool:
    return one is other or one.key == other.key


def fitting(conversation: object) -> str | None:
    """The name of a conversation that an event can carry; None if it is none."""
    if not isinstance(conversation, str) or not conversation or "\0" in conversation:
        return None
    return conversation if len(conversation.encode()) <= MAX_TEXT_BYTES else None


def short(text: str | None) -> str | None:
    """A text that may stand in an event as it is; None if it is too long for that."""
    return text if text is not None and len(text.encode()) <= LARGE else None


def text_of(content: Raw) -> str | None:
    """The text in a message's content: a string, or the text parts of a list."""
    value = msgspec.json.decode(content)
    if isinstance(value, str):
        return value
    if not isinstance(value, list):
        return None
    texts = [part.get("text") or part.get("content") for part in value if isinstance(part, dict)]
    return "\n".join(text for text in texts if isinstance(text, str)) or None


def _same(one: Raw, other: Raw) -> bool:
    return one == other or bool(msgspec.json.decode(one) == msgspec.json.decode(other))
