"""What the attributes and events of one span say of a model call or of a tool, in every dialect: the
current `gen_ai.input.messages`, the indexed `gen_ai.prompt.0.role` of OpenLLMetry, and the older
events, one for each message.
"""

from base64 import b64decode
from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import Raw

from core.vocabulary import BlobRef
from core.vocabulary.base import UNSET, MaybeRaw
from core.vocabulary.contract import Effect, ErrorClass, ExecError, Feedback, ToolCall, ToolResult
from core.vocabulary.episode import Usage
from eventlog.interchange.mapping import images
from eventlog.interchange.mapping.messages import json_text, tool_value
from eventlog.interchange.mapping.said import Known, answers, messages
from eventlog.interchange.mapping.turns import NULL, Said, text_of
from eventlog.interchange.otlp.json import as_json
from eventlog.interchange.otlp.span import Happened, Span

Keep = Callable[[bytes], BlobRef]

_encode = msgspec.json.encode
_SAMPLING = {
    f"gen_ai.request.{name}": name
    for name in (
        "temperature",
        "top_p",
        "top_k",
        "max_tokens",
        "frequency_penalty",
        "presence_penalty",
        "seed",
        "stop_sequences",
        "choice.count",
    )
}
_MESSAGE_EVENTS = {
    "gen_ai.system.message": "system",
    "gen_ai.user.message": "user",
    "gen_ai.assistant.message": "assistant",
    "gen_ai.tool.message": "tool",
}
_ERRORS: tuple[tuple[str, ErrorClass], ...] = (
    ("timeout", "timeout"),
    ("timedout", "timeout"),
    ("deadline", "timeout"),
    ("permission", "permission"),
    ("unauthorized", "permission"),
    ("forbidden", "permission"),
    ("notfound", "not_found"),
    ("not_found", "not_found"),
    ("validation", "schema"),
    ("invalid", "schema"),
    ("valueerror", "schema"),
    ("typeerror", "schema"),
    ("connection", "transport_lost"),
    ("ratelimit", "transient"),
    ("unavailable", "transient"),
)
_STATUS: dict[str, ErrorClass] = {
    "400": "schema",
    "401": "permission",
    "403": "permission",
    "404": "not_found",
    "408": "timeout",
    "409": "conflict",
    "422": "schema",
    "429": "transient",
    "502": "transient",
    "503": "transient",
    "504": "timeout",
}


def prompt_and_answer(span: Span, keep: Keep, known: Known) -> tuple[list[Said], list[Said], list[Happened]]:
    """What the model was given, what it answered, and the span's events that say neither."""
    prompt = [Said("system", said.content) for said in messages(_instructions(span))]
    given = json_of(span, "gen_ai.input.messages") or _chat(span, "gen_ai.prompt")
    prompt += messages(_with_blobs(given, keep, span), known)
    answered = json_of(span, "gen_ai.output.messages") or _chat(span, "gen_ai.completion")
    out = answers(_with_blobs(answered, keep, span))
    heard: list[Said] = []
    others: list[Happened] = []
    for event in span.events:
        said = event.said()
        event.mapped = True
        if event.name in _MESSAGE_EVENTS:
            heard += messages(_event_message(said, _MESSAGE_EVENTS[event.name]))
        elif event.name == "gen_ai.choice":
            out = out or answers(_event_message(said, "assistant"))
        elif event.name == "gen_ai.content.prompt":
            heard += messages(_as_json(said.get("gen_ai.prompt")))
        elif event.name == "gen_ai.content.completion":
            out = out or answers(_as_json(said.get("gen_ai.completion")))
        elif event.name == "gen_ai.client.inference.operation.details":
            system = messages(_as_json(said.get("gen_ai.system_instructions")))
            heard += [Said("system", each.content) for each in system]
            heard += messages(_as_json(said.get("gen_ai.input.messages")))
            out = out or answers(_as_json(said.get("gen_ai.output.messages")))
        else:
            event.mapped = False
            others.append(event)
    return prompt or heard, out, others


def _with_blobs(given: Raw | None, keep: Keep, span: Span) -> Raw | None:
    """Messages with the data in their `blob` parts stored as blobs."""
    if given is None or b'"blob"' not in bytes(given):
        return given
    listed = msgspec.json.decode(given)
    for message in listed if isinstance(listed, list) else ():
        parts = message.get("parts") if isinstance(message, dict) else None
        for part in parts if isinstance(parts, list) else ():
            if isinstance(part, dict) and part.get("type") == "blob" and isinstance(part.get("content"), str):
                part["content"] = keep(_data(part, span))
    return Raw(_encode(listed))


def _data(part: dict[str, Any], span: Span) -> bytes:
    if part.get("modality") == "image":
        return images.of_data_url(f"data:image/;base64,{part['content']}", span.fault)
    try:
        return b64decode(part["content"], validate=True)
    except ValueError:
        raise span.fault("a blob part is no base64") from None


def json_of(span: Span, key: str) -> Raw | None:
    return span.attributes.json(key)


def _instructions(span: Span) -> Raw | None:
    """The system instructions, as one system message."""
    raw = json_of(span, "gen_ai.system_instructions")
    if raw is None:
        return None
    if bytes(raw).startswith(b"["):
        return Raw(_encode([{"role": "system", "parts": raw}]))
    return Raw(_encode([{"role": "system", "content": raw}]))


