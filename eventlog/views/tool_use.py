"""Projection `tool_use`: one row per tool that an episode called: how often, with what outcome, how fast.

A touch counts as a tool by its op, any other action by its kind. Calls copied from another episode do
not count. Latencies are kept as counts in buckets a sixteenth of an octave wide, so that those of many
episodes can be added up.
"""

import math
from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec

from core.event import StoredEvent
from eventlog.projection import Column, Row
from eventlog.views import PREFIX, TOOL_USES, calls, payloads
from eventlog.views.payloads import Answered, Count, Submitted

_PARTS: Final = 16
_MOST_US: Final = 2**52


class Copied(msgspec.Struct, gc=False):
    step: Count
    copied: bool = False


class Use(msgspec.Struct, array_like=True, gc=False):
    """A tool in an episode; `last` is the version of the latest event about it. Times are µs."""

    last: int
    calls: int = 0
    answers: int = 0
    errors: int = 0
    classes: dict[str, int] = {}
    timed: int = 0
    us: int = 0
    most_us: int = 0
    buckets: dict[int, int] = {}


class State(msgspec.Struct, array_like=True, gc=False):
    """An episode's tools by name, its unanswered actions and its copied steps."""

    episode: str
    tools: dict[str, Use] = {}
    open_calls: calls.Pending = {}
    copied: set[int] = set()
    retracted: int = 0


def _on_responded(state: State, event: StoredEvent, turn: Copied) -> None:
    if turn.copied:
        state.copied.add(turn.step)


def _on_submitted(state: State, event: StoredEvent, submitted: Submitted) -> None:
    name = calls.submit(state.open_calls, event.version, submitted)
    if submitted.action.kind in calls.FINAL or submitted.step in state.copied:
        return
    use = state.tools.get(name)
    if use is None:
        use = state.tools[name] = Use(event.version)
    use.last = event.version
    use.calls += 1


def _on_feedback(state: State, event: StoredEvent, answered: Answered) -> None:
    action = calls.answer(state.open_calls, answered)
    if action is None or action[0] in state.copied or action[2] not in state.tools:
        return
    use = state.tools[action[2]]
    use.last = event.version
    use.answers += 1
    if answered.feedback.kind == "ExecError":
        use.errors += 1
        class_ = calls.clip(answered.feedback.class_ or "unknown")
        use.classes[class_] = use.classes.get(class_, 0) + 1
    if answered.latency_ms is not None:
        us = min(max(round(answered.latency_ms * 1000), 0), _MOST_US)
        use.timed += 1
        use.us = min(use.us + us, _MOST_US)
        use.most_us = max(use.most_us, us)
        at = bucket(us)
        use.buckets[at] = use.buckets.get(at, 0) + 1


def _on_retracted(state: State, event: StoredEvent, retracted: payloads.Retracted) -> None:
    state.retracted = event.version


_HANDLERS = payloads.handlers(
    ("ModelResponded", Copied, _on_responded),
    ("ActionSubmitted", Submitted, _on_submitted),
    ("FeedbackRecorded", Answered, _on_feedback),
    ("EpisodeRetracted", payloads.Retracted, _on_retracted),
)


def bucket(us: int) -> int:
    """The bucket of a time; the same on every machine."""
    mantissa, exponent = math.frexp(us)
    return exponent * _PARTS + int((mantissa - 0.5) * 2 * _PARTS) if us else 0


def middle(number: int) -> float:
    """The time, in µs, in the middle of a bucket: at most 3.2 % from any in it."""
    if not number:
        return 0.0
    exponent, part = divmod(number, _PARTS)
    return math.ldexp(0.5 + (part + 0.5) / (2 * _PARTS), exponent)


class ToolUse:
    """The fold."""

    name, version, prefix, _ = TOOL_USES
    lean = True
    key = ("episode", "tool")
    columns: Sequence[Column] = (
        Column("episode"),
        Column("tool"),
        Column("calls", "bigint"),
        Column("answers", "bigint"),
        Column("errors", "bigint"),
        Column("error_classes", "text[]"),
        Column("error_counts", "bigint[]"),
        Column("timed", "bigint"),
        Column("us", "bigint"),
        Column("most_us", "bigint"),
        Column("buckets", "bigint[]"),
        Column("bucket_counts", "bigint[]"),
        Column("retracted", "boolean"),
    )
    indexes = ("tool",)

    _encode = msgspec.msgpack.Encoder().encode
    _decode = msgspec.msgpack.Decoder(State).decode

    def initial(self, stream: str) -> State:
        return State(stream.removeprefix(PREFIX))

    def apply(self, state: State, event: StoredEvent) -> State:
        payloads.apply(_HANDLERS, state, event)
        return state

    def rows(self, state: State, after: int) -> Iterable[Row]:
        for name, use in state.tools.items():
            if use.last > after or state.retracted > after:
                classes, buckets = sorted(use.classes.items()), sorted(use.buckets.items())
                yield (
                    state.episode,
                    name,
                    use.calls,
                    use.answers,
                    use.errors,
                    [class_ for class_, _ in classes],
                    [count for _, count in classes],
                    use.timed,
                    use.us,
                    use.most_us,
                    [number for number, _ in buckets],
                    [count for _, count in buckets],
                    bool(state.retracted),
                )

    def dump(self, state: State) -> bytes:
        return self._encode(state)

    def load(self, data: bytes) -> Any:
        return self._decode(data)


TOOL_USE: Final = ToolUse()
