"""Episodes as OpenTelemetry GenAI spans.

Every event of an episode is one event of a span, named after its type, with its payload as it was
written: so an episode comes back exactly (`otlp_restore`). The spans' own `gen_ai.*` attributes say
the same for other tools: the episode is an agent's span, a model turn a chat span, an action with its
feedback a tool span. A chat span's input is what entered the conversation since the turn before, not
the whole prompt again. Spans that an episode was imported from keep their ids and what else they held.
"""

from collections.abc import Sequence
from hashlib import sha256
from typing import Any

import msgspec
from msgspec import Raw

from core import times, vocabulary
from core.event import StoredEvent
from core.vocabulary import Payload, Unknown
from core.vocabulary.base import MaybeRaw
from core.vocabulary.contract import AgentError, EnvFailure, ExecError, ToolCall, ToolResult
from core.vocabulary.episode import (
    ActionSubmitted,
    EpisodeEnded,
    EpisodeStarted,
    FeedbackRecorded,
    MessageRecorded,
    ModelResponded,
    VerificationRecorded,
)
from eventlog.interchange.otlp.json import attribute

EPISODE = "trajlog.episode"
EVENTS = "trajlog.events"
"""How many events an episode has, on the span of its start."""

PREFIX = "trajlog."
FORMAT = "otlp"

_encode = msgspec.json.encode
_fields = msgspec.json.Decoder(dict[str, Raw]).decode
_list = msgspec.json.Decoder(list[Raw]).decode
_CLIENT, _INTERNAL, _ERROR = 3, 1, 2
_MAX_NANOS = 2**64 - 1
_OURS = {
    "resource": Raw(_encode({"attributes": [attribute("service.name", "trajlog")]})),
    "scope": Raw(_encode({"name": "trajlog"})),
}

Said = Payload | Unknown
Json = dict[str, Any]


def spans(started: EpisodeStarted, events: Sequence[StoredEvent]) -> Json:
    """An ExportTraceServiceRequest that holds the episode, ready to be encoded as JSON. `events` are
    those of its stream in order, the first one included."""
    return _Export(started, events).request()


