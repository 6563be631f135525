"""An episode as its calls: every action with what came back for it."""

from collections.abc import Iterable
from typing import Any

import msgspec

from core.event import StoredEvent
from eventlog.comparison.differences import canonical
from eventlog.views import calls
from eventlog.views.payloads import Answered, Submitted

TYPES = frozenset({"ModelResponded", "ActionSubmitted", "FeedbackRecorded"})
"""The types of events that `calls_of` looks at."""

_NOT_ARGUMENTS = frozenset({"kind", "tool", "op", "call_id", "schema_digest"})
_MEASURED = frozenset({"clock", "cost"})


class Call(msgspec.Struct):
    """One action. `version` is its event's, `answer` that of its feedback; `arguments` is what was
    asked for apart from the name, `feedback` what came back and `state` the digest of the state after
    it (None: there is none)."""

    version: int
    step: int
    name: str
    arguments: Any
    answer: int | None = None
    feedback: Any = None
    state: str | None = None

    def key(self, masks: tuple[str, ...]) -> tuple[str, bytes]:
        """Equal for calls of the same name with the same arguments, once masked."""
        return self.name, canonical(self.arguments, masks)


def calls_of(events: Iterable[StoredEvent]) -> list[Call]:
    """The calls of an episode in order. Copied context is not among its calls; what cannot be read is
    passed over."""
    found: dict[int, Call] = {}
    pending: calls.Pending = {}
    copied: set[int] = set()
    for event in events:
        try:
            _follow(event, found, pending, copied)
        except (msgspec.DecodeError, LookupError, TypeError, AttributeError):
            continue
    return list(found.values())


def _follow(event: StoredEvent, found: dict[int, Call], pending: calls.Pending, copied: set[int]) -> None:
    if event.type == "ModelResponded":
        if b'"copied"' in event.body:
            payload = msgspec.json.decode(event.body)
            if payload.get("copied"):
                copied.add(payload["step"])
    elif event.type == "ActionSubmitted":
        payload = msgspec.json.decode(event.body)
        submitted = msgspec.convert(payload, Submitted)
        name = calls.submit(pending, event.version, submitted)
        if submitted.step not in copied:
            found[event.version] = Call(event.version, submitted.step, name, _arguments(payload["action"]))
    elif event.type == "FeedbackRecorded":
        payload = msgspec.json.decode(event.body)
        answered = msgspec.convert(payload, Answered)
        version = calls.answered(pending, answered)
        if version is not None:
            del pending[version]
            if version in found:
                call = found[version]
                call.answer = event.version
                call.feedback = _agreeable(payload["feedback"])
                call.state = payload.get("state_after")


def _arguments(action: dict[str, Any]) -> Any:
    if action["kind"] == "ToolCall":
        return action["args"] if action.get("args_text") is None else action["args_text"]
    return {name: value for name, value in action.items() if name not in _NOT_ARGUMENTS}


def _agreeable(feedback: dict[str, Any]) -> dict[str, Any]:
    """What came back, as far as two runs can agree on it: not how it was measured."""
    return {name: value for name, value in feedback.items() if name not in _MEASURED}
