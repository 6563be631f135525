"""Episodes made for tests: payloads in order, as a recorder would write them."""

from collections.abc import Iterable, Sequence

import msgspec

from core.event import Event, StoredEvent
from core.vocabulary import Payload
from core.vocabulary.base import BlobRef
from core.vocabulary.contract import Check, ExecError, Finished, ToolCall, ToolResult, Verification
from core.vocabulary.episode import (
    ActionSubmitted,
    EpisodeEnded,
    EpisodeStarted,
    FeedbackRecorded,
    MessageRecorded,
    ModelResponded,
    Origin,
    Usage,
    VerificationRecorded,
)
from eventlog.inmemory import InMemoryLog
from eventlog.writer import Writer

START = 1_767_323_045_000_006
"""2026-01-02T03:04:05.000006Z."""


def origin(import_id: str = "i1", generation: int = 0, record: str = "0" * 64) -> Origin:
    """Where an imported episode says it came from."""
    return Origin(
        format="tau-bench",
        mapping=1,
        generation=generation,
        import_id=import_id,
        where="index 0",
        record=BlobRef(address=f"sha256:{record}", size=10, media_type="application/json"),
    )


def raw(value: object) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(value))


def call(step: int, tool: str, call_id: str | None = None, **args: object) -> ActionSubmitted:
    return ActionSubmitted(step=step, action=ToolCall(tool=tool, args=raw(args), call_id=call_id))


def ok(step: int, value: object = "done", *, action: int | None = None, call_id: str | None = None) -> FeedbackRecorded:
    return FeedbackRecorded(
        step=step, feedback=ToolResult(value=raw(value)), action=action, call_id=call_id, latency_ms=5.0
    )


def failed(step: int, class_: str = "not_found", *, action: int | None = None, call_id: str | None = None) -> Payload:
    feedback = ExecError(class_=class_, retryable=False, effect="none", message="Error: no such thing")  # type: ignore[arg-type]
    return FeedbackRecorded(step=step, feedback=feedback, action=action, call_id=call_id)


def turn(step: int, content: str | None = "I will look.", *, tokens: tuple[int, int] | None = (100, 10)) -> Payload:
    usage = None if tokens is None else Usage(prompt_tokens=tokens[0], completion_tokens=tokens[1])
    return ModelResponded(step=step, content=content, usage=usage, latency_ms=40.0)


def judged(verdict: str, *, source: str = "machine", reward: float | None = None) -> VerificationRecorded:
    check = Check(id="goal", policy="state", verdict=verdict, detail=raw({"expected": 1, "actual": 0}))  # type: ignore[arg-type]
    return VerificationRecorded(
        verification=Verification(verdict=verdict, checks=[check], reward=reward),  # type: ignore[arg-type]
        source=source,  # type: ignore[arg-type]
    )


def episode(
    *,
    task: str = "alarm",
    verdict: str | None = "fail",
    steps: int = 2,
    origin: Origin | None = None,
    split: str = "train",
) -> list[Payload]:
    """An episode of `steps` turns with one call each, the last of which fails unless the verdict is pass."""
    payloads: list[Payload] = [
        EpisodeStarted(task=task, goal=f"set the {task}", policy="planner-1", origin=origin, split=split),  # type: ignore[arg-type]
        MessageRecorded(role="user", content=raw(f"please, the {task}")),
    ]
    for step in range(1, steps + 1):
        payloads += [turn(step), call(step, f"tool_{step}", f"c{step}", at="07:00")]
        bad = step == steps and verdict != "pass"
        payloads.append(failed(step, action=len(payloads)) if bad else ok(step, action=len(payloads)))
    payloads.append(EpisodeEnded(end=Finished()))
    if verdict is not None:
        payloads.append(judged(verdict, reward=float(verdict == "pass")))
    return payloads


def events(
    stream: str, payloads: Iterable[Payload], writer: Writer | None = None, at: int | None = START
) -> list[Event]:
    """Events of these payloads, a second apart from `at` on."""
    writer = writer or Writer("test")
    return [
        writer.event(stream, payload, occurred_at=None if at is None else at + i * 1_000_000)
        for i, payload in enumerate(payloads)
    ]


def stored(*streams: tuple[str, Sequence[Payload]]) -> list[StoredEvent]:
    """The events of these streams as a log stores them, one stream after the other."""
    log = InMemoryLog()
    for stream, payloads in streams:
        log.append_many(events(stream, payloads))
    return list(log.read_all())
