"""Projection `rollout`: one row per episode, as a group of rollouts and the guards look at it.

`success` is s_i: 1 or 0 as it was judged pass or fail, null where nothing of the kind was found: that is
not 0. Costs are what was recorded; null where it was not. Copied turns do not count.
"""

from collections.abc import Iterable, Sequence
from math import fsum
from typing import Any, Final

import msgspec

from core.event import StoredEvent
from eventlog.projection import Column, Row
from eventlog.views import PREFIX, calls, payloads
from eventlog.views.calls import clip
from eventlog.views.payloads import Answered, Ended, Submitted
from learners.views import ROLLOUTS, reads
from learners.views.reads import Sampled, Started, Verified

SUCCESS: Final = {"pass": 1, "fail": 0}


class State(msgspec.Struct, array_like=True, gc=False):
    """An episode so far. `sampled`: turns whose token ids were recorded, `scored` those with
    log-probabilities too; `costs` and `latencies` one for each event that says some."""

    episode: str
    started: int = 0
    split: str = "train"
    group: str | None = None
    task: str | None = None
    rollout: int | None = None
    attempt: int = 1
    source: str = "live"
    origin: str = "model"
    policy: str | None = None
    environment: str | None = None
    parent: str | None = None
    tools: int | None = None
    end: str | None = None
    verdict: str = "unverified"
    judged: int = 0
    judged_by: str | None = None
    reward: float | None = None
    progress: float | None = None
    steps: int = 0
    called: int = 0
    errors: int = 0
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    thinking_tokens: int | None = None
    costs: list[float] = []
    latencies: list[float] = []
    sampled: list[int] = []
    scored: int = 0
    plan: list[str] = []
    retracted: bool = False
    last_position: int = 0
    last_step: int = 0
    copied: set[int] = set()
    open_calls: calls.Pending = {}


def _on_started(state: State, event: StoredEvent, start: Started) -> None:
    if state.started:
        return
    state.started = event.version
    state.split = clip(start.split)
    state.group = start.group and clip(start.group)
    state.task = start.task and clip(start.task)
    state.rollout = start.rollout
    state.attempt = start.attempt
    state.source = clip(start.origin.format) if start.origin is not None else "live"
    state.origin = reads.origin_of(start)
    state.policy = start.policy and clip(start.policy)
    state.environment = start.environment and clip(start.environment)
    state.parent = None if start.parent is None else start.parent.stream
    state.tools = None if start.tools is None else len(start.tools)


def _on_responded(state: State, event: StoredEvent, turn: Sampled) -> None:
    if turn.copied:
        state.copied.add(turn.step)
        return
    _step(state, turn.step)
    if turn.usage is not None:
        state.prompt_tokens = _sum(state.prompt_tokens, turn.usage.prompt_tokens)
        state.completion_tokens = _sum(state.completion_tokens, turn.usage.completion_tokens)
        state.thinking_tokens = _sum(state.thinking_tokens, turn.usage.thinking_tokens)
    if turn.cost is not None:
        state.costs.append(turn.cost)
    if turn.latency_ms is not None:
        state.latencies.append(turn.latency_ms)
    if turn.sampled:
        state.sampled.append(event.version)
        state.scored += turn.scored


def _on_submitted(state: State, event: StoredEvent, submitted: Submitted) -> None:
    name = calls.submit(state.open_calls, event.version, submitted)
    if submitted.step in state.copied:
        return
    _step(state, submitted.step)
    if submitted.action.kind not in calls.FINAL:
        state.called += 1
        state.plan.append(name)


def _on_answered(state: State, event: StoredEvent, answered: Answered) -> None:
    action = calls.answer(state.open_calls, answered)
    if action is not None and action[0] in state.copied:
        return
    state.errors += answered.feedback.kind == "ExecError"
    if answered.latency_ms is not None:
        state.latencies.append(answered.latency_ms)


def _on_ended(state: State, event: StoredEvent, ended: Ended) -> None:
    end = ended.end
    state.end = clip(f"{end.kind}({end.dimension})" if end.dimension else end.kind)


