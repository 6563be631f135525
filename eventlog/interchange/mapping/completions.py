"""What a model server answered, in the shape of the chat API or of the responses API."""

from typing import Any

import msgspec

from core.vocabulary.episode import Usage
from eventlog.interchange.mapping.messages import Fields


class _Details(msgspec.Struct):
    reasoning_tokens: int | None = None
    cached_tokens: int | None = None


class _Usage(msgspec.Struct):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_tokens_details: _Details | None = None
    completion_tokens_details: _Details | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    input_tokens_details: _Details | None = None
    output_tokens_details: _Details | None = None


class _Choice(msgspec.Struct):
    finish_reason: str | None = None


def usage_of(answer: Fields) -> Usage | None:
    """The tokens of the call; the answer is left as it is."""
    usage = answer.peek("usage", _Usage)
    if usage is None:
        return None
    read = usage.prompt_tokens_details or usage.input_tokens_details or _Details()
    written = usage.completion_tokens_details or usage.output_tokens_details or _Details()
    return Usage(
        prompt_tokens=usage.input_tokens if usage.prompt_tokens is None else usage.prompt_tokens,
        completion_tokens=usage.output_tokens if usage.completion_tokens is None else usage.completion_tokens,
        thinking_tokens=written.reasoning_tokens,
        cached_tokens=read.cached_tokens,
    )


def finish_of(answer: Fields) -> str | None:
    """Why the model stopped."""
    choices: list[_Choice] = answer.peek("choices", list[_Choice]) or []
    return choices[0].finish_reason if choices else None


def text_of_output(output: Any) -> str | None:
    """What the model said in the `output` of the responses API."""
    messages = [item for item in output if isinstance(item, dict)] if isinstance(output, list) else []
    parts = [part for item in messages if isinstance(item.get("content"), list) for part in item["content"]]
    texts = [part["text"] for part in parts if isinstance(part, dict) and isinstance(part.get("text"), str)]
    return "\n".join(texts) if texts else None
