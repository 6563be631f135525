"""Projection `step`: one row per step (model turn) of each episode.

The outcome of a step is `error` if any of its actions failed, `unanswered` while one has no
feedback, else `ok`; null where it acted on nothing.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec

from core.event import StoredEvent
from eventlog.projection import Column, Row
from eventlog.views import PREFIX, STEPS, calls, payloads
from eventlog.views.payloads import Answered, Responded, Submitted


class Step(msgspec.Struct, array_like=True, gc=False):
    """A step so far; `first` and `last` are the versions of its first and latest event."""

    first: int
    last: int
    started_at: int | None = None
    tools: list[str] = []
    calls: int = 0
    answers: int = 0
    errors: int = 0
    error_class: str | None = None
    ms: float | None = None
    tokens: int | None = None
    copied: bool = False

    @property
    def outcome(self) -> str | None:
        if self.errors:
            return "error"
        if not self.calls:
            return None
        return "ok" if self.answers >= self.calls else "unanswered"


class State(msgspec.Struct, array_like=True, gc=False):
    """An episode's steps by number, and its unanswered actions."""

    episode: str
    steps: dict[int, Step] = {}
    open_calls: calls.Pending = {}


def _step(state: State, number: int, event: StoredEvent) -> Step:
    step = state.steps.get(number)
    if step is None:
        step = state.steps[number] = Step(event.version, event.version, event.occurred_at)
    step.last = event.version
    return step


def _on_responded(state: State, event: StoredEvent, turn: Responded) -> None:
    step = _step(state, turn.step, event)
    step.copied = turn.copied
    if turn.usage is not None and turn.usage.total is not None:
        step.tokens = (step.tokens or 0) + turn.usage.total
    if turn.latency_ms is not None:
        step.ms = (step.ms or 0.0) + turn.latency_ms


def _on_submitted(state: State, event: StoredEvent, submitted: Submitted) -> None:
    step = _step(state, submitted.step, event)
    name = calls.submit(state.open_calls, event.version, submitted)
    if submitted.action.kind not in calls.FINAL:
        step.calls += 1
    if len(step.tools) < calls.MAX_PENDING:
        step.tools.append(name)


def _on_feedback(state: State, event: StoredEvent, answered: Answered) -> None:
    action = calls.answer(state.open_calls, answered)
    step = _step(state, action[0] if action else answered.step, event)
    step.answers += action is not None
    if answered.feedback.kind == "ExecError":
        step.errors += 1
        step.error_class = answered.feedback.class_ and calls.clip(answered.feedback.class_)
    if answered.latency_ms is not None:
        step.ms = (step.ms or 0.0) + answered.latency_ms


_HANDLERS = payloads.handlers(
    ("ModelResponded", Responded, _on_responded),
    ("ActionSubmitted", Submitted, _on_submitted),
    ("FeedbackRecorded", Answered, _on_feedback),
)


class Steps:
    """The fold."""

    name, version, prefix, _ = STEPS
    lean = True
    key = ("episode", "step")
    columns: Sequence[Column] = (
        Column("episode"),
        Column("step", "bigint"),
        Column("first_version", "bigint"),
        Column("last_version", "bigint"),
        Column("started_at", "timestamptz"),
        Column("tools", "text[]"),
        Column("calls", "bigint"),
        Column("outcome"),
        Column("errors", "bigint"),
        Column("error_class"),
        Column("ms", "double precision"),
        Column("tokens", "bigint"),
        Column("copied", "boolean"),
    )
    indexes = ()

    _encode = msgspec.msgpack.Encoder().encode
    _decode = msgspec.msgpack.Decoder(State).decode

    def initial(self, stream: str) -> State:
        return State(stream.removeprefix(PREFIX))

    def apply(self, state: State, event: StoredEvent) -> State:
        payloads.apply(_HANDLERS, state, event)
        return state

    def rows(self, state: State, after: int) -> Iterable[Row]:
        for number, step in state.steps.items():
            if step.last > after:
                yield (
                    state.episode,
                    number,
                    step.first,
                    step.last,
                    step.started_at,
                    step.tools,
                    step.calls,
                    step.outcome,
                    step.errors,
                    step.error_class,
                    step.ms,
                    step.tokens,
                    step.copied,
                )

    def dump(self, state: State) -> bytes:
        return self._encode(state)

    def load(self, data: bytes) -> Any:
        return self._decode(data)


STEP: Final = Steps()
