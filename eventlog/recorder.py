"""Records an episode as it happens: every call is durable when it returns.

    with log.episode(task="message-ann", policy="planner-27b") as episode:
        episode.message("user", "Tell Ann that I am on my way")
        episode.model("I will write to her.")
        call = episode.action("send_message", {"to": "Ann", "text": "On my way"})
        episode.feedback(call, send_message(...))   # the action is in the log before it is dispatched
        episode.verify("pass", checks=[Check("sent", "state", "pass")])

Leaving the block ends the episode: `finished`, or `agent_error` if an exception went through it, or
`cancelled` if somebody stopped it. What ended is not thereby a success: only `verify` says that.
Texts over 64 KB and screenshots go to the blob store, before the event that names them.
"""

from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, NamedTuple, Self, get_args

import msgspec
from msgspec import Raw

from core.errors import BadEvent, NotFound, TrajlogError, UsageError, WrongExpectedVersion
from core.event import StoredEvent
from core.identity import uuid7, uuid_text
from core.times import now
from core.vocabulary import BlobRef, Payload
from core.vocabulary import payload as payload_of
from core.vocabulary.base import UNSET, MaybeRaw, Verdict
from core.vocabulary.contract import (
    Action,
    AgentError,
    Cancelled,
    Check,
    End,
    Feedback,
    Finished,
    Observation,
    ToolCall,
    ToolResult,
    Verification,
    Viewport,
)
from core.vocabulary.episode import (
    ActionDispatched,
    ActionSubmitted,
    EpisodeEnded,
    EpisodeStarted,
    FeedbackRecorded,
    MessageRecorded,
    ModelResponded,
    NoteAdded,
    Role,
    Usage,
    VerificationRecorded,
)
from eventlog.blobs import BlobStore
from eventlog.large import body
from eventlog.log import Appended, Log
from eventlog.writer import Writer

_ACTIONS = get_args(Action)
_FEEDBACK = get_args(Feedback)
_WHILE_IT_RUNS = (MessageRecorded, ModelResponded, ActionSubmitted, ActionDispatched, FeedbackRecorded, EpisodeEnded)


class Submitted(NamedTuple):
    """An action that is in the log: what its feedback refers to."""

    step: int
    version: int
    call_id: str | None


