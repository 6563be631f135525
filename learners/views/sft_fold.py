"""The fold of `sft_row`: a passing episode of the split train, as references to its conversation's events."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec

from core.event import StoredEvent
from eventlog.projection import Column, Row
from eventlog.views import PREFIX, payloads
from eventlog.views.calls import clip
from learners.views import SFT_ROWS, marks, reads
from learners.views.conversation import Conversation
from learners.views.reads import Answered, Curated, Marked, Responded, Said, Started, Submitted, Verified

if TYPE_CHECKING:
    pass


class State(msgspec.Struct, array_like=True, gc=False):
    """An episode so far; versions are 0 until there is such an event."""

    episode: str
    started: int = 0
    split: str = "train"
    task: str | None = None
    group: str | None = None
    source: str = "live"
    origin: str = "model"
    policy: str | None = None
    environment: str | None = None
    parent: str | None = None
    tools: int | None = None
    verdict: str = "unverified"
    judged_by: str | None = None
    reward: float | None = None
    judged: int = 0
    curated: str | None = None
    curated_at: int = 0
    retracted: bool = False
    last_step: int = 0
    steps: int = 0
    tokens: int | None = None
    completion_tokens: int | None = None
    said: Conversation = msgspec.field(default_factory=Conversation)
    marked: marks.Marks = {}


def _on_started(state: State, event: StoredEvent, start: Started) -> None:
    if state.started:
        return
    state.started = event.version
    state.split = clip(start.split)
    state.task = start.task and clip(start.task)
    state.group = start.group and clip(start.group)
    state.source = clip(start.origin.format) if start.origin is not None else "live"
    state.origin = reads.origin_of(start)
    state.policy = start.policy and clip(start.policy)
    state.environment = start.environment and clip(start.environment)
    state.parent = None if start.parent is None else start.parent.stream
    state.tools = None if start.tools is None else len(start.tools)


def _on_said(state: State, event: StoredEvent, said: Said) -> None:
    state.said.say(event, said)


def _on_responded(state: State, event: StoredEvent, turn: Responded) -> None:
    state.said.respond(event, turn)
    if turn.copied:
        return
    if turn.step > state.last_step:
        state.last_step = turn.step
        state.steps += 1
    if turn.usage is not None:
        total, written = turn.usage.total, turn.usage.completion_tokens
        if total is not None:
            state.tokens = max(state.tokens or 0, total)
        if written is not None:
            state.completion_tokens = (state.completion_tokens or 0) + written


def _on_submitted(state: State, event: StoredEvent, submitted: Submitted) -> None:
    state.said.submit(event, submitted)


def _on_answered(state: State, event: StoredEvent, answered: Answered) -> None:
    state.said.answer(event, answered)


def _on_verified(state: State, event: StoredEvent, verified: Verified) -> None:
    if state.judged_by == "human" and verified.source != "human":
        return
    state.judged_by = clip(verified.source)
    state.judged = event.version
    state.verdict = clip(verified.verification.verdict)
    if verified.verification.reward is not None:
        state.reward = verified.verification.reward


def _on_marked(state: State, event: StoredEvent, marked: Marked) -> None:
    marks.add(state.marked, event.version, marked)


def _on_curated(state: State, event: StoredEvent, curated: Curated) -> None:
    state.curated = clip(curated.decision)
    state.curated_at = event.version


def _on_retracted(state: State, event: StoredEvent, retracted: payloads.Retracted) -> None:
    state.retracted = True


_HANDLERS = payloads.handlers(
    ("EpisodeStarted", Started, _on_started),
    ("MessageRecorded", Said, _on_said),
    ("ModelResponded", Responded, _on_responded),
    ("ActionSubmitted", Submitted, _on_submitted),
    ("FeedbackRecorded", Answered, _on_answered),
    ("VerificationRecorded", Verified, _on_verified),
    ("TurnMarked", Marked, _on_marked),
    ("EpisodeCurated", Curated, _on_curated),
    ("EpisodeRetracted", payloads.Retracted, _on_retracted),
)


READS: Final = reads.schemas(_HANDLERS)


class Fold:
    """The fold. `started` is the version of EpisodeStarted, where the tools' schemas are."""

    name, version, prefix, _ = SFT_ROWS
    key = ("episode",)
    logical: Sequence[Column] = (
        Column("episode"),
        Column("started", "bigint"),
        Column("task"),
        Column("group"),
        Column("source"),
        Column("origin"),
        Column("policy"),
        Column("environment"),
        Column("judged_by"),
        Column("reward", "double precision"),
        Column("steps", "bigint"),
        Column("supervised", "bigint"),
        Column("marked", "bigint"),
        Column("recovered", "bigint"),
        Column("copied", "bigint"),
        Column("errors", "bigint"),
        Column("tokens", "bigint"),
        Column("completion_tokens", "bigint"),
        Column("tools", "bigint"),
        Column("plan", "text[]"),
        Column("content", "bytea"),
        Column("part_kind", "text[]"),
        Column("part_version", "bigint[]"),
        Column("part_step", "bigint[]"),
        Column("part_of", "bigint[]"),
        Column("part_trains", "boolean[]"),
    )
    columns: Sequence[Column] = (
        *logical,
        Column("split"),
        Column("parent"),
        Column("curated"),
        Column("late", "bigint[]"),
    )
    indexes = ()
    gives_all = True

    _encode = msgspec.msgpack.Encoder().encode
    _decode = msgspec.msgpack.Decoder(State).decode

    def initial(self, stream: str) -> State:
        return State(stream.removeprefix(PREFIX))

    def apply(self, state: State, event: StoredEvent) -> State:
        payloads.apply(_HANDLERS, state, event)
        return state

    def rows(self, state: State, after: int) -> Iterable[Row]:
        if not state.started or state.split != "train" or state.verdict != "pass" or state.retracted:
            return
        masked, recovered = marks.erroneous(state.marked), marks.recoveries(state.marked)
        parts = list(state.said.parts(masked))
        turns = [message for message in state.said.messages if message.kind == "assistant" and message.step]
        generated = [turn.step for turn in turns if turn.generated]
        ruling = [mark.version for step in state.marked for mark in marks.ruling(state.marked, step)]
        late = [version for version in (state.judged, state.curated_at, *ruling) if version]
        yield (
            state.episode,
            state.started,
            state.task,
            state.group,
            state.source,
            state.origin,
            state.policy,
            state.environment,
            state.judged_by,
            state.reward,
            state.steps,
            sum(step not in masked for step in generated),
            sum(step in masked for step in generated),
            sum(step in recovered for step in generated),
            sum(not turn.generated for turn in turns if turn.version),
            state.said.errors,
            state.tokens,
            state.completion_tokens,
            state.tools,
            [clip(name) for name in state.said.plan],
            state.said.content,
            [part.kind for part in parts],
            [part.version for part in parts],
            [part.step for part in parts],
            [part.of for part in parts],
            [part.trains for part in parts],
            state.split,
            state.parent,
            state.curated,
            sorted(late),
        )

    def dump(self, state: State) -> bytes:
        return self._encode(state)

    def load(self, data: bytes) -> Any:
        return self._decode(data)


SFT_FOLD: Final = Fold()
