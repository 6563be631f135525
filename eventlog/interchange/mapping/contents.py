"""What messages and tools' answers contain: a text, or a list of parts."""

from typing import Any

import msgspec
from msgspec import Raw

from eventlog.interchange.mapping.messages import json_text, shallow

MAX_GOAL = 65_536
"""Bytes of a first request that may stand in an event twice."""


def text_of(content: Raw) -> str | None:
    """The text that a content is; None if it is no text."""
    text = shallow(content)
    return text if isinstance(text, str) else None


def joined_text(content: Raw) -> str | None:
    """The texts of a list of parts."""
    texts = [part["text"] for part in parts_of(content) if isinstance(part.get("text"), str)]
    return "\n".join(texts) if texts else None


def parts_of(content: Raw) -> list[dict[str, Any]]:
    """The parts of a content that is a list, those that are objects."""
    value = msgspec.json.decode(content)
    return [part for part in value if isinstance(part, dict)] if isinstance(value, list) else []


def goal_of(content: Raw) -> str | None:
    """A first request as a goal."""
    text = text_of(content)
    return text if text and len(text.encode()) <= MAX_GOAL else None


def exact_value(content: Raw) -> Raw:
    """A tool's answer; a text that is exactly a JSON object or list, without white space around it,
    is that."""
    text = text_of(content)
    if text is None or text[:1] not in ("{", "[") or text[-1].isspace():
        return content
    return json_text(text) or content