class Recorder:
    """One episode being recorded. `id` is its id, `stream` its stream, `step` the last model turn.

    Threads may share it. Any method raises `BadEvent` for what no event may hold, `UsageError` out of
    order, `Unavailable` when the log cannot be reached.
    """

    def __init__(
        self,
        log: Log,
        started: EpisodeStarted,
        *,
        id: str | None = None,
        blobs: BlobStore | str | Path | None = None,
        writer: str = "recorder",
        conversation: str | None = None,
    ) -> None:
        self.id = id or uuid7().hex()
        self.stream = f"episode/{self.id}"
        self.step = 0
        self.begun = self.ended = False
        self._log = log
        self._started = started
        self._blobs = blobs if isinstance(blobs, BlobStore) or blobs is None else BlobStore(blobs)
        self._writer = Writer(writer)
        self._conversation = conversation

    def __enter__(self) -> Self:
        self.begun = True
        self.event(self._started, expected_version=0)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.ended:
            return
        if error is None:
            self.end()
            return
        text = f"{type(error).__name__}: {error}"
        try:
            # what is no Exception stops a program: KeyboardInterrupt, SystemExit, asyncio.CancelledError
            self.end(AgentError(text) if isinstance(error, Exception) else Cancelled(text))
        except TrajlogError as lost:
            error.add_note(f"trajlog could not record the end of {self.stream}: {lost}")

    def message(self, role: Role, content: Any, *, name: str | None = None, extra: Any = UNSET) -> Appended:
        """Something entered the conversation: a text, a list of parts, or None."""
        said = MessageRecorded(role, _raw(content), name=name, step=self.step or None, extra=_maybe(extra))
        return self.event(said, actor="user" if role == "user" else None)

    def model(
        self,
        content: str | None = None,
        *,
        thought: str | None = None,
        model: str | None = None,
        usage: Usage | None = None,
        finish_reason: str | None = None,
        latency_ms: float | None = None,
        sampling: Any = UNSET,
        extra: Any = UNSET,
    ) -> int:
        """The model answered: a new step begins. Returns its number."""
        self.event(
            ModelResponded(
                self.step + 1,
                content=content,
                thought=thought,
                model=model,
                usage=usage,
                finish_reason=finish_reason,
                latency_ms=latency_ms,
                sampling=_maybe(sampling),
                extra=_maybe(extra),
            ),
            actor="planner",
        )
        self.step += 1
        return self.step

    def action(
        self, action: Action | str, args: Any = None, *, call_id: str | None = None, step: int | None = None
    ) -> Submitted:
        """The agent decided on an action: a struct of the contract, or a tool's name with its arguments.
        A `str` or `bytes` of arguments is their JSON, kept verbatim."""
        if not isinstance(action, _ACTIONS):
            action = _tool_call(str(action), args, call_id)
        step = step or max(1, self.step)
        answer = self.event(ActionSubmitted(step, action), actor="planner")
        return Submitted(step, answer.version, getattr(action, "call_id", None))

    def dispatched(self, submitted: Submitted) -> Appended:
        """The action left for where it is carried out."""
        return self.event(ActionDispatched(submitted.step, submitted.call_id), actor="executor")

    def feedback(
        self,
        submitted: Submitted,
        value: Any,
        *,
        state_before: str | None = None,
        state_after: str | None = None,
        latency_ms: float | None = None,
        extra: Any = UNSET,
    ) -> Appended:
        """What came back for an action: a struct of the contract, or the value that a tool returned."""
        return self.event(
            FeedbackRecorded(
                submitted.step,
                value if isinstance(value, _FEEDBACK) else ToolResult(_raw(value)),
                call_id=submitted.call_id,
                action=submitted.version,
                state_before=state_before,
                state_after=state_after,
                latency_ms=latency_ms,
                extra=_maybe(extra),
            ),
            actor="executor",
        )

    def observation(
        self,
        *seen: bytes,
        answers: Submitted | None = None,
        text: str | None = None,
        flags: Sequence[str] = (),
        viewport: Viewport | None = None,
        app: str | None = None,
        latency_ms: float | None = None,
    ) -> Appended:
        """Screenshots and UI trees, as bytes; what an action brought back, if `answers` names it."""
        observation = Observation(
            blobs=[self.keep(data) for data in seen], flags=list(flags), viewport=viewport, app=app, text=text
        )
        if answers is not None:
            return self.feedback(answers, observation, latency_ms=latency_ms)
        return self.event(FeedbackRecorded(max(1, self.step), observation, latency_ms=latency_ms), actor="executor")

    def note(self, text: str, *, target: int | None = None) -> Appended:
        """A remark, about the event of version `target` if given."""
        return self.event(NoteAdded(text, target))

    def end(self, end: End | None = None, *, extra: Any = UNSET) -> Appended:
        """The episode is over (default: `Finished`). States the last number of every run in it."""
        runs = {}
        own = self._writer.last_seq(self.stream)
        if not self._log.direct or self._log.stream_head(self.stream) != own:  # others wrote to it too
            runs = {uuid_text(event.run): event.seq for event in self._log.read(self.stream)}
        seq = own + 1
        runs[uuid_text(self._writer.run)] = seq
        answer = self.event(EpisodeEnded(end or Finished(), runs, _maybe(extra)))
        self.ended = True
        return answer

    def verify(
        self,
        verdict: Verdict,
        *,
        checks: Sequence[Check] = (),
        progress: float | None = None,
        reward: float | None = None,
        verifier_digest: str | None = None,
        source: Literal["machine", "human", "import"] = "machine",
        why: str | None = None,
    ) -> Appended:
        """A judgement, before or after the end. A machine's `pass` rests on at least one check."""
        if verdict == "pass" and source == "machine" and not checks:
            raise UsageError("a pass without a check says nothing", where="verify", mend="give its checks")
        judged = Verification(verdict, list(checks), verifier_digest=verifier_digest, progress=progress, reward=reward)
        return self.event(VerificationRecorded(judged, source, why), actor="verifier")

    def keep(self, data: bytes, media_type: str | None = None) -> BlobRef:
        """Store bytes in the blob store."""
        if self._blobs is None:
            if self._log.blobs is None:
                raise UsageError("this log has no blob store", mend="give the recorder one: blobs=FOLDER")
            self._blobs = BlobStore(self._log.blobs)
        return self._blobs.put(data, media_type)

    def event(self, payload: Payload, /, *, occurred_at: int | None = None, **envelope: Any) -> Appended:
        """Any event of the vocabulary, in this episode's stream."""
        if not self.begun:
            raise UsageError("the episode has not begun", where=self.stream, mend="use it in a with block")
        if self.ended and isinstance(payload, _WHILE_IT_RUNS):
            raise UsageError("the episode has ended", where=self.stream, mend="only judge it or add notes")
        event = self._writer.raw(
            self.stream,
            type(payload).__name__,
            body(payload, self.keep),
            schema=payload.schema_number,
            occurred_at=now() if occurred_at is None else occurred_at,
            conversation=self._conversation,
            **envelope,
        )
        try:
            return self._log.append(event)
        except (BadEvent, WrongExpectedVersion):
            self._writer.refused(event)
            raise

    def resume(self) -> list[StoredEvent]:
        """Go on with an episode that a killed process left open, as a run of its own; returns what it
        holds. Use it instead of the with block. `NotFound` if it never began, `UsageError` if it ended."""
        events = list(self._log.read(self.stream))
        if not any(event.type == "EpisodeStarted" for event in events):
            raise NotFound("no such episode was ever begun", where=self.stream)
        if any(event.type == "EpisodeEnded" for event in events):
            raise UsageError("the episode has ended", where=self.stream, mend="only judge it or add notes")
        steps = [said.step for event in events if isinstance(said := payload_of(event), ModelResponded)]
        self.step = max(steps, default=0)
        self.begun = True
        return events