def _chat(span: Span, prefix: str) -> Raw | None:
    """Messages as indexed attributes, `gen_ai.prompt.0.role`, or as the text of one attribute."""
    tree = span.attributes.indexed(prefix)
    if not tree:
        return json_of(span, prefix)
    return Raw(_encode([_unindexed(tree[index]) for index in sorted(tree, key=int)]))


def _unindexed(value: Any) -> Any:
    """A message of indexed attributes with its calls as a list and its content as it was dumped."""
    if not isinstance(value, dict):
        return {"content": value}
    fields = dict(value)
    calls = fields.get("tool_calls")
    if isinstance(calls, dict):
        fields["tool_calls"] = [calls[index] for index in sorted(calls, key=lambda key: (not key.isdigit(), key))]
    content = fields.get("content")
    if isinstance(content, str) and content.startswith("[{"):
        fields["content"] = json_text(content) or content
    return fields


def _event_message(said: dict[str, Any], role: str) -> Raw:
    """A message of a `gen_ai.….message` or `gen_ai.choice` event."""
    inner = _as_json(said.get("message"))
    fields: dict[str, Any] = {"role": role}
    if inner is not None and bytes(inner).startswith(b"{"):
        fields |= msgspec.json.decode(inner, type=dict[str, Raw])
    elif inner is not None:
        fields["content"] = inner
    for name in ("role", "content", "name", "id", "finish_reason"):
        if said.get(name) is not None:
            fields[name] = said[name]
    calls = _as_json(said.get("tool_calls"))
    if calls is not None:
        fields["tool_calls"] = calls
    if isinstance(fields.get("content"), dict | list):
        fields["content"] = Raw(_encode(fields["content"]))
    return Raw(_encode([fields] if role != "assistant" else fields))


def _as_json(value: Any) -> Raw | None:
    return None if value is None else as_json(value)


def tool_of(span: Span) -> ToolCall:
    attributes = span.attributes
    name = attributes.peek("gen_ai.tool.name") or attributes.peek("traceloop.entity.name")
    tool = str(name or span.name.removeprefix("execute_tool ") or "tool")
    call_id = attributes.peek("gen_ai.tool.call.id")
    given = attributes.peek("gen_ai.tool.call.arguments")
    args = _as_json(given if given is not None else attributes.peek("traceloop.entity.input")) or NULL
    text = None
    if bytes(args).startswith(b'"'):
        text, args = msgspec.json.decode(args, type=str), NULL
    return ToolCall(tool=tool, args=args, args_text=text, call_id=call_id if isinstance(call_id, str) else None)


def result_of(span: Span) -> Feedback:
    attributes = span.attributes
    error = attributes.text("error.type")
    if not span.failed and error is None:
        return ToolResult(tool_value(attributes.json("gen_ai.tool.call.result", "traceloop.entity.output") or NULL))
    message, span.message = span.message, None
    raised = next((event.said() for event in span.events if event.name == "exception"), {})
    if message is None and isinstance(raised.get("exception.message"), str):
        message = raised["exception.message"]
    if message is None:
        result = attributes.json("gen_ai.tool.call.result", "traceloop.entity.output")
        message = None if result is None else text_of(result) or bytes(result).decode()
    if error is None and isinstance(raised.get("exception.type"), str):
        error = raised["exception.type"]
    class_, retryable, effect = _error_class(error or "")
    return ExecError(class_, retryable=retryable, effect=effect, message=message or error)


def _error_class(error: str) -> tuple[ErrorClass, bool, Effect]:
    """What kind of failure an `error.type` names. A trace never says whether anything was changed."""
    lowered = error.lower().replace(" ", "")
    found = _STATUS.get(lowered) or next((kind for sign, kind in _ERRORS if sign in lowered), None)
    class_: ErrorClass = found or "backend_bug"
    return class_, class_ == "transient", "unknown"


def usage_of(span: Span) -> Usage | None:
    take = span.attributes.integer
    usage = Usage(
        prompt_tokens=take("gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens"),
        completion_tokens=take("gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens"),
        thinking_tokens=take("gen_ai.usage.reasoning.output_tokens", "gen_ai.usage.reasoning_tokens"),
        cached_tokens=take("gen_ai.usage.cache_read.input_tokens", "gen_ai.usage.cache_read_input_tokens"),
    )
    total = (usage.prompt_tokens or 0) + (usage.completion_tokens or 0)
    for key in ("llm.usage.total_tokens", "gen_ai.usage.total_tokens"):
        span.attributes.drop(key, total)
    return None if usage == Usage() else usage


def finish_of(span: Span) -> str | None:
    reasons = span.attributes.peek("gen_ai.response.finish_reasons")
    if isinstance(reasons, list) and len(reasons) == 1 and isinstance(reasons[0], str):
        span.attributes.json("gen_ai.response.finish_reasons")
        return reasons[0]
    return None


def sampling_of(span: Span) -> MaybeRaw:
    given = {name: span.attributes.json(key) for key, name in _SAMPLING.items() if key in span.attributes}
    return Raw(_encode(given)) if given else UNSET
