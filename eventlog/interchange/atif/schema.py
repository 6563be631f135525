"""ATIF's objects: their fields, the types of these, and the version that added each (ATIF-v1.N)."""

import re
from collections.abc import Callable
from datetime import datetime
from typing import Any, Final, NamedTuple

NEWEST: Final = 8
SCHEMA: Final = f"ATIF-v1.{NEWEST}"

IMAGES: Final = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"})
AUDIO: Final = frozenset(f"audio/{kind}" for kind in ("wav", "mpeg", "mp4", "aac", "ogg", "flac", "webm", "aiff"))

AGENT_ONLY: Final = ("model_name", "reasoning_effort", "reasoning_content", "tool_calls", "metrics")
"""Fields that only steps of the agent may have."""

_VERSION = re.compile(r"ATIF-v1\.(\d{1,3})", re.ASCII)


class Field(NamedTuple):
    """A field: the type of its value (or of each, if `many`), a name in `TYPES` or in `OBJECTS`."""

    type: str
    many: bool = False
    required: bool = False
    since: int = 0


OBJECTS: Final[dict[str, dict[str, Field]]] = {
    "trajectory": {
        "schema_version": Field("text", required=True),
        "session_id": Field("text"),
        "trajectory_id": Field("text", since=7),
        "agent": Field("agent", required=True),
        "steps": Field("step", many=True, required=True),
        "notes": Field("text"),
        "final_metrics": Field("final_metrics"),
        "continued_trajectory_ref": Field("text"),
        "extra": Field("object", since=1),
        "subagent_trajectories": Field("trajectory", many=True, since=7),
    },
    "agent": {
        "name": Field("text", required=True),
        "version": Field("text", required=True),
        "model_name": Field("text"),
        "tool_definitions": Field("object", many=True, since=5),
        "extra": Field("object"),
    },
    "step": {
        "step_id": Field("integer", required=True),
        "timestamp": Field("time"),
        "source": Field("source", required=True),
        "model_name": Field("text"),
        "reasoning_effort": Field("effort"),
        "message": Field("content", required=True),
        "reasoning_content": Field("text"),
        "tool_calls": Field("tool_call", many=True),
        "observation": Field("observation"),
        "metrics": Field("metrics"),
        "llm_call_count": Field("count", since=7),
        "is_copied_context": Field("boolean"),
        "extra": Field("object"),
    },
    "tool_call": {
        "tool_call_id": Field("text", required=True),
        "function_name": Field("text", required=True),
        "arguments": Field("object", required=True),
        "extra": Field("object", since=7),
    },
    "observation": {"results": Field("result", many=True, required=True)},
    "result": {
        "source_call_id": Field("text"),
        "content": Field("content"),
        "subagent_trajectory_ref": Field("ref", many=True),
        "extra": Field("object", since=7),
    },
    "ref": {
        "trajectory_id": Field("text", since=7),
        "trajectory_path": Field("text"),
        "session_id": Field("text"),
        "extra": Field("object"),
    },
    "metrics": {
        "prompt_tokens": Field("count"),
        "completion_tokens": Field("count"),
        "cached_tokens": Field("count"),
        "cost_usd": Field("number"),
        "prompt_token_ids": Field("integer", many=True, since=4),
        "completion_token_ids": Field("integer", many=True, since=3),
        "logprobs": Field("number", many=True),
        "extra": Field("object"),
    },
    "final_metrics": {
        "total_prompt_tokens": Field("count"),
        "total_completion_tokens": Field("count"),
        "total_cached_tokens": Field("count"),
        "total_cost_usd": Field("number"),
        "total_steps": Field("count"),
        "extra": Field("object"),
    },
    "part": {
        "type": Field("text", required=True),
        "text": Field("text"),
        "source": Field("media"),
    },
    "media": {
        "media_type": Field("text", required=True),
        "path": Field("text", required=True),
        "duration_sec": Field("number", since=8),
    },
}


def _is_time(value: object) -> bool:
    if not isinstance(value, str):
        return False
    try:
        datetime.fromisoformat(value)
    except ValueError:
        return False
    return True


def is_number(value: object) -> bool:
    """Whether a JSON value is a number; `true` is none."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_integer(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


TYPES: Final[dict[str, tuple[str, Callable[[Any], bool]]]] = {
    "text": ("a string", lambda value: isinstance(value, str)),
    "integer": ("an integer", _is_integer),
    "count": ("an integer of at least 0", lambda value: _is_integer(value) and value >= 0),
    "number": ("a number", is_number),
    "boolean": ("true or false", lambda value: isinstance(value, bool)),
    "object": ("an object", lambda value: isinstance(value, dict)),
    "time": ("an ISO 8601 time", _is_time),
    "source": ("system, user or agent", lambda value: value in ("system", "user", "agent")),
    "effort": ("a string or a number", lambda value: isinstance(value, str) or is_number(value)),
    "content": ("a string or a list of parts", lambda value: isinstance(value, str | list)),
}
"""What is no object of its own: how to say it, and whether a value is one."""


def minor_version(schema_version: object) -> int | None:
    """N of ATIF-v1.N; None if it is no such version."""
    found = _VERSION.fullmatch(schema_version) if isinstance(schema_version, str) else None
    return int(found[1]) if found else None


def part_fault(part: object) -> str | None:
    """What keeps a value from being a part of a content; None if it is one."""
    if not isinstance(part, dict):
        return "is no object"
    kind, text, source = part.get("type"), part.get("text"), part.get("source")
    if kind == "text":
        if not isinstance(text, str):
            return "is of type text and has no text"
        return "is of type text and has a source" if source is not None else _unknown(part, "part")
    if kind not in ("image", "audio"):
        return f"is of type {str(kind)[:40]!r}, not text, image or audio"
    if text is not None:
        return f"is of type {kind} and has a text"
    if not isinstance(source, dict) or not isinstance(source.get("path"), str) or not source["path"]:
        return f"is of type {kind} and has no source with a path"
    if source.get("media_type") not in (IMAGES if kind == "image" else AUDIO):
        return f"is of type {kind} and of media type {str(source.get('media_type'))[:40]!r}"
    seconds = source.get("duration_sec")
    if seconds is not None and (kind == "image" or not is_number(seconds) or seconds < 0):
        return "has a duration_sec that is none"
    return _unknown(part, "part") or _unknown(source, "media")


def _unknown(value: dict[str, Any], kind: str) -> str | None:
    names = sorted(value.keys() - OBJECTS[kind].keys())
    return f"has the unknown field {names[0][:40]!r}" if names else None
