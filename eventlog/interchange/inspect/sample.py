"""A sample of an Inspect log as an episode.

Its events tell it where it has some: model calls are steps, tool events answer their calls; each
prompt repeats the conversation, of which only what is new is recorded. A log without events is told
by its messages. Model calls of a scorer judge the episode and are no part of it. Scores are quoted
as external checks.
"""

from collections.abc import Callable, Iterable
from hashlib import sha256
from itertools import chain, repeat
from typing import Any, NamedTuple

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from core import times
from core.errors import BadEvent
from core.vocabulary import BlobRef
from core.vocabulary.base import MaybeRaw
from core.vocabulary.contract import (
    AgentError,
    Budget,
    BudgetExhausted,
    Cancelled,
    Effect,
    End,
    ErrorClass,
    ExecError,
    Feedback,
    Finished,
    ToolCall,
    ToolResult,
)
from core.vocabulary.episode import EpisodeEnded, EpisodeStarted, NoteAdded, Role, ToolSpec
from eventlog.interchange.draft import EpisodeDraft, EventDraft
from eventlog.interchange.inspect.fields import (
    Attachments,
    goal_of,
    inner,
    is_empty,
    is_same,
    is_within,
    logprobs_of,
    note_of,
    sandbox_of,
    specs_of,
    usage_of,
)
from eventlog.interchange.inspect.log import Log, log_of
from eventlog.interchange.inspect.messages import plain_message
from eventlog.interchange.inspect.scores import scores_of, verification
from eventlog.interchange.mapping import images
from eventlog.interchange.mapping.extras import extended, raw
from eventlog.interchange.mapping.messages import Fields, joined, tool_value
from eventlog.interchange.mapping.said import message
from eventlog.interchange.mapping.turns import NULL, Conversation, Said, short, text_of

Keep = Callable[[bytes], BlobRef]

_encode = msgspec.json.encode
_RAWS = list[Raw]
_TEXTS = dict[str, str]
_REFS = list[tuple[int, int]]
_NAME = int | str
_OBJECT = dict[str, Raw]
_object = msgspec.json.Decoder(dict[str, Raw]).decode
_list = msgspec.json.Decoder(list[Raw]).decode
_whole = msgspec.json.Decoder().decode
_LIMITS: dict[str, Budget] = {
    "message": "steps",
    "turn": "steps",
    "token": "tokens",
    "context": "tokens",
    "time": "wall",
    "working": "wall",
    "cost": "money",
}
_ERRORS: dict[str, tuple[ErrorClass, Effect]] = {
    "parsing": ("schema", "none"),
    "timeout": ("timeout", "unknown"),
    "permission": ("permission", "unknown"),
    "approval": ("permission", "none"),
    "file_not_found": ("not_found", "unknown"),
    "is_a_directory": ("precondition", "unknown"),
    "sandbox_unavailable": ("transport_lost", "unknown"),
}
_STRUCTURE = ("uuid", "event", "timestamp", "completed", "working_start", "span_id", "pending", "type", "message_id")
_REPEATED = (*_STRUCTURE, "input", "input_refs", "tools")
_UNHEARD: Iterable[tuple[Raw, list[Said]]] = repeat((NULL, []))
_SILENT = [Said("assistant")]
_SPAN_EVENTS = frozenset({"span_begin", "span_end", "step", "sample_init", "score"})


class _Event(msgspec.Struct):
    """What every event says of itself. Events of older logs lie in steps, not in spans."""

    event: str = ""
    timestamp: str | None = None
    completed: str | None = None
    span_id: str | None = None
    id: Any = None
    parent_id: str | None = None
    type: str | None = None
    action: str | None = None
    error: Any = None
    pending: bool | None = None


class _Told(NamedTuple):
    """An event in its place: told by when it was over, then by its place in the log."""

    at: int | None
    place: int
    head: _Event
    data: Raw


_head = msgspec.json.Decoder(_Event).decode


def episode(data: bytes, log: Raw, where: str, keep: Keep, header: bytes | None) -> EpisodeDraft:
    """The episode of a sample; `log` is what its record says of the log, `header` the whole header."""
    return _Sample(Fields(data, where), log_of(bytes(log)), keep, header).draft


