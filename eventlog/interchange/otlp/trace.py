"""The spans of one trace, or of one conversation, as an episode.

Model calls are steps; what an agent or workflow span says is said by the model calls inside it, so it
counts as a step only where there are none. Tool spans answer the call of their id, or are calls of
their own. Events are told in the order in which things ended: a model call when its answer was whole,
a tool when it gave its result. Whatever has no place is kept in `extra` as it was written.
"""

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache

import msgspec
from msgspec import Raw

from core.errors import BadRecord
from core.vocabulary.base import UNSET, MaybeRaw
from core.vocabulary.contract import (
    AgentError,
    Check,
    Finished,
    ToolCall,
)
from core.vocabulary.episode import EpisodeEnded, EpisodeStarted, ToolSpec
from eventlog.interchange.draft import EpisodeDraft, EventDraft
from eventlog.interchange.mapping import verdicts
from eventlog.interchange.mapping.extras import extended
from eventlog.interchange.mapping.points import Point, play
from eventlog.interchange.mapping.said import Known, messages
from eventlog.interchange.mapping.specs import specs_of
from eventlog.interchange.mapping.turns import Conversation, Said, fitting, short
from eventlog.interchange.otlp.genai import (
    Keep,
    finish_of,
    json_of,
    prompt_and_answer,
    result_of,
    sampling_of,
    tool_of,
    usage_of,
)
from eventlog.interchange.otlp.json import Entry, ids_of, merged
from eventlog.interchange.otlp.span import Attributes, Happened, Span

_encode = msgspec.json.encode
_MODEL = frozenset({"chat", "text_completion", "generate_content"})
_AGENT = frozenset({"invoke_agent", "create_agent", "invoke_workflow"})
_DIGITS = re.compile(r"(?<=\.)\d+(?=\.|$)")
_OPERATION = "gen_ai.operation.name"
_CONVERSATION = "gen_ai.conversation.id"
_EVALUATION = "gen_ai.evaluation.result"


def episode(found: Iterable[Entry], where: str, keep: Keep) -> EpisodeDraft:
    """The episode that these spans and log records tell."""
    return _Episode(found, where, keep).draft