class _Export:
    """An episode on its way into spans: `made` are those, each with the context it belongs to."""

    def __init__(self, started: EpisodeStarted, events: Sequence[StoredEvent]) -> None:
        self.started = started
        self.told = [(event, vocabulary.payload(event)) for event in events]
        self.stream = events[0].stream
        self.imported = started.origin is not None and started.origin.format == FORMAT
        extra = fields_of(started.extra) if self.imported else {}
        self.contexts = [_fields(raw) for raw in _list(extra.get("contexts", b"[]"))]
        self.kept = [_fields(_readable(raw)) for raw in _list(extra.get("spans", b"[]"))]
        origins = [own for _, said in self.told if (own := self._origin(fields_of(_extra(said)))) is not None]
        origins += [_fields(kept["data"]) for kept in self.kept]
        derived = sha256(b"trajlog/otlp/trace\0" + self.stream.encode()).hexdigest()[:32]
        self.trace = next((trace for own in origins if (trace := _text(own.get("traceId")))), derived)
        self.root = _span_id(b"root\0" + self.stream.encode())
        self.parent = next((_text(own["spanId"]) for own in origins if _is_root(own)), None)
        self.made: list[tuple[int | None, Json]] = []

    def request(self) -> Json:
        root = self._root()
        heard: list[StoredEvent] = []
        prompt: list[Json] = []
        tools: dict[int, tuple[Json, StoredEvent]] = {}
        answers = {said.action: said for _, said in self.told if isinstance(said, FeedbackRecorded)}
        for place, (event, said) in enumerate(self.told):
            if isinstance(said, MessageRecorded):
                heard.append(event)
                prompt.append(_message(said))
                continue
            if isinstance(said, FeedbackRecorded):
                prompt.append(_tool_message(said))
            if isinstance(said, ModelResponded):
                span = self._chat(event, said, prompt, place)
                span["events"] += [*map(_event, heard), _event(event)]
                heard, prompt = [], []
            elif isinstance(said, ActionSubmitted):
                span = self._tool(event, said, answers.get(event.version))
                span["events"].append(_event(event))
                tools[event.version] = span, event
            elif isinstance(said, FeedbackRecorded) and said.action in tools:
                span, _ = tools[said.action]
                span["events"].append(_event(event))
                if self._origin(fields_of(said.extra)) is None:
                    span["endTimeUnixNano"] = _nanos(max(_time(event), int(span["startTimeUnixNano"]) // 1000))
            else:
                root["events"] += [*_evaluations(event, said), _event(event)]
        root["events"] += map(_event, heard)
        return self._assembled()

    def _root(self) -> Json:
        conversation = next((event.conversation for event, _ in self.told if event.conversation), None)
        given: Json = {EVENTS: len(self.told), "gen_ai.conversation.id": conversation}
        name = "trajlog.episode"
        if not self.imported:
            name = f"invoke_agent {self.started.policy or ''}".strip()
            given |= {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": self.started.policy}
        root = self._span(self.root, name, _INTERNAL, given, {})
        root["startTimeUnixNano"] = _nanos(min(_time(event) for event, _ in self.told))
        root["endTimeUnixNano"] = _nanos(max(_time(event) for event, _ in self.told))
        for _, said in self.told:
            if isinstance(said, EpisodeEnded) and isinstance(said.end, AgentError | EnvFailure):
                root["status"] = _error(said.end.message)
        return root

    def _chat(self, event: StoredEvent, said: ModelResponded, prompt: list[Json], place: int) -> Json:
        usage = said.usage
        given: Json = {
            "gen_ai.operation.name": "chat",
            "gen_ai.request.model": said.model,
            "gen_ai.response.model": said.model,
            "gen_ai.usage.input_tokens": usage and usage.prompt_tokens,
            "gen_ai.usage.output_tokens": usage and usage.completion_tokens,
            "gen_ai.usage.reasoning.output_tokens": usage and usage.thinking_tokens,
            "gen_ai.usage.cache_read.input_tokens": usage and usage.cached_tokens,
            "gen_ai.usage.cost": said.cost,
            "gen_ai.response.finish_reasons": None if said.finish_reason is None else [said.finish_reason],
            "gen_ai.conversation.id": event.conversation,
            "gen_ai.input.messages": _encode(prompt).decode() if prompt else None,
            "gen_ai.output.messages": _encode([self._output(said, place)]).decode(),
        }
        sampling = {name: msgspec.json.decode(raw) for name, raw in fields_of(said.sampling).items()}
        given |= {f"gen_ai.request.{name}": value for name, value in sampling.items()}
        name = f"chat {said.model or ''}".strip()
        span = self._span(_span_id(event.event_id), name, _CLIENT, given, fields_of(said.extra))
        _timed(span, _time(event), said.latency_ms)
        if said.finish_reason == "error":
            span.setdefault("status", _error(None))
        return span

    def _output(self, said: ModelResponded, place: int) -> Json:
        """The model's answer: what it thought, what it said, and the calls that follow it."""
        parts: list[Json] = []
        if said.thought is not None:
            parts.append({"type": "reasoning", "content": said.thought})
        if said.content is not None:
            parts.append({"type": "text", "content": said.content})
        for _, later in self.told[place + 1 :]:
            if isinstance(later, ModelResponded):
                break
            if isinstance(later, ActionSubmitted) and later.step == said.step:
                parts.append(_call_part(later))
        return {"role": "assistant", "parts": parts}

    def _tool(self, event: StoredEvent, said: ActionSubmitted, answer: FeedbackRecorded | None) -> Json:
        part = _call_part(said)
        given: Json = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": part["name"],
            "gen_ai.tool.call.id": part.get("id"),
            "gen_ai.tool.call.arguments": _as_text(part["arguments"]),
            "gen_ai.conversation.id": event.conversation,
        }
        feedback = answer and answer.feedback
        if isinstance(feedback, ExecError):
            given["error.type"] = feedback.class_
        elif feedback is not None:
            value = feedback.value if isinstance(feedback, ToolResult) else Raw(_encode(feedback))
            given["gen_ai.tool.call.result"] = _as_text(value)
        extra = fields_of(answer.extra) if answer else {}
        span = self._span(_span_id(event.event_id), f"execute_tool {part['name']}", _INTERNAL, given, extra)
        _timed(span, _time(event), None)
        if isinstance(feedback, ExecError):
            span["status"] = _error(feedback.message if isinstance(feedback.message, str) else None)
        return span

    def _span(self, id_: str, name: str, kind: int, given: Json, extra: dict[str, Raw]) -> Json:
        """A new span, or the one that it was imported from, with what is `given` added to it."""
        span: Json = {"traceId": self.trace, "spanId": id_, "name": name, "kind": kind}
        parent = self.parent if id_ == self.root else self.root
        if parent is not None:
            span["parentSpanId"] = parent
        context = None
        origin = self._origin(extra)
        if origin is not None:
            span = {name: raw for name, raw in origin.items() if name != "logRecords"}
            context = int(extra.get("context", b"0")) if self.contexts else None
        held = _list(span.get("attributes", b"[]"))
        there = {msgspec.json.decode(raw)["key"] for raw in held}
        more = [attribute(key, value) for key, value in given.items() if value is not None and key not in there]
        span["attributes"] = [*held, *more, attribute(EPISODE, self.stream.partition("/")[2])]
        span["events"] = _list(span.get("events", b"[]"))
        self.made.append((context, span))
        return span

    def _origin(self, extra: dict[str, Raw]) -> dict[str, Raw] | None:
        """The span that an event was imported from, as it is kept in its `extra`."""
        return fields_of(_readable(extra["span"])) if self.imported and "span" in extra else None

    def _assembled(self) -> Json:
        """The request: spans, and log records that were kept, under the contexts they came in."""
        sorted_: dict[tuple[str, int | None], list[Any]] = {}
        for context, span in self.made:
            sorted_.setdefault(("spans", context), []).append(span)
        for kept in self.kept:
            is_log = "startTimeUnixNano" not in _fields(kept["data"])
            at = int(kept["context"]) if self.contexts else None
            sorted_.setdefault(("logRecords" if is_log else "spans", at), []).append(kept["data"])
        request: Json = {}
        for (kind, at), found in sorted_.items():
            context_ = _OURS if at is None else self.contexts[at]
            scope: Json = {name: context_[key] for key, name in _SCOPE if key in context_} | {kind: found}
            resource: Json = {name: context_[key] for key, name in _RESOURCE if key in context_}
            scopes, resources = _NAMES[kind]
            request.setdefault(resources, []).append(resource | {scopes: [scope]})
        return request


_SCOPE = (("scope", "scope"), ("scopeSchemaUrl", "schemaUrl"))
_RESOURCE = (("resource", "resource"), ("schemaUrl", "schemaUrl"))
_NAMES = {"spans": ("scopeSpans", "resourceSpans"), "logRecords": ("scopeLogs", "resourceLogs")}


def fields_of(raw: MaybeRaw) -> dict[str, Raw]:
    """The fields of JSON that is an object; none if it is absent or something else."""
    return _fields(raw) if isinstance(raw, Raw) and bytes(raw).startswith(b"{") else {}


def _readable(raw: Raw) -> Raw:
    """A span that was kept, its texts that became blobs told by their address: OTLP wants texts."""
    if b'"stringValue":{"address":"sha256:' not in bytes(raw):
        return raw
    return Raw(_encode(_with_texts(msgspec.json.decode(raw))))


def _with_texts(value: Any) -> Any:
    if isinstance(value, dict):
        if value.keys() == {"address", "size", "media_type"}:
            return f"[blob {value['address']}, {value['size']} bytes]"
        return {name: _with_texts(item) for name, item in value.items()}
    return [_with_texts(item) for item in value] if isinstance(value, list) else value


def _extra(said: Said) -> MaybeRaw:
    return said.extra if isinstance(said, ModelResponded | FeedbackRecorded) else Raw(b"{}")


def _event(event: StoredEvent) -> Json:
    """The event itself: its payload as it was written, and what else is the event's own."""
    given: Json = {
        "trajlog.version": event.version,
        "trajlog.schema": event.schema,
        "trajlog.payload": event.body.decode(),
        "trajlog.actor": event.actor,
        "trajlog.conversation": event.conversation,
        "trajlog.occurred_at": None if event.occurred_at is None else times.to_text(event.occurred_at),
    }
    attributes = [attribute(key, value) for key, value in given.items() if value is not None]
    return {"timeUnixNano": _nanos(_time(event)), "name": f"{PREFIX}{event.type}", "attributes": attributes}


def _evaluations(event: StoredEvent, said: Said) -> list[Json]:
    """A verification's checks as the convention's evaluation results."""
    if not isinstance(said, VerificationRecorded):
        return []
    results = []
    for check in said.verification.checks:
        pairs = [("gen_ai.evaluation.name", check.id), ("gen_ai.evaluation.score.label", check.verdict)]
        attributes = [attribute(key, value) for key, value in pairs]
        if said.verification.reward is not None and len(said.verification.checks) == 1:
            attributes.append(attribute("gen_ai.evaluation.score.value", said.verification.reward))
        name = "gen_ai.evaluation.result"
        results.append({"timeUnixNano": _nanos(_time(event)), "name": name, "attributes": attributes})
    return results


def _message(said: MessageRecorded) -> Json:
    content = msgspec.json.decode(said.content)
    parts = content if isinstance(content, list) else [] if content is None else [{"type": "text", "content": content}]
    return {"role": said.role, "parts": [_part(part) for part in parts]} | ({"name": said.name} if said.name else {})


def _part(part: Any) -> Any:
    if isinstance(part, dict) and part.get("type") == "text" and "content" not in part and "text" in part:
        return {"type": "text", "content": part["text"]}
    return part if isinstance(part, dict) else {"type": "text", "content": part}


def _tool_message(said: FeedbackRecorded) -> Json:
    value = said.feedback.value if isinstance(said.feedback, ToolResult) else said.feedback
    answer = {"type": "tool_call_response", "response": value} | ({"id": said.call_id} if said.call_id else {})
    return {"role": "tool", "parts": [answer]}


def _call_part(said: ActionSubmitted) -> Json:
    """A tool call as a part of a message; any other action is the call of a tool of its kind."""
    action = said.action
    if not isinstance(action, ToolCall):
        return {"type": "tool_call", "name": action.kind, "arguments": Raw(_encode(action))}
    args = action.args if action.args_text is None else Raw(_encode(action.args_text))
    part = {"type": "tool_call", "name": action.tool, "arguments": args}
    return part | ({"id": action.call_id} if action.call_id is not None else {})


def _as_text(raw: Raw) -> str:
    """JSON as the text of an attribute; a string as itself."""
    return msgspec.json.decode(raw, type=str) if bytes(raw).startswith(b'"') else bytes(raw).decode()


def _is_root(span: dict[str, Raw]) -> bool:
    return "spanId" in span and not (_text(span.get("parentSpanId")) or "").strip("0")


def _text(raw: Raw | None) -> str | None:
    return msgspec.json.decode(raw, type=str) if raw is not None and bytes(raw).startswith(b'"') else None


def _error(message: str | None) -> Json:
    return {"code": _ERROR} | ({} if message is None else {"message": message})


def _timed(span: Json, end: int, latency_ms: float | None) -> None:
    span.setdefault("startTimeUnixNano", _nanos(end - round((latency_ms or 0) * 1000)))
    span.setdefault("endTimeUnixNano", _nanos(end))


def _time(event: StoredEvent) -> int:
    """When it happened; when it was committed, where that is not known."""
    return event.committed_at if event.occurred_at is None else event.occurred_at


def _nanos(at: int) -> str:
    return str(min(max(at, 0) * 1000, _MAX_NANOS))


def _span_id(seed: bytes) -> str:
    return sha256(b"trajlog/otlp/span\0" + seed).hexdigest()[:16]
