"""Whether what came back now is what was recorded. Pure.

Of an imported episode the contents are compared: the text, or, where both are JSON, value by value. What
trajlog recorded itself is compared as a whole feedback, but for what is measured (clock, cost).
"""

from typing import Any, Final

import msgspec
from msgspec import UNSET, Raw

from core.vocabulary.contract import ExecError, Feedback, Observation, ToolResult
from eventlog.comparison.differences import Difference, differences

_MEASURED: Final = frozenset({"kind", "clock", "cost", "deltas", "value", "schema_valid"})
_FAILED: Final = frozenset({"timeout", "transport_lost", "backend_bug"})
"""Errors whose words and effect depend on who noticed."""


def compare(recorded: Feedback, actual: Feedback, *, imported: bool) -> list[Difference]:
    """Every place where they differ; paths are those of the result's value, from `$`."""
    if isinstance(recorded, ToolResult) and isinstance(actual, ToolResult) and recorded.value == actual.value:
        return [] if imported else _besides(recorded, actual)
    if imported and isinstance(recorded, ToolResult) and isinstance(actual, ToolResult):
        text = msgspec.json.decode(actual.value)
        if isinstance(text, str) and text.encode() == bytes(recorded.value):
            return []
    if isinstance(recorded, ExecError) and isinstance(actual, ExecError):
        if recorded.class_ == actual.class_ == "unknown_tool":
            return []
        if imported or recorded.class_ == actual.class_ in _FAILED:
            known = imported and recorded.message is not None
            same = recorded.message == actual.message if known else recorded.class_ == actual.class_
            return [] if same else _contents(recorded, actual)
    if imported:
        return _contents(recorded, actual)
    if recorded.kind != actual.kind:
        return [Difference("$", _unlike(recorded), _unlike(actual))]
    if isinstance(recorded, ToolResult):
        return [*_contents(recorded, actual), *_besides(recorded, actual)]
    return [*differences(_told(recorded), _told(actual)), *_besides(recorded, actual)]


def _contents(recorded: Feedback, actual: Feedback) -> list[Difference]:
    a, b = _content(recorded), _content(actual)
    if isinstance(a, str) is not isinstance(b, str):
        a, b = _opened(a), _opened(b)
    return list(differences(a, b))


def _besides(recorded: Feedback, actual: Feedback) -> list[Difference]:
    """Differences in the changes of state that were told along."""
    if recorded.deltas is UNSET and actual.deltas is UNSET:
        return []
    found = differences(_json(recorded.deltas), _json(actual.deltas))
    return [msgspec.structs.replace(one, path=f"deltas{one.path[1:]}") for one in found]


def _content(feedback: Feedback) -> Any:
    if isinstance(feedback, ToolResult):
        return _json(feedback.value)
    if isinstance(feedback, ExecError) and isinstance(feedback.message, str):
        return feedback.message
    return _told(feedback)


def _told(feedback: Feedback) -> Any:
    """A feedback that is no tool's result, or stands against one of another kind."""
    if isinstance(feedback, ToolResult):
        return _json(feedback.value)
    said: dict[str, Any] = msgspec.to_builtins(feedback)
    if isinstance(feedback, Observation):
        said["blobs"] = [blob.address for blob in feedback.blobs]
    kept = {name: value for name, value in said.items() if name not in _MEASURED}
    return kept if isinstance(feedback, ExecError) else {"kind": feedback.kind, **kept}


def _unlike(feedback: Feedback) -> Any:
    """A feedback that stands against one of another kind: of an error, what it is."""
    told = _told(feedback)
    return {name: told[name] for name in ("class", "message")} if isinstance(feedback, ExecError) else told


def _opened(value: Any) -> Any:
    """What a text is the JSON of, a number too; else as it is."""
    try:
        return msgspec.json.decode(value) if isinstance(value, str) else value
    except (msgspec.DecodeError, RecursionError):
        return value


def _json(raw: object) -> Any:
    return msgspec.json.decode(raw) if isinstance(raw, Raw) else None