class _Episode:
    def __init__(self, found: Iterable[Entry], where: str, keep: Keep) -> None:
        self.draft = EpisodeDraft()
        self.unmapped = self.draft.unmapped
        self.keep = keep
        self.contexts: dict[bytes, int] = {}
        self.context_of: dict[int, int] = {}
        self.spans: dict[tuple[bytes, bytes], Span] = {}
        self.kept: list[Raw] = []
        self.policy: str | None = None
        self.tools: list[ToolSpec] | None = None
        self.checks: list[tuple[Check, Happened]] = []
        self.conversation_id: str | None = None
        logs = [self._log(entry, where) for entry in found if not self._span(entry, where)]
        self._attach(logs)
        self.children: dict[tuple[bytes, bytes], list[Span]] = {}
        for span in self.spans.values():
            if span.parent:
                self.children.setdefault((span.trace, span.parent), []).append(span)
        self.told = Conversation(self.draft)
        self.known: Known = {}
        self._tell()

    def _span(self, entry: Entry, where: str) -> bool:
        """Take a span; False if the entry is a log record."""
        if entry.is_log:
            return False
        span = Span(entry.data, where)
        known = self.spans.get((span.trace, span.id))
        if known is not None:
            self.unmapped["span repeated with other content: the one that ended last counts"] += 1
            if (known.end or 0) >= (span.end or 0):
                return True
        self.spans[span.trace, span.id] = span
        self.context_of[id(span)] = self.contexts.setdefault(entry.context, len(self.contexts))
        return True

    def _log(self, entry: Entry, where: str) -> tuple[Entry, Happened, bytes]:
        self.contexts.setdefault(entry.context, len(self.contexts))
        try:
            _, span = ids_of(entry.data)
            return entry, Happened(entry.data, where, is_log=True), span
        except ValueError as error:
            raise BadRecord(f"log record: {error}", where=where) from None

    def _attach(self, logs: list[tuple[Entry, Happened, bytes]]) -> None:
        """Give log records to the spans they name; the others are kept."""
        by_id = {span.id: span for span in self.spans.values()}
        for entry, record, span_id in logs:
            owner = by_id.get(span_id)
            if owner is not None:
                owner.events.append(record)
            elif record.name == _EVALUATION:
                self._judge(record)
            else:
                self._keep(entry.data, self.contexts[entry.context])
                self.unmapped[f"log record {record.name[:60] or 'without a name'}: kept in extra"] += 1

    def _tell(self) -> None:
        play(self._points())
        self._end()
        self._judged()
        begun = min((span.began_at for span in self.spans.values() if span.began_at is not None), default=None)
        started = EpisodeStarted(
            goal=short(self.told.goal),
            policy=self.policy,
            environment=next(filter(None, map(_service, self.contexts)), None),
            tools=self.tools,
            extra=self._extra(),
        )
        self.draft.events[0] = EventDraft(started, begun, conversation=self.conversation_id)

    def _points(self) -> Iterator[Point]:
        turns: dict[str, list[int]] = {}
        models = [span for span in self.spans.values() if self._is_model(span)]
        answered = {(span.trace, span.id): self._prompt_and_answer(span) for span in models}
        for span in models:
            _, out = answered[span.trace, span.id]
            for call in out[0].calls if out else ():
                if call.call_id:
                    turns.setdefault(call.call_id, []).append(span.end or span.start or 0)
        for order, span in enumerate(self.spans.values()):
            self.conversation_id = self.conversation_id or fitting(span.attributes.peek(_CONVERSATION))
            if span.parent and (span.trace, span.parent) not in self.spans:
                self.unmapped["span without its parent: kept, no parent was made up"] += 1
            ended = span.end or span.start or 0
            if (span.trace, span.id) in answered:
                prompt, out = answered[span.trace, span.id]
                yield ended, 0, order, self._model, (span, prompt, out)
            elif self._kind(span) == "tool":
                yield from self._tool_points(span, order, turns)
            else:
                yield ended, 3, order, self._other, (span,)

    def _tool_points(self, span: Span, order: int, turns: dict[str, list[int]]) -> Iterator[Point]:
        call = tool_of(span)
        begun, ended = span.start or span.end or 0, span.end or span.start or 0
        promised = turns.get(call.call_id or "", [])
        if promised:
            asked = max((at for at in promised if at <= ended), default=min(promised))
            ended = max(ended, asked)
        else:
            yield begun, 1, order, self._submit, (span, call)
        yield ended, 2, order, self._feedback, (span, call)

    def _model(self, span: Span, prompt: list[Said], out: list[Said]) -> None:
        attributes = span.attributes
        conversation = _conversation(span)
        self.told.hear(prompt, span.began_at, conversation=conversation)
        said, others = (out[0], out[1:]) if out else (Said("assistant"), [])
        model = attributes.text("gen_ai.response.model", "gen_ai.request.model", "llm.response.model")
        attributes.drop("gen_ai.request.model", model)
        self.policy = self.policy or model
        usage = usage_of(span)
        finish = finish_of(span) or said.finish
        attributes.drop(_OPERATION, "chat")
        attributes.drop("llm.request.type", "chat")
        cost, sampling = attributes.number("gen_ai.usage.cost"), sampling_of(span)
        self._specs(span)
        extra = said.extra
        if others:
            self.unmapped["further choice: kept in extra"] += len(others)
            extra = extended(extra, choices=Raw(_encode([other.content for other in others])))
        self.told.respond(
            said,
            span.ended_at,
            conversation=conversation,
            model=model,
            usage=usage,
            cost=cost,
            finish_reason=finish or ("error" if span.failed else None),
            latency_ms=span.latency_ms,
            sampling=sampling,
            extra=self._with_span(span, extra),
        )

    def _submit(self, span: Span, call: ToolCall) -> None:
        if self.told.waiting(call.call_id, call.tool, call.args) is None:
            self.told.submit(call, span.began_at, conversation=fitting(span.attributes.peek(_CONVERSATION)))

    def _feedback(self, span: Span, call: ToolCall) -> None:
        attributes = span.attributes
        attributes.drop(_OPERATION, "execute_tool")
        asked = self.told.waiting(call.call_id, call.tool, call.args) or call
        attributes.drop("gen_ai.tool.name", asked.tool)
        attributes.drop("gen_ai.tool.call.id", asked.call_id)
        if "gen_ai.tool.name" not in attributes:
            attributes.drop("traceloop.entity.name", asked.tool)
        if (asked.args, asked.args_text) == (call.args, call.args_text):
            attributes.json("gen_ai.tool.call.arguments", "traceloop.entity.input")
        feedback = result_of(span)
        for event in span.events:
            if event.name == _EVALUATION:
                self._judge(event)
            else:
                self._unmapped_event(event)
        self.told.answer(
            feedback,
            span.ended_at,
            call_id=call.call_id,
            tool=call.tool,
            args=call.args,
            conversation=_conversation(span),
            latency_ms=span.latency_ms,
            extra=self._with_span(span, UNSET),
        )

    def _other(self, span: Span) -> None:
        """A span that is no event of its own: kept whole."""
        kind = self._kind(span)
        if kind == "agent":
            self._specs(span)
            if self.told.goal is None:
                heard = messages(json_of(span, "gen_ai.input.messages"))
                goal = next((said.text for said in heard if said.role == "user" and said.text), None)
                self.told.goal = goal
        else:
            name = span.attributes.peek(_OPERATION) or span.attributes.peek("traceloop.span.kind") or "of another kind"
            self.unmapped[f"span {str(name)[:60]}: kept in extra"] += 1
        for event in span.events:
            if event.name == _EVALUATION:
                self._judge(event)
        self._keep(Raw(bytes(span.data)), self.context_of[id(span)])

    def _end(self) -> None:
        roots = [span for span in self.spans.values() if span.parent is None]
        last = max(roots, key=lambda span: span.end or 0, default=None)
        if last is None or last.end is None:
            self.unmapped["no root span that ended: how the episode ended is not known"] += 1
            return
        message = last.message or last.attributes.peek("error.type")
        end = AgentError(short(None if message is None else str(message))) if last.failed else Finished()
        self.draft.add(EpisodeEnded(end), occurred_at=last.ended_at, conversation=self.conversation_id)

    def _judge(self, event: Happened) -> None:
        said = event.said()
        event.mapped = True
        name = said.get("gen_ai.evaluation.name")
        verdict = verdicts.by_label(said.get("gen_ai.evaluation.score.label"))
        check = verdicts.quoted(str(name or "evaluation"), verdict, Raw(_encode(said)))
        self.checks.append((check, event))

    def _judged(self) -> None:
        if not self.checks:
            return
        scores = [event.said().get("gen_ai.evaluation.score.value") for _, event in self.checks]
        reward = float(scores[0]) if len(scores) == 1 and isinstance(scores[0], int | float) else None
        verdict = verdicts.verification([check for check, _ in self.checks], reward=reward)
        at = max((event.at for _, event in self.checks if event.at is not None), default=None)
        self.draft.add(verdict, occurred_at=None if at is None else at // 1000, actor="verifier")

    def _prompt_and_answer(self, span: Span) -> tuple[list[Said], list[Said]]:
        prompt, out, others = prompt_and_answer(span, self.keep, self.known)
        for event in others:
            if event.name == _EVALUATION:
                self._judge(event)
            else:
                self._unmapped_event(event)
        return prompt, out

    def _unmapped_event(self, event: Happened) -> None:
        self.unmapped[f"span event {event.name[:60] or 'without a name'}: kept in extra"] += 1

    def _kind(self, span: Span) -> str:
        if span.kind is None:
            span.kind = _part(span)
        return span.kind

    def _is_model(self, span: Span) -> bool:
        """Whether the span is a step: a model call, or an agent that answers, without one inside."""
        kind = self._kind(span)
        if kind == "agent" and "gen_ai.output.messages" not in span.attributes:
            return False
        return kind in ("model", "agent") and not self._calls_a_model(span)

    def _calls_a_model(self, span: Span) -> bool:
        seen = {(span.trace, span.id)}
        waiting = list(self.children.get((span.trace, span.id), []))
        while waiting:
            child = waiting.pop()
            if (child.trace, child.id) in seen:
                continue
            seen.add((child.trace, child.id))
            if self._kind(child) == "model":
                return True
            waiting += self.children.get((child.trace, child.id), [])
        return False

    def _specs(self, span: Span) -> None:
        """The tools that the first span which lists any lists; the same list again is nothing new."""
        for key in ("gen_ai.tool.definitions", "llm.request.functions"):
            raw = span.attributes.peek(key)
            if raw is None:
                raw = list(span.attributes.indexed(key, take=False).values())
            listed, whole = specs_of(raw)
            if listed and self.tools is None:
                self.tools = listed
            if listed and whole and listed == self.tools:
                span.attributes.json(key)
                span.attributes.indexed(key)

    def _with_span(self, span: Span, extra: MaybeRaw) -> MaybeRaw:
        for key in span.attributes.left():
            self.unmapped[f"attribute {_DIGITS.sub('#', key)[:80]}: kept in extra"] += 1
        if span.links:
            self.unmapped["span links: kept in extra"] += 1
        if span.dropped:
            self.unmapped["span that had lost attributes before"] += 1
        context = self.context_of[id(span)]
        return extended(extra, span=span.rest(), context=Raw(_encode(context)) if context else None)

    def _keep(self, data: Raw, context: int) -> None:
        self.kept.append(Raw(_encode({"context": context, "data": data})))

    def _extra(self) -> MaybeRaw:
        contexts = [Raw(context or b"{}") for context in self.contexts]
        return extended(
            contexts=Raw(_encode(contexts)) if any(bytes(context) != b"{}" for context in contexts) else None,
            spans=Raw(_encode(self.kept)) if self.kept else None,
        )


def _conversation(span: Span) -> str | None:
    """The conversation that a span names, taken out of it."""
    named = fitting(span.attributes.peek(_CONVERSATION))
    return None if named is None else span.attributes.text(_CONVERSATION)


def _part(span: Span) -> str:
    """Which part a span plays: a model call, a tool's run, an agent around them, or another."""
    attributes = span.attributes
    operation = attributes.peek(_OPERATION)
    loop = attributes.peek("traceloop.span.kind")
    if operation in _MODEL or attributes.peek("llm.request.type") in ("chat", "completion"):
        return "model"
    if operation == "execute_tool" or loop == "tool":
        return "tool"
    if operation in _AGENT or loop in ("agent", "workflow"):
        return "agent"
    if operation is None and loop is None:
        if "gen_ai.tool.name" in attributes:
            return "tool"
        keys = attributes.left()
        if "gen_ai.output.messages" in attributes or any(key.startswith("gen_ai.completion") for key in keys):
            return "model"
    return "other"


@lru_cache(maxsize=256)
def _service(context: bytes) -> str | None:
    """The service that a context names, with its version."""
    resource = merged(context or b"{}").get("resource", b"{}")
    named = Attributes(msgspec.json.decode(resource, type=dict[str, Raw]).get("attributes", Raw(b"[]")))
    name, version = named.text("service.name"), named.text("service.version")
    return " ".join(filter(None, (name, version))) if name else None
