"""Projection `episode`: one row per episode, what a list of them shows.

The verdict is the latest, except that a human's outranks any later machine's. The failing tool is
that of the last call that failed. Steps and tokens copied from another episode do not count.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec

from core.event import StoredEvent
from eventlog.projection import Column, Row
from eventlog.views import EPISODES, PREFIX, calls, payloads
from eventlog.views.calls import clip
from eventlog.views.payloads import Answered, Ended, Responded, Started, Submitted, Verified

GOAL: Final = 120


class State(msgspec.Struct, array_like=True, gc=False):
    """An episode so far. `open_calls` are its unanswered actions."""

    episode: str
    started: bool = False
    task: str | None = None
    source: str | None = None
    policy: str | None = None
    split: str | None = None
    started_at: int | None = None
    ended_at: int | None = None
    end: str | None = None
    verdict: str = "unverified"
    reward: float | None = None
    steps: int = 0
    events: int = 0
    tokens: int | None = None
    failing_tool: str | None = None
    position: int = 0
    last_position: int = 0
    committed_at: int = 0
    goal: str | None = None
    group: str | None = None
    rollout: int | None = None
    environment: str | None = None
    import_id: str | None = None
    record: str | None = None
    generation: int | None = None
    retracted: bool = False
    judged_by_human: bool = False
    last_step: int = 0
    open_calls: calls.Pending = {}


def _on_started(state: State, event: StoredEvent, start: Started) -> None:
    if state.started:
        return
    state.started = True
    state.position = event.position
    state.committed_at = event.committed_at
    state.started_at = event.occurred_at
    state.task = start.task and clip(start.task)
    state.goal = start.goal and start.goal[:GOAL]
    state.group = start.group and clip(start.group)
    state.rollout = start.rollout
    state.policy = start.policy and clip(start.policy)
    state.environment = start.environment and clip(start.environment)
    state.split = clip(start.split)
    state.source = "live"
    if start.origin is not None:
        state.source = clip(start.origin.format)
        state.import_id = clip(start.origin.import_id)
        state.record = clip(start.origin.record.address)
        state.generation = start.origin.generation


def _on_responded(state: State, event: StoredEvent, turn: Responded) -> None:
    if turn.step > state.last_step:
        state.last_step = turn.step
        state.steps += not turn.copied
    if turn.usage is not None and not turn.copied:
        total = turn.usage.total
        if total is not None:
            state.tokens = (state.tokens or 0) + total


def _on_submitted(state: State, event: StoredEvent, submitted: Submitted) -> None:
    if submitted.step > state.last_step:
        state.last_step = submitted.step
        state.steps += 1
    calls.submit(state.open_calls, event.version, submitted)


def _on_feedback(state: State, event: StoredEvent, answered: Answered) -> None:
    action = calls.answer(state.open_calls, answered)
    if answered.feedback.kind == "ExecError":
        state.failing_tool = action[2] if action else None


def _on_ended(state: State, event: StoredEvent, ended: Ended) -> None:
    end = ended.end
    state.end = clip(f"{end.kind}({end.dimension})" if end.dimension else end.kind)
    state.ended_at = event.occurred_at


def _on_verified(state: State, event: StoredEvent, verified: Verified) -> None:
    human = verified.source == "human"
    if state.judged_by_human and not human:
        return
    state.judged_by_human = human
    state.verdict = clip(verified.verification.verdict)
    if verified.verification.reward is not None:
        state.reward = verified.verification.reward


def _on_retracted(state: State, event: StoredEvent, retracted: payloads.Retracted) -> None:
    state.retracted = True


_HANDLERS = payloads.handlers(
    ("EpisodeStarted", Started, _on_started),
    ("ModelResponded", Responded, _on_responded),
    ("ActionSubmitted", Submitted, _on_submitted),
    ("FeedbackRecorded", Answered, _on_feedback),
    ("EpisodeEnded", Ended, _on_ended),
    ("VerificationRecorded", Verified, _on_verified),
    ("EpisodeRetracted", payloads.Retracted, _on_retracted),
)


class Episode:
    """The fold. `position` is that of EpisodeStarted (of the first event where it is missing)."""

    name, version, prefix, _ = EPISODES
    lean = True
    key = ("episode",)
    columns: Sequence[Column] = (
        Column("episode"),
        Column("task"),
        Column("source"),
        Column("policy"),
        Column("split"),
        Column("started_at", "timestamptz"),
        Column("ended_at", "timestamptz"),
        Column("end"),
        Column("verdict"),
        Column("reward", "double precision"),
        Column("steps", "bigint"),
        Column("events", "bigint"),
        Column("tokens", "bigint"),
        Column("failing_tool"),
        Column("position", "bigint"),
        Column("last_position", "bigint"),
        Column("committed_at", "timestamptz"),
        Column("goal"),
        Column("group"),
        Column("rollout", "bigint"),
        Column("environment"),
        Column("import_id"),
        Column("record"),
        Column("generation", "bigint"),
        Column("retracted", "boolean"),
    )
    indexes = ("position", "verdict, position", "task, position", "import_id", "record")

    _encode = msgspec.msgpack.Encoder().encode
    _decode = msgspec.msgpack.Decoder(State).decode

    def initial(self, stream: str) -> State:
        return State(stream.removeprefix(PREFIX))

    def apply(self, state: State, event: StoredEvent) -> State:
        state.events = event.version
        state.last_position = event.position
        if not state.position:
            state.position = event.position
            state.committed_at = event.committed_at
        payloads.apply(_HANDLERS, state, event)
        return state

    def rows(self, state: State, after: int) -> Iterable[Row]:
        if not state.started:
            return  # a stray note or verdict is no episode
        values = msgspec.structs.astuple(state)
        yield values[:1] + values[2:26]

    def dump(self, state: State) -> bytes:
        return self._encode(state)

    def load(self, data: bytes) -> Any:
        return self._decode(data)


EPISODE: Final = Episode()