class _Sample:
    """A sample, being turned into a draft."""

    def __init__(self, sample: Fields, log: Log, keep: Keep, header: bytes | None) -> None:
        self.sample = sample
        self.keep = keep
        self.log = log
        self.draft = EpisodeDraft()
        self.unmapped = self.draft.unmapped
        old = inner(sample, "transcript")
        texts = (sample.take("attachments", _TEXTS) or {}) | (old.take("content", _TEXTS) or {})
        self.attachments = Attachments(texts, sample.where, self.unmapped)
        self.read: dict[bytes, list[Said]] = {}
        self.heard: list[tuple[Raw, list[Said]]] = []
        self.told = Conversation(self.draft)
        self.model = log.model
        self.tools: list[ToolSpec] | None = None
        pool = inner(sample, "events_data")
        self.pool = pool.take("messages", _RAWS) or []
        pool.raw("calls")
        self.events = [*(sample.take("events", _RAWS) or []), *(old.take("events", _RAWS) or [])]
        messages = sample.take("messages", _RAWS) or []
        self.scored_at: int | None = None
        if not (self.events and self._tell_events()):
            self._tell_messages(messages)
        self._finish(header)

    def _tell_events(self) -> bool:
        """Tell what happened by the events; False if no model call is among them."""
        told = self._in_order()
        if not any(each.head.event == "model" for each in told):
            return False
        for each in told:
            if each.head.event == "model":
                self._model(each)
            elif each.head.event == "tool":
                self._tool(each)
        return True

    def _in_order(self) -> list[_Told]:
        """The events that are the episode's, those of its scorers left out."""
        told: list[_Told] = []
        spans: dict[str, tuple[str | None, str | None]] = {}
        steps: list[str | None] = []
        for place, data in enumerate(self.events):
            try:
                head = _head(data)
            except msgspec.ValidationError as error:
                raise self.sample.fault(f"events[{place}]: {error}") from None
            if head.event == "span_begin" and isinstance(head.id, str):
                spans[head.id] = head.parent_id, head.type
            elif head.event == "step":
                steps = [*steps, head.type] if head.action == "begin" else steps[:-1]
            judging = "scorer" in steps or is_within(head.span_id, spans, ("scorers", "scorer"))
            if head.event == "score" and not msgspec.json.decode(data).get("intermediate"):
                self.scored_at = self._time(head.timestamp)
            if head.event in ("model", "tool") and not judging and not self._failed(head, data):
                at = self._time(head.completed) or self._time(head.timestamp)
                told.append(_Told(at, place, head, data))
            elif head.event not in _SPAN_EVENTS:
                kind = f"event {head.event[:40]}"
                if head.event == "model":
                    kind = "model call of a scorer" if judging else "model call that failed"
                self.unmapped[f"{kind}: kept in the record"] += 1
        if all(each.at is not None for each in told):
            told.sort(key=lambda each: (each.at, each.place))
        return told

    def _failed(self, head: _Event, data: Raw) -> bool:
        """Whether a model call failed, or did not end: it is no turn."""
        if head.event != "model" or (not head.error and not head.pending):
            return False
        output = _object(_object(data).get("output", Raw(b"{}")))
        choices = [_object(choice).get("message", NULL) for choice in _list(output.get("choices", b"[]"))]
        return not any(said.text or said.calls for choice in choices for said in self._messages(choice, "assistant"))

    def _model(self, told: _Told) -> None:
        event = Fields(told.data, self.sample.where, "events[].model")
        begun, at = self._time(told.head.timestamp), told.at
        prompt = self._prompt(event)
        if self.tools is None:
            self.tools = specs_of(event)
        self.told.hear(prompt, begun)
        if event.raw("call") is not None:
            self.unmapped["events[].model.call: kept in the record"] += 1
        for name in _REPEATED:
            event.raw(name)
        output = inner(event, "output")
        choices = output.take("choices", _RAWS) or []
        output.raw("completion")
        choice = Fields(choices[0] if choices else NULL, self.sample.where, "events[].model.output.choices[]")
        said = (self._messages(choice.raw("message") or NULL, "assistant") or _SILENT)[0]
        model = output.take("model", str) or event.peek("model", str)
        event.drop("model", model)
        logprobs = choice.peek("logprobs", _OBJECT)
        sampling = (event.take("config", _OBJECT) or {}) | {"tool_choice": event.raw("tool_choice") or NULL}
        usage, cost = usage_of(output)
        seconds = output.take("time", float)
        latency = None if seconds is None else seconds * 1000
        if latency is None and begun is not None and at is not None and told.head.completed:
            latency = (at - begun) / 1000
        finish = choice.take("stop_reason", str)
        more = Raw(_encode(choices[1:])) if len(choices) > 1 else None
        if more is not None:
            self.unmapped["events[].model.output.choices: further ones kept in extra"] += len(choices) - 1
        self.told.respond(
            said,
            at,
            model=model,
            usage=usage,
            cost=cost,
            finish_reason="error" if told.head.error and finish is None else finish,
            latency_ms=latency,
            sampling=joined({name: value for name, value in sampling.items() if not is_empty(value)}),
            logprobs=logprobs_of(logprobs),
            extra=extended(said.extra, event=raw(self._rest(event)), choice=raw(self._rest(choice)), choices=more),
        )

    def _tool(self, told: _Told) -> None:
        event = Fields(told.data, self.sample.where, "events[].tool")
        call_id, tool = event.take("id", str), event.take("function", str) or "tool"
        arguments = self.attachments.put_in(event.raw("arguments") or NULL)
        if told.head.pending:
            self.unmapped["tool call that was still running: kept in the record"] += 1
            return
        begun, at = self._time(told.head.timestamp), told.at
        asked = self.told.waiting(call_id)
        if asked is None:
            self.told.submit(ToolCall(tool=tool, args=arguments, call_id=call_id), begun)
        differing = arguments if asked is not None and not is_same(asked.args, arguments) else None
        result, error = self.attachments.put_in(event.raw("result") or NULL), inner(event, "error")
        latency = (at - begun) / 1000 if begun is not None and at is not None and told.head.completed else None
        for name in _STRUCTURE:
            event.raw(name)
        event.drop("events", [])
        if event.raw("events") is not None:
            self.unmapped["events[].tool.events: kept in the record"] += 1
        feedback = self._feedback(result, error)
        extra = extended(self._rest(event), arguments=differing)
        self.told.answer(feedback, at, call_id=call_id, tool=tool, latency_ms=latency, extra=extra)

    def _feedback(self, result: Raw, error: Fields) -> Feedback:
        kind = error.take("type", str)
        if kind is None:
            return ToolResult(tool_value(images.kept(result, self.keep, self.sample.fault)))
        class_, effect = _ERRORS.get(kind, ("precondition", "unknown"))
        message_ = error.take("message", str) or text_of(result)
        if kind == "parsing" and message_ and message_.endswith("not found"):
            class_ = "unknown_tool"
        return ExecError(class_, retryable=False, effect=effect, message=message_)

    def _tell_messages(self, messages: list[Raw]) -> None:
        """Tell what was said, where nothing else is known."""
        for each in messages:
            for said in self._messages(each):
                if said.role == "assistant":
                    self.told.respond(said, None, model=self.model)
                else:
                    self.told.record(said, None)

    def _prompt(self, event: Fields) -> list[Said]:
        """The messages of a prompt, looked up where it only names them. Most stand where they stood in
        the one before."""
        prompt: list[Raw] = event.peek("input", _RAWS) or []
        for first, end in event.peek("input_refs", _REFS) or []:
            if not 0 <= first <= end <= len(self.pool):
                raise event.fault(f"input_refs: [{first}, {end}] is not in the pool of {len(self.pool)} messages")
            prompt += self.pool[first:end]
        self.heard = [
            (each, said if each == before else self._messages(each))
            for each, (before, said) in zip(prompt, chain(self.heard, _UNHEARD), strict=False)
        ]
        return [said for _, several in self.heard for said in several]

    def _messages(self, data: Raw, speaker: Role = "user") -> list[Said]:
        """A message, its attachments put in; several where it holds the answers of several tools. A
        prompt repeats those before it, so each is read once."""
        text = bytes(data)
        said = self.read.get(text)
        if said is None:
            said = self.read[text] = self._read(text, speaker)
        return said

    def _read(self, data: bytes, speaker: Role) -> list[Said]:
        if data == b"null":
            return []
        text = self.attachments.put_in_text(data)
        if (only := plain_message(text)) is not None:
            return [only]
        fields = _object(text)
        id_ = fields.pop("id", NULL)
        if "content" in fields:
            fields["content"] = images.kept(fields["content"], self.keep, self.sample.fault)
        error, tool = fields.pop("error", NULL), fields.pop("function", None)
        fields.pop("model", None)
        feedback = None
        if error != NULL:
            failed = Fields(error, self.sample.where, "messages[].error")
            feedback = self._feedback(fields.get("content", NULL), failed)
        named = None if id_ == NULL else str(msgspec.json.decode(id_))
        made = []
        for said in message(fields, speaker):
            extra = extended(said.extra, function=tool) if said.role == "tool" and not said.call_id else said.extra
            plain = named is None and feedback is None and extra is said.extra
            made.append(said if plain else replace(said, id=named, feedback=feedback, extra=extra))
        return made

    def _finish(self, header: bytes | None) -> None:
        sample = self.sample
        name, epoch = sample.take("id", _NAME), sample.take("epoch", int)
        if name is None:
            raise sample.fault("id is missing: this is no sample of an Inspect log")
        task = f"{self.log.task}/{name}"
        put_in = self.attachments.put_in
        given = put_in(sample.raw("input") or NULL)
        about = {key: put_in(value) for key in _TASK if (value := sample.raw(key)) and not is_empty(value)}
        self.draft.left([f"{key}: kept in extra" for key in about])
        asked = _whole(_encode({"input": given} | about))
        digest = sha256(msgspec.json.encode(asked, order="sorted")).hexdigest()
        started_at = self._time(sample.take("started_at", str))
        completed_at = self._time(sample.take("completed_at", str))
        attempt = self._attempt()
        judged = verification(scores_of(sample), self.log.accuracies, sample.where)
        note = note_of(inner(sample, "invalidation"))
        self._end(completed_at)
        if judged is not None:
            self.draft.add(judged, occurred_at=self.scored_at or completed_at, actor="verifier")
        if note is not None:
            self.draft.add(NoteAdded(note), actor="reviewer")
        kept = {} if header is None else {"log": Raw(_encode(self.keep(header)))}
        started = EpisodeStarted(
            task=task,
            goal=short(goal_of(given) or self.told.goal),
            group=f"{task}/{digest[:12]}",
            rollout=epoch,
            attempt=attempt,
            policy=self.model,
            backend=sandbox_of(about.get("sandbox")),
            environment="inspect",
            task_digest=f"sha256:{digest}",
            seeds=self.log.seeds,
            versions=self.log.versions,
            tools=self.tools or None,
            extra=joined(kept | about),
        )
        self.draft.events[0] = EventDraft(started, started_at)

    def _attempt(self) -> int:
        """Which try this is: errors that were retried are tries before it."""
        retried = self.sample.take("error_retries", _RAWS) or []
        if retried:
            self.unmapped["error_retries: counted as attempts, kept in the record"] += len(retried)
        return 1 + len(retried)

    def _end(self, at: int | None) -> None:
        sample = self.sample
        error, limit = inner(sample, "error"), inner(sample, "limit")
        end: End = Finished()
        if error.verbatim is not None:
            message_ = short(error.peek("message", str))
            end = AgentError(message_)
            error.drop("message", message_)
            error.raw("traceback_ansi")
        elif limit.verbatim is not None:
            kind = limit.take("type", str) or ""
            budget = _LIMITS.get(kind)
            end = BudgetExhausted(budget) if budget else _stopped(limit, kind)
        if sample.raw("output") is not None and not self.told.step:
            self.unmapped["output: kept in the record"] += 1
        for name in _EMPTY_FIELDS:
            if (held := sample.get(name)) is not None and _whole(held) in ({}, []):
                sample.raw(name)
        self.draft.add(EpisodeEnded(end, extra=self._rest(sample)), occurred_at=at)

    def _time(self, text: str | None) -> int | None:
        if text is None:
            return None
        try:
            return times.from_text(text)
        except BadEvent:
            self.unmapped["time without a zone, or none at all: left out"] += 1
            return None

    def _rest(self, fields: Fields) -> MaybeRaw:
        """What could not be mapped: counted, and returned to be kept."""
        rest = fields.rest()
        if isinstance(rest, Raw):
            self.draft.left(fields.unmapped())
        return rest


_TASK = ("description", "choices", "target", "sandbox", "files", "setup", "metadata")
_EMPTY_FIELDS = ("store", "model_usage", "role_usage", "timelines", "model_fallbacks")


def _stopped(limit: Fields, kind: str) -> Cancelled:
    """An end that no budget is the reason of."""
    return Cancelled(short(limit.take("reason", str)) or f"{kind} limit".strip())
