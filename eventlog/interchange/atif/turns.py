"""A model turn of ATIF's, read and written: what it said, its metrics, the tools it could call."""

from hashlib import sha256
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, Raw

from core.vocabulary.episode import ContextRef, ModelResponded, ToolSpec, Usage
from eventlog.interchange.export.recorded import object_of
from eventlog.interchange.mapping.contents import joined_text, text_of
from eventlog.interchange.mapping.lenient import content_of, inner, soft
from eventlog.interchange.mapping.messages import Fields

Json = dict[str, Any]

Count = Annotated[int, Meta(ge=0, le=2**53)]

_MOST = 2**53
_INTEGERS = list[int]
_NUMBERS = list[float]
_NO_USAGE = Usage()


class _Function(msgspec.Struct):
    name: str


class _Definition(msgspec.Struct):
    function: _Function


def turn_of(step: Fields, number: int, copied: bool) -> ModelResponded:
    """The model turn of a step."""
    content = content_of(step, "message")
    text = None
    if content is not None:
        text = text_of(content)
    if content is not None and text is None:
        step.put("message", content)
        text = joined_text(content)
    if copied:
        step.raw("is_copied_context")
    metrics = inner(step, "metrics")
    measured = {} if metrics is None else _measured(metrics)
    return ModelResponded(
        number,
        content=text,
        thought=soft(step, "reasoning_content", str),
        model=soft(step, "model_name", str),
        copied=copied,
        **measured,
    )


def _measured(metrics: Fields) -> dict[str, Any]:
    """The metrics of a model turn, as fields of its event."""
    more = inner(metrics, "extra")
    usage = Usage(
        prompt_tokens=soft(metrics, "prompt_tokens", Count),
        completion_tokens=soft(metrics, "completion_tokens", Count),
        thinking_tokens=None if more is None else soft(more, "reasoning_tokens", Count),
        cached_tokens=soft(metrics, "cached_tokens", Count),
    )
    token_ids = soft(metrics, "completion_token_ids", _INTEGERS)
    logprobs = soft(metrics, "logprobs", _NUMBERS, peek=True)
    if logprobs is not None and (token_ids is None or len(token_ids) == len(logprobs)):
        metrics.raw("logprobs")
    else:
        logprobs = None
    prompt = soft(metrics, "prompt_token_ids", _INTEGERS)
    return {
        "usage": None if usage == _NO_USAGE else usage,
        "cost": soft(metrics, "cost_usd", float),
        "context": None if prompt is None else prompt_of(prompt),
        "token_ids": token_ids,
        "logprobs": logprobs,
    }


def prompt_of(ids: list[int]) -> ContextRef:
    """A prompt known by its token ids alone."""
    return ContextRef(f"sha256:{sha256(msgspec.json.encode(ids)).hexdigest()}", prompt_ids=ids)


def metrics_of(turn: ModelResponded) -> Json | None:
    usage, ids = turn.usage, turn.token_ids
    logprobs = turn.logprobs if isinstance(turn.logprobs, list) and None not in turn.logprobs else None
    if isinstance(ids, list) and logprobs is not None and len(ids) != len(logprobs):
        logprobs = None
    written = _count(usage.completion_tokens) if usage else None
    if not isinstance(ids, list) and logprobs is not None and written not in (None, len(logprobs)):
        logprobs = None
    thinking = _count(usage.thinking_tokens) if usage else None
    prompt = turn.context.prompt_ids if turn.context is not None and turn.context.prefix_digest is None else None
    metrics = object_of(
        (
            ("prompt_tokens", _count(usage.prompt_tokens) if usage else None),
            ("completion_tokens", written),
            ("cached_tokens", _count(usage.cached_tokens) if usage else None),
            ("cost_usd", turn.cost),
            ("prompt_token_ids", prompt if isinstance(prompt, list) else None),
            ("completion_token_ids", ids if isinstance(ids, list) else None),
            ("logprobs", logprobs),
            ("extra", None if thinking is None else {"reasoning_tokens": thinking}),
        )
    )
    return metrics or None


def definition_of(tool: ToolSpec) -> Json:
    parameters = tool.parameters if isinstance(tool.parameters, Raw) else None
    function = object_of((("name", tool.name), ("description", tool.description), ("parameters", parameters)))
    return {"type": "function", "function": function}


def _count(number: int | None) -> int | None:
    return number if number is not None and 0 <= number <= _MOST else None


def tools_of(agent: Fields) -> list[ToolSpec] | None:
    """The tools, if all are functions as OpenAI's chat API defines them."""
    definitions = soft(agent, "tool_definitions", list[_Definition], peek=True)
    if definitions is None:
        return None
    found = []
    for definition in agent.parts("tool_definitions"):
        definition.drop("type", "function")
        function = definition.inner("function")
        parameters = function.raw("parameters")
        name = function.take("name", str)
        description = soft(function, "description", str)
        found.append(ToolSpec(name, description, UNSET if parameters is None else parameters))
    return found
