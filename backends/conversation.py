"""What a planner is given to decide on: the goal, the tools, and what was said, done and came back.

Built from an episode's events alone, live as they are recorded or read back after a crash. Criteria,
plans and evidence are no part of it: they lie in other streams, and `Situation` has no place for them.
"""

from typing import Any, Final, Literal

import msgspec
from msgspec import Raw

from core.errors import UsageError
from core.vocabulary import BlobRef, Payload
from core.vocabulary.contract import (
    EnvNotice,
    ExecError,
    Feedback,
    Observation,
    SubagentResult,
    ToolCall,
    ToolResult,
    UserReply,
)
from core.vocabulary.episode import (
    ActionSubmitted,
    EpisodeStarted,
    FeedbackRecorded,
    MessageRecorded,
    ModelResponded,
    ToolSpec,
)

HIDDEN: Final = "hidden/"
"""Beginning of the streams that no planner may read."""


class Said(msgspec.Struct):
    """One entry. `calls`: what the assistant called in that turn; `answers`: the call that a tool's entry
    answers."""

    role: Literal["system", "user", "assistant", "tool"]
    text: str | None
    calls: list[ToolCall] = []
    answers: str | None = None
    step: int = 0


class Situation(msgspec.Struct, frozen=True):
    """All that a planner sees. `step`: the number of the turn that is wanted."""

    goal: str
    tools: list[ToolSpec]
    said: list[Said]
    step: int


class Conversation:
    """Grows with the events of one episode."""

    def __init__(self, stream: str) -> None:
        if stream.startswith(HIDDEN):
            raise UsageError("a planner may not read it", where=stream)
        self.goal = ""
        self.tools: list[ToolSpec] = []
        self.said: list[Said] = []
        self.step = 0
        self.told = 0
        """How often the user has spoken."""
        self._calls: dict[int, tuple[ToolCall, int]] = {}
        self._answers: dict[int, Said] = {}

    def add(self, payload: Payload, version: int) -> None:
        """One event of the episode; what is no part of the conversation is passed over."""
        if isinstance(payload, EpisodeStarted):
            self.goal = payload.goal or ""
            self.tools = payload.tools or []
        elif isinstance(payload, MessageRecorded):
            role = payload.role if payload.role != "developer" else "system"
            self.said.append(Said(role, _message(payload.content), step=self.step))
            self.told += role == "user"
        elif isinstance(payload, ModelResponded):
            self.step = payload.step
            self.said.append(Said("assistant", _text(payload.content), [], step=payload.step))
        elif isinstance(payload, ActionSubmitted):
            self._submitted(payload, version)
        elif isinstance(payload, FeedbackRecorded):
            self._answered(payload)

    def situation(self) -> Situation:
        """What the planner is given now."""
        return Situation(self.goal, self.tools, list(self.said), self.step + 1)

    def _submitted(self, payload: ActionSubmitted, version: int) -> None:
        action = payload.action
        turn = self.said[-1] if self.said and self.said[-1].role == "assistant" else None
        if turn is None or turn.step != payload.step:
            turn = next(
                (one for one in reversed(self.said) if one.step == payload.step and one.role == "assistant"), None
            )
        if turn is None:
            turn = Said("assistant", None, [], step=payload.step)
            self.said.append(turn)
        if isinstance(action, ToolCall):
            turn.calls.append(action)
            self._calls[version] = action, payload.step

    def _answered(self, payload: FeedbackRecorded) -> None:
        """A later feedback for the same call takes the place of the first: a lost answer that was found."""
        call = self._calls.get(payload.action or 0)
        if call is None:
            role: Literal["user", "system"] = "user" if isinstance(payload.feedback, UserReply) else "system"
            self.said.append(Said(role, shown(payload.feedback), step=payload.step))
            self.told += role == "user"
            return
        version = payload.action or 0
        if version in self._answers:
            self._answers[version].text = shown(payload.feedback)
            return
        entry = Said("tool", shown(payload.feedback), answers=call[0].call_id, step=payload.step)
        self._answers[version] = entry
        self.said.append(entry)


def shown(feedback: Feedback) -> str:
    """A feedback as the planner reads it: a result verbatim, an error by its class."""
    if isinstance(feedback, ToolResult):
        value = bytes(feedback.value)
        text = msgspec.json.decode(value) if value[:1] == b'"' else value.decode()
        return str(text)
    if isinstance(feedback, ExecError):
        error: dict[str, Any] = {"error": feedback.class_, "retryable": feedback.retryable, "effect": feedback.effect}
        if feedback.message is not None:
            error["message"] = _text(feedback.message)
        return msgspec.json.encode(error).decode()
    if isinstance(feedback, UserReply):
        return _text(feedback.text) or ""
    if isinstance(feedback, Observation):
        return _text(feedback.text) or "(seen)"
    if isinstance(feedback, EnvNotice):
        return f"{feedback.source}: {feedback.text or ''}"
    assert isinstance(feedback, SubagentResult)
    return feedback.child_episode


def _message(content: Raw) -> str | None:
    value = msgspec.json.decode(content)
    if value is None or isinstance(value, str):
        return value
    parts = value if isinstance(value, list) else [value]
    return "\n".join(str(part["text"]) for part in parts if isinstance(part, dict) and "text" in part)


def _text(text: str | BlobRef | None) -> str | None:
    """A large text is named by its address: the planner was shown it when it came."""
    return f"[{text.media_type} {text.address}]" if isinstance(text, BlobRef) else text
