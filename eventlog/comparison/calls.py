"""An episode as its calls: every action with what came back for it."""

from collections.abc import Iterable
from typing import Any

import msgspec

from eventlog.comparison.differences import canonical
from eventlog.database import Connection
from eventlog.timeline import Told
from eventlog.views import PREFIX, calls
from eventlog.views.payloads import Answered, Count, FeedbackRead, Submitted

_NOT_ARGUMENTS = frozenset({"kind", "tool", "op", "call_id", "schema_digest"})
_MEASURED = frozenset({"clock", "cost"})


_RECORDED = """
SELECT stream, version, type, body FROM event
WHERE stream = ANY(%s) AND (
    type IN ('ActionSubmitted', 'FeedbackRecorded')
    OR type = 'ModelResponded' AND position('copied'::bytea IN body) > 0
) ORDER BY version
"""


class Record(msgspec.Struct, frozen=True, gc=False):
    """What a comparison looks at of an event."""

    version: int
    type: str
    body: bytes


def recorded(connection: Connection, *episodes: str) -> list[list[Record]]:
    """Of each episode the events that `calls_of` looks at, all as of one moment."""
    found: dict[str, list[Record]] = {PREFIX + episode: [] for episode in episodes}
    for stream, *record in connection.execute(_RECORDED, (list(found),), binary=True):
        found[stream].append(Record(*record))
    return [found[PREFIX + episode] for episode in episodes]


class Call(msgspec.Struct):
    """One action. `version` is its event's, `answer` that of its feedback; `arguments` is what was
    asked for apart from the name, `raw` the JSON of what came back (empty: nothing did) and `state` the
    digest of the state after it."""

    version: int
    step: int
    name: str
    arguments: Any
    answer: int | None = None
    raw: bytes = b""
    state: str | None = None

    @property
    def feedback(self) -> Any:
        """What came back, as far as two runs can agree on it: not how it was measured."""
        if not self.raw:
            return None
        return {name: value for name, value in msgspec.json.decode(self.raw).items() if name not in _MEASURED}

    def key(self, masks: tuple[str, ...]) -> tuple[str, bytes]:
        """Equal for calls of the same name with the same arguments, once masked."""
        return self.name, canonical(self.arguments, masks)


def calls_of(events: Iterable[Told]) -> list[Call]:
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


def _follow(event: Told, found: dict[int, Call], pending: calls.Pending, copied: set[int]) -> None:
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
        said = _said(event.body)
        answered = Answered(said.step, _feedback(said.feedback), said.call_id, said.action)
        version = calls.answered(pending, answered)
        if version is not None:
            del pending[version]
            if version in found:
                call = found[version]
                call.answer, call.raw, call.state = event.version, bytes(said.feedback), said.state_after


class _Said(msgspec.Struct, gc=False):
    step: Count
    feedback: msgspec.Raw
    call_id: str | None = None
    action: Count | None = None
    state_after: str | None = None


_said = msgspec.json.Decoder(_Said).decode
_feedback = msgspec.json.Decoder(FeedbackRead).decode


def _arguments(action: dict[str, Any]) -> Any:
    if action["kind"] == "ToolCall":
        return action["args"] if action.get("args_text") is None else action["args_text"]
    return {name: value for name, value in action.items() if name not in _NOT_ARGUMENTS}
