"""An episode's events as lines to read: what was done, what came back, how it was judged.

A line carries the version of its event, so that it can be quoted (EP@N). Feedback stands on the line
of the action it answers. What cannot be read is shown as it is stored. Pure: texts still hold what
was recorded, control characters too.
"""

from collections.abc import Iterable, Iterator
from typing import Protocol

import msgspec

from core.event import StoredEvent
from eventlog.wording import WHOLE, WORDS, Json, Line, fold


class Told(Protocol):
    """What a line is made of: an event, or what was read of one."""

    @property
    def version(self) -> int: ...

    @property
    def type(self) -> str: ...

    @property
    def body(self) -> bytes: ...


def lines(events: Iterable[StoredEvent], *, first: int = 1) -> Iterator[Line]:
    """The lines of an episode from version `first` on; all its events must be given."""
    shown: list[Line] = []
    unanswered: dict[int, tuple[Line, Json]] = {}
    for event in events:
        payload = payload_of(event)
        if event.type in ("FeedbackRecorded", "ActionDispatched"):
            asked = _asked(unanswered, payload, take=event.type == "FeedbackRecorded")
            if asked is not None and asked.version >= first:
                _merge(asked, line(event, payload), event.type)
                continue
        drawn = line(event, payload)
        if event.type == "ActionSubmitted" and isinstance(payload.get("action"), dict):
            unanswered[event.version] = drawn, payload["action"]
        if event.version >= first:
            shown.append(drawn)
    yield from shown


def line(event: Told, payload: Json | None = None) -> Line:
    """One event as a line of its own."""
    payload = payload_of(event) if payload is None else payload
    drawn = Line(event.version, step_of(payload), event.type)
    fill = WORDS.get(event.type)
    if fill is not None:
        try:
            fill(drawn, payload)
            return drawn
        except (LookupError, TypeError, ValueError, AttributeError):
            pass
    return Line(event.version, step_of(payload), f"{event.type} {fold(event.body.decode(), WHOLE)}")


def payload_of(event: Told) -> Json:
    """The payload as plain values."""
    payload: Json = msgspec.json.decode(event.body)
    return payload


def step_of(payload: Json) -> int | None:
    """The step that an event belongs to, if it says one."""
    step = payload.get("step")
    return step if isinstance(step, int) else None


def _asked(unanswered: dict[int, tuple[Line, Json]], payload: Json, *, take: bool) -> Line | None:
    """The line of the action that this feedback answers (or that was dispatched)."""
    feedback = payload.get("feedback")
    kind = feedback.get("kind") if isinstance(feedback, dict) else None
    at = payload.get("action")
    if at not in unanswered:
        at = None
        for version, (asked, action) in unanswered.items():
            if payload.get("call_id") is not None:
                if action.get("call_id") == payload["call_id"]:
                    at = version
            elif asked.step == step_of(payload) and _may_answer(action.get("kind"), kind):
                at = version
                break
    if at is None:
        return None
    return unanswered.pop(at)[0] if take else unanswered[at][0]


def _may_answer(action: object, feedback: object) -> bool:
    return (
        action not in ("Finish", "Refuse")
        and feedback != "EnvNotice"
        and (feedback != "UserReply" or action == "Clarify")
    )


def _merge(asked: Line, answer: Line, type_: str) -> None:
    if type_ == "ActionDispatched":
        asked.outcome = "dispatched, no feedback"
        return
    asked.outcome = answer.action
    asked.ms = answer.ms
    asked.failed = answer.failed
    asked.answer = answer.version
