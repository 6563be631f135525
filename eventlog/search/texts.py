"""The text of an event, as a person would search it: escapes resolved, line breaks in place.

A value of verbatim JSON stands behind its key (`city: Paris`), so that both are found; the fields of
the contract are not in the text, only what they hold. Texts that lie in the blob store because they
were large are read from there; screenshots, UI trees and token arrays are not.
"""

from collections.abc import Callable
from typing import Any, Final, Literal

import msgspec

Part = Literal["action", "feedback", "message", "thought", "note", "other"]

PARTS: Final[tuple[Part, ...]] = ("action", "feedback", "message", "thought", "note")
"""What a search can be kept to. Everything else an event says (goals, ends, verdicts) is `other`."""

TYPES: Final[dict[Part, tuple[str, ...]]] = {
    "action": ("ActionSubmitted",),
    "feedback": ("FeedbackRecorded",),
    "message": ("MessageRecorded", "ModelResponded"),
    "thought": ("ModelResponded",),
    "note": ("NoteAdded",),
}
"""The types of events that have such a part."""

MAX_BLOB: Final = 16 << 20
"""Bytes of a text in the blob store that are read; a larger one is passed over."""

Fetch = Callable[[str], str | None]
"""A blob's text by its address; None where it is missing or no text."""

Text = tuple[Part, str]

_TEXTUAL = ("text/", "application/json")
_UNSAID = frozenset({"kind", "call_id", "schema_digest", "retryable", "schema_valid", "viewport", "blobs", "role"})


def texts(type_: str, body: bytes, fetch: Fetch) -> list[Text]:
    """The texts of an event by part, each of one line or more."""
    payload = msgspec.json.decode(body)
    collector = _Collector(fetch)
    read = _READ.get(type_)
    if read is not None and "sealed" not in payload:
        try:
            read(collector, payload)
        except (TypeError, LookupError, AttributeError):
            collector = _Collector(fetch)
        else:
            return collector.found
    collector.value("other", payload)
    return collector.found


def step_of(body: bytes) -> int | None:
    """The step that an event says it belongs to."""
    step = msgspec.json.decode(body).get("step")
    return step if isinstance(step, int) else None


class _Collector:
    def __init__(self, fetch: Fetch) -> None:
        self.found: list[Text] = []
        self._fetch = fetch

    def value(self, part: Part, value: Any, key: str = "") -> None:
        """Add a value of JSON, behind its key."""
        if value is None or value == "":
            if key:
                self.found.append((part, key))
        elif isinstance(value, str):
            self.found.append((part, f"{key}: {value}" if key else value))
        elif isinstance(value, dict):
            if isinstance(value.get("address"), str) and "media_type" in value:
                self.value(part, self._blob(part, value), key)
                return
            if key:
                self.found.append((part, f"{key}:"))
            for name, item in value.items():
                self.value(part, item, name)
        elif isinstance(value, list):
            for item in value:
                self.value(part, item, key)
        else:
            self.value(part, msgspec.json.encode(value).decode(), key)

    def fields(self, part: Part, fields: dict[str, Any], *unsaid: str) -> None:
        """Add what the fields of a struct hold, without their names."""
        for name, value in fields.items():
            if name not in _UNSAID and name not in unsaid:
                self.value(part, value)

    def _blob(self, part: Part, blob: dict[str, Any]) -> str:
        address: str = blob["address"]
        wanted = part != "other" and str(blob["media_type"]).startswith(_TEXTUAL) and blob.get("size", 0) <= MAX_BLOB
        text = self._fetch(address) if wanted else None
        return address if text is None else text


def _action(collector: _Collector, payload: dict[str, Any]) -> None:
    collector.fields("action", payload["action"])


def _feedback(collector: _Collector, payload: dict[str, Any]) -> None:
    collector.fields("feedback", payload["feedback"])
    for blob in payload["feedback"].get("blobs", ()):
        collector.value("feedback", blob["address"])
    collector.fields("other", payload, "feedback", "step", "action", "latency_ms")


def _message(collector: _Collector, payload: dict[str, Any]) -> None:
    content = payload.get("content")
    for item in content if isinstance(content, list) else [content]:
        text = item.get("text") if isinstance(item, dict) else None
        collector.value("message", text if isinstance(text, str) else item)
    collector.fields("other", payload, "content", "step")


def _model(collector: _Collector, payload: dict[str, Any]) -> None:
    collector.value("thought", payload.get("thought"))
    collector.value("message", payload.get("content"))
    for name in ("model", "finish_reason", "extra"):
        collector.value("other", payload.get(name))


def _note(collector: _Collector, payload: dict[str, Any]) -> None:
    collector.value("note", payload["text"])


_READ: Final[dict[str, Callable[[_Collector, dict[str, Any]], None]]] = {
    "ActionSubmitted": _action,
    "FeedbackRecorded": _feedback,
    "MessageRecorded": _message,
    "ModelResponded": _model,
    "NoteAdded": _note,
}
