"""Comparing two episodes of a thousand steps: what that takes beyond starting up."""

import sys
from collections.abc import Iterator

import msgspec

from core.event import Event
from core.vocabulary import Payload
from core.vocabulary.contract import ToolCall, ToolResult, Verification
from core.vocabulary.episode import (
    ActionSubmitted,
    EpisodeStarted,
    FeedbackRecorded,
    ModelResponded,
    VerificationRecorded,
)
from eventlog.writer import Writer
from tests.bench.harness import Row, row, server
from tests.bench.reading import BARE, filled, processes

STEPS = 1_000
ALLOWED_MS = 200


def run() -> list[Row]:
    """Row `diff.process` (ms, against a bare process and 200 ms)."""
    with server() as embedded:
        events = [*episode("a", "fail", 7), *episode("b", "pass", 11)]
        url = filled(embedded, "diff", len(events), events)
        ours = processes([sys.executable, "-m", "cli", "--db", url, "diff", "a", "b"], code=1)
        bare = processes([sys.executable, str(BARE), "start", url, "-"])
        return [row("diff.process", ours, [one + ALLOWED_MS for one in bare], "ms")]


def episode(name: str, verdict: str, every: int) -> Iterator[Event]:
    """An episode that differs from others in one call of `every`: in its arguments, its answer, or by
    being there."""
    writer = Writer("bench")

    def event(payload: Payload) -> Event:
        return writer.event(f"episode/{name}", payload)

    yield event(EpisodeStarted(task="t"))
    for step in range(1, STEPS + 1):
        odd = step % every == 0
        yield event(ModelResponded(step, "I will look at the next page of results. " * 5))
        yield event(
            ActionSubmitted(step, ToolCall("search", _raw({"page": step, "size": every if odd else 20}), f"c{step}"))
        )
        rows = [
            {"id": f"r{step}-{i}", "title": "A result with a title", "price": i}
            for i in range(8 if step % 13 else every)
        ]
        yield event(FeedbackRecorded(step, ToolResult(_raw({"rows": rows})), call_id=f"c{step}"))
        if step % (every * 5) == 0:
            yield event(ActionSubmitted(step, ToolCall(f"note_{every}", _raw({"step": step}))))
    yield event(VerificationRecorded(Verification(verdict), "import"))  # type: ignore[arg-type]


def _raw(value: object) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(value))
