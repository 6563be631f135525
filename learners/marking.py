"""Turns that rules find erroneous, so that they are not imitated: events `TurnMarked` in the episode's stream.

| rule | a turn is marked if it |
|---|---|
| repeated_failing_call | calls a tool with the same arguments as before, and fails as it failed before |
| schema_violation | calls with arguments that are no JSON or do not fit the tool's schema |
| unknown_tool | calls a tool that is not there |

A failure that is the environment's (a timeout, an injected fault) or may pass is no turn's error. A mark's id
follows from what it marks: marking again adds nothing.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

import msgspec
from msgspec import Raw

from core.errors import UsageError
from core.event import Event, StoredEvent
from core.identity import uuid8
from core.times import now
from core.vocabulary import payload
from core.vocabulary.contract import ErrorClass, ExecError, Feedback, ToolCall, ToolResult
from core.vocabulary.curation import TurnMarked
from core.vocabulary.episode import ActionSubmitted, EpisodeStarted, FeedbackRecorded, ModelResponded, ToolSpec
from eventlog.log import Log
from eventlog.writer import Writer

REPEATED: Final = "repeated_failing_call@1"
SCHEMA: Final = "schema_violation@1"
UNKNOWN: Final = "unknown_tool@1"

WRITER: Final = "marking"
ACTOR: Final = "curator"

_ITS_OWN: Final[frozenset[ErrorClass]] = frozenset(
    {"unknown_tool", "schema", "precondition", "permission", "not_found", "conflict"}
)
"""Failures that the same call, made again, only repeats."""
_BATCH = 1_000


class Mark(NamedTuple):
    """A turn that a rule found: `version` is that of the call, `known` whether it was marked before."""

    stream: str
    step: int
    version: int
    rule: str
    why: str
    event_id: bytes
    known: bool


class _Call(msgspec.Struct):
    step: int
    version: int
    tool: str
    args: bytes
    whole: ToolCall
    event_id: bytes
    answer: Feedback | None = None

    @property
    def failure(self) -> ExecError | None:
        return self.answer if isinstance(self.answer, ExecError) else None


def find(events: Iterable[StoredEvent]) -> list[Mark]:
    """What the rules find in an episode's events, by step and rule; at most one mark for a step and a rule.
    Events that cannot be read are passed over."""
    calls: list[_Call] = []
    tools: list[ToolSpec] | None = None
    copied: set[int] = set()
    known: set[bytes] = set()
    stream = ""
    for event in events:
        stream = event.stream
        said = payload(event)
        if isinstance(said, EpisodeStarted):
            tools = said.tools if tools is None else tools
        elif isinstance(said, ModelResponded) and said.copied:
            copied.add(said.step)
        elif isinstance(said, ActionSubmitted) and isinstance(said.action, ToolCall) and said.step not in copied:
            action = said.action
            calls.append(_Call(said.step, event.version, action.tool, _same(action), action, event.event_id))
        elif isinstance(said, FeedbackRecorded):
            _answer(calls, said)
        elif isinstance(said, TurnMarked):
            known.add(event.event_id)
    found: dict[tuple[int, str], Mark] = {}
    for call, rule, why in _judged(calls, tools):
        made = _id(stream, call.step, rule)
        found.setdefault((call.step, rule), Mark(stream, call.step, call.version, rule, why, made, made in known))
    return [found[key] for key in sorted(found)]


def mark(log: Log, streams: Iterable[str], *, dry_run: bool = False) -> Iterator[Mark]:
    """Find and, unless it is a `dry_run`, append what is new; a mark is given once it is in the log."""
    writer = Writer(WRITER)
    waiting: list[Mark] = []
    new = 0
    for stream in streams:
        found = find(log.read(stream))
        waiting += found
        new += sum(not one.known for one in found)
        if new >= _BATCH or len(waiting) >= _BATCH:
            yield from _written(log, writer, waiting, dry_run)
            waiting, new = [], 0
    yield from _written(log, writer, waiting, dry_run)


def _written(log: Log, writer: Writer, marks: Sequence[Mark], dry_run: bool) -> Sequence[Mark]:
    events = [_event(writer, one) for one in marks if not one.known and not dry_run]
    if events:
        log.append_many(events)
    return marks


def _event(writer: Writer, one: Mark) -> Event:
    said = TurnMarked(one.step, True, "rule", rule=one.rule, why=one.why)
    return writer.event(one.stream, said, event_id=one.event_id, actor=ACTOR, occurred_at=now())


def _id(stream: str, step: int, rule: str) -> bytes:
    return uuid8(b"trajlog/mark/1", stream.encode(), str(step).encode(), rule.encode())


def _answer(calls: list[_Call], said: FeedbackRecorded) -> None:
    """Give the feedback to the call that it answers; of several answers the last counts."""
    for call in reversed(calls):
        if call.version == said.action:
            call.answer = said.feedback
            return
    if said.action is not None:
        return
    open_ = [call for call in calls if call.answer is None]
    if said.call_id is not None:
        named = [call for call in open_ if call.whole.call_id == said.call_id]
        if named:
            named[-1].answer = said.feedback
    elif isinstance(said.feedback, ToolResult | ExecError):
        first = next((call for call in open_ if call.step == said.step), None)
        if first is not None:
            first.answer = said.feedback


def _judged(calls: Sequence[_Call], tools: Sequence[ToolSpec] | None) -> Iterator[tuple[_Call, str, str]]:
    """What is wrong with which call, by what rule, and why."""
    failed: dict[tuple[str, bytes], int] = {}
    schemas = _Schemas(tools or ())
    for call in calls:
        failure = call.failure
        class_ = None if failure is None else failure.class_
        if class_ == "unknown_tool" or (tools is not None and schemas.lacks(call)):
            yield call, UNKNOWN, f"there is no tool {call.tool}"
        else:
            wrong = "the environment refused the arguments" if class_ == "schema" else schemas.refusal(call)
            if wrong is not None:
                yield call, SCHEMA, f"{call.tool}: {wrong}"
        if failure is None or failure.retryable or class_ not in _ITS_OWN:
            continue
        before = failed.setdefault((call.tool, call.args), call.version)
        if before != call.version:
            yield call, REPEATED, f"{call.tool} with the same arguments as @{before}, which failed too"


class _Schemas:
    """The tools as the model was shown them."""

    def __init__(self, tools: Sequence[ToolSpec]) -> None:
        from backends.schemas import Schemas

        self._schemas = Schemas(tools)

    def lacks(self, call: _Call) -> bool:
        """Whether there is no such tool: none was shown, and the environment did not know better."""
        return call.tool not in self._schemas.tools and not isinstance(call.answer, ToolResult)

    def refusal(self, call: _Call) -> str | None:
        """Why the arguments do not fit; None if they do, or nobody can say."""
        if call.whole.args_text is not None:
            return "the arguments are no JSON"
        if call.tool not in self._schemas.tools:
            return None
        try:
            refused = self._schemas.refusal(call.tool, Raw(call.whole.args))
        except UsageError:  # the tool's own schema is none
            return None
        return refused.message if refused is not None and isinstance(refused.message, str) else None


def _same(call: ToolCall) -> bytes:
    """Equal for equal arguments, however they were written."""
    if call.args_text is not None:
        return msgspec.json.encode(call.args_text)
    return msgspec.json.encode(msgspec.json.decode(call.args), order="sorted")