def _on_verified(state: State, event: StoredEvent, verified: Verified) -> None:
    if state.judged_by == "human" and verified.source != "human":
        return
    found = verified.verification
    state.judged_by = clip(verified.source)
    state.judged = event.version
    state.verdict = clip(found.verdict)
    state.reward = state.reward if found.reward is None else found.reward
    state.progress = state.progress if found.progress is None else found.progress


def _on_retracted(state: State, event: StoredEvent, retracted: payloads.Retracted) -> None:
    state.retracted = True


def _step(state: State, step: int) -> None:
    if step > state.last_step:
        state.last_step = step
        state.steps += 1


def _sum(so_far: int | None, more: int | None) -> int | None:
    return so_far if more is None else (so_far or 0) + more


_HANDLERS = payloads.handlers(
    ("EpisodeStarted", Started, _on_started),
    ("ModelResponded", Sampled, _on_responded),
    ("ActionSubmitted", Submitted, _on_submitted),
    ("FeedbackRecorded", Answered, _on_answered),
    ("EpisodeEnded", Ended, _on_ended),
    ("VerificationRecorded", Verified, _on_verified),
    ("EpisodeRetracted", payloads.Retracted, _on_retracted),
)
READS: Final = reads.schemas(_HANDLERS)


class Rollout:
    """The fold. `plan` are the tools it called, in order; `sampled` the versions of the turns whose tokens
    were recorded."""

    name, version, prefix, _ = ROLLOUTS
    key = ("episode",)
    columns: Sequence[Column] = (
        Column("episode"),
        Column("started", "bigint"),
        Column("split"),
        Column("group"),
        Column("task"),
        Column("rollout", "bigint"),
        Column("attempt", "bigint"),
        Column("source"),
        Column("origin"),
        Column("policy"),
        Column("environment"),
        Column("parent"),
        Column("tools", "bigint"),
        Column("end"),
        Column("verdict"),
        Column("judged", "bigint"),
        Column("judged_by"),
        Column("success", "bigint"),
        Column("reward", "double precision"),
        Column("progress", "double precision"),
        Column("steps", "bigint"),
        Column("calls", "bigint"),
        Column("errors", "bigint"),
        Column("prompt_tokens", "bigint"),
        Column("completion_tokens", "bigint"),
        Column("thinking_tokens", "bigint"),
        Column("cost", "double precision"),
        Column("latency_ms", "double precision"),
        Column("sampled", "bigint[]"),
        Column("scored", "bigint"),
        Column("plan", "text[]"),
        Column("retracted", "boolean"),
        Column("last_position", "bigint"),
    )
    indexes = ('"group"', "task")

    _encode = msgspec.msgpack.Encoder().encode
    _decode = msgspec.msgpack.Decoder(State).decode

    def initial(self, stream: str) -> State:
        return State(stream.removeprefix(PREFIX))

    def apply(self, state: State, event: StoredEvent) -> State:
        state.last_position = event.position
        payloads.apply(_HANDLERS, state, event)
        return state

    def rows(self, state: State, after: int) -> Iterable[Row]:
        if not state.started:
            return
        yield (
            state.episode,
            state.started,
            state.split,
            state.group,
            state.task,
            state.rollout,
            state.attempt,
            state.source,
            state.origin,
            state.policy,
            state.environment,
            state.parent,
            state.tools,
            state.end,
            state.verdict,
            state.judged,
            state.judged_by,
            SUCCESS.get(state.verdict),
            state.reward,
            state.progress,
            state.steps,
            state.called,
            state.errors,
            state.prompt_tokens,
            state.completion_tokens,
            state.thinking_tokens,
            _total(state.costs),
            _total(state.latencies),
            state.sampled,
            state.scored,
            [clip(name) for name in state.plan],
            state.retracted,
            state.last_position,
        )

    def dump(self, state: State) -> bytes:
        return self._encode(state)

    def load(self, data: bytes) -> Any:
        return self._decode(data)


def _total(parts: list[float]) -> float | None:
    """The sum, the same in whatever batches it came; None if there was nothing, or too much."""
    try:
        return fsum(parts) if parts else None
    except OverflowError:
        return None


ROLLOUT: Final = Rollout()