def record(
    log: Log,
    *,
    id: str | None = None,
    blobs: BlobStore | str | Path | None = None,
    writer: str = "recorder",
    conversation: str | None = None,
    **started: Any,
) -> Recorder:
    """Record an episode: a context manager. `started` are the fields of `EpisodeStarted`: task, goal,
    group, rollout, policy, backend, environment, split, …; `id` defaults to a new one; `blobs` to the
    log's own blob store; `writer` names who writes. `WrongExpectedVersion` if the episode exists."""
    return Recorder(log, EpisodeStarted(**started), id=id, blobs=blobs, writer=writer, conversation=conversation)


def _tool_call(tool: str, args: Any, call_id: str | None) -> ToolCall:
    if isinstance(args, str | bytes):
        data = args.encode() if isinstance(args, str) else args
        try:
            msgspec.json.decode(data)
        except (ValueError, RecursionError):
            return ToolCall(tool, Raw(b"null"), call_id, args_text=data.decode(errors="replace"))
        return ToolCall(tool, Raw(data), call_id)
    return ToolCall(tool, _raw(args), call_id)


def _raw(value: Any) -> Raw:
    """The value as JSON; `Raw` is JSON already."""
    if isinstance(value, Raw):
        return value
    if isinstance(value, bytes | bytearray | memoryview):
        raise BadEvent("bytes are no JSON", mend="record them with observation()")
    try:
        return Raw(msgspec.json.encode(value))
    except (ValueError, TypeError, OverflowError, RecursionError) as error:
        raise BadEvent(f"cannot be written as JSON: {error}") from error


def _maybe(value: Any) -> MaybeRaw:
    return UNSET if value is UNSET else _raw(value)
