"""Chat messages as most formats hold them: objects read field by field, tool calls and their answers.

What an importer does not take out of a `Fields` is what it could not map: it is kept in the event's
`extra`, verbatim, and counted under the field's path.
"""

import re
from collections.abc import Callable, Iterator
from functools import cache, lru_cache
from typing import Any

import msgspec
from msgspec import Raw

from core.errors import BadRecord
from core.event import MAX_BODY_BYTES, too_deep
from core.vocabulary.base import UNSET, MaybeRaw
from core.vocabulary.contract import ToolCall

_AROUND = len('{"":}')
"""Bytes of the smallest payload around a value."""

_INDEX = re.compile(r"\[\d+\]")

_encode = msgspec.json.encode
_OBJECT = dict[str, Raw]
_OBJECTS = list[dict[str, Raw]]
_NULLS = (Raw(b"null"), b"null")
_FUNCTION = Raw(b'"function"')
_whole = msgspec.json.Decoder().decode
_shallow = msgspec.json.Decoder(str | dict[str, Raw] | list[Raw] | None).decode


class Fields:
    """A JSON object whose fields are taken out one by one, verbatim until their type is asked for.

    `path` is where it lies in its record and `where` the record: what a `BadRecord` names. `verbatim`
    is the object's own text, None if it is absent or null.
    """

    __slots__ = ("_index", "_inner", "_left", "_path", "verbatim", "where")

    def __init__(
        self, raw: bytes | Raw | dict[str, Raw], where: str, path: str = "", *, index: int | None = None
    ) -> None:
        self.where = where
        self._path = path
        self._index = index
        self._inner: dict[str, Fields] = {}
        self._left: dict[str, Raw]
        self.verbatim: bytes | Raw | None = None
        if isinstance(raw, dict):
            self._left = raw
        elif raw not in _NULLS:
            self.verbatim = raw
            self._left = self._decode(raw, _OBJECT, "") or {}
        else:
            self._left = {}

    @property
    def path(self) -> str:
        return self._path if self._index is None else f"{self._path}[{self._index}]"

    def __contains__(self, name: str) -> bool:
        return name in self._left

    def peek(self, name: str, kind: Any) -> Any:
        """A field's value, left where it is; None if it is absent or null."""
        raw = self._left.get(name)
        return None if raw is None else self._decode(raw, kind, name)

    def take(self, name: str, kind: Any) -> Any:
        """A field's value; None if it is absent or null."""
        raw = self._left.get(name)
        if raw is None:
            return None
        value = self._decode(raw, kind, name)
        del self._left[name]
        return value

    def drop(self, name: str, value: object) -> None:
        """Take a field that only repeats what is known: any other value is left."""
        raw = self._left.get(name)
        if raw is not None and _whole(raw) == value:
            del self._left[name]

    def put(self, name: str, raw: Raw) -> None:
        """Put a field back that was taken."""
        self._left[name] = raw

    def get(self, name: str) -> Raw | None:
        """A field's JSON, left where it is; None if it is absent."""
        return self._left.get(name)

    def raw(self, name: str) -> Raw | None:
        """A field's JSON; None if it is absent."""
        return self._left.pop(name, None)

    def inner(self, name: str) -> "Fields":
        """The object in a field, empty if it is absent or null. What is left in it is left here."""
        raw = self._left.pop(name, None)
        fields = Fields({} if raw is None else raw, self.where, self._at(name))
        self._inner[name] = fields
        return fields

    def parts(self, name: str) -> list["Fields"]:
        """The objects in a list, none if it is absent or null. What is left in them is left here."""
        parts = list(self.each(name))
        self._inner.update((f"{name}[{i}]", part) for i, part in enumerate(parts))
        return parts

    def each(self, name: str) -> Iterator["Fields"]:
        """The objects in a list, none if it is absent or null. What is left in them is their own."""
        raw = self._left.pop(name, None)
        if raw is not None:
            path = self._at(name)
            for i, item in enumerate(self._decode(raw, _OBJECTS, name) or ()):
                yield Fields(item, self.where, path, index=i)

    def rest(self) -> MaybeRaw:
        """What was not taken, as one JSON object; UNSET if everything was."""
        if not self._left and not self._inner:
            return UNSET
        left = dict(self._left)
        for name, fields in self._inner.items():
            rest = fields.rest()
            if isinstance(rest, Raw):
                left[name] = rest
        return joined(left)

    def unmapped(self) -> list[str]:
        """What was not taken, as reasons to count."""
        if not self._left and not self._inner:
            return []
        found = [_reason(self._at(name)) for name in self._left]
        for fields in self._inner.values():
            found += fields.unmapped()
        return found

    def fault(self, what: str) -> BadRecord:
        return BadRecord(f"{self.path}: {what}" if self.path else what, where=self.where)

    def _at(self, name: str) -> str:
        return f"{self.path}.{name}" if self.path else name

    def _decode(self, raw: bytes | Raw, kind: Any, name: str) -> Any:
        try:
            return decoder(kind)(raw)
        except (ValueError, RecursionError) as error:
            reason = str(error)
            raise self.fault(f"{name}: {reason[:1].lower()}{reason[1:]}" if name else reason) from None


class Calls:
    """The tool calls of an episode that have no answer yet."""

    def __init__(self) -> None:
        self._open: dict[str | None, list[tuple[int, int]]] = {}

    def submitted(self, call_id: str | None, step: int, version: int) -> None:
        """A call was made in `step`; `version` is its event's."""
        self._open.setdefault(call_id, []).append((step, version))

    def answered(self, call_id: str | None) -> tuple[int, int] | None:
        """The (step, version) of the call that this answers: of those with that id, the first one of
        the latest step. None if there is none."""
        waiting = self._open.get(call_id)
        if not waiting:
            return None
        latest = waiting[-1][0]
        return waiting.pop(next(i for i, (step, _) in enumerate(waiting) if step == latest))


def shallow(raw: Raw | bytes) -> str | dict[str, Raw] | list[Raw] | None:
    """JSON, one level of it: a text, an object's fields, a list's items; None if it is none of these."""
    try:
        return _shallow(raw)  # type: ignore[no-any-return]
    except msgspec.ValidationError:  # a number, true or false
        return None


def tool_call(call: Fields) -> ToolCall:
    """An entry of `tool_calls`: `{id, type, function: {name, arguments}}`."""
    function = call.inner("function")
    name = function.take("name", str)
    if name is None:
        raise function.fault("name is missing")
    arguments = function.raw("arguments")
    call_id = call.take("id", str)
    kind = call.raw("type")
    if kind is not None and kind != _FUNCTION:
        raise call.fault(f"type {bytes(kind)[:40].decode()} is no tool call that can be read")
    args, text = arguments_of(arguments)
    return ToolCall(tool=name, args=args, call_id=call_id, args_text=text)


def arguments_of(raw: Raw | None) -> tuple[Raw, str | None]:
    """A call's arguments, and their text if that is no JSON. Recorded as a text, they are that text."""
    if raw is None:
        return Raw(b"null"), None
    text = shallow(raw)
    if not isinstance(text, str):
        return raw, None
    inner = json_text(text)
    return (Raw(b"null"), text) if inner is None else (inner, None)


def tool_value(content: Raw) -> Raw:
    """A tool's answer: where it is a text that holds a JSON object or list, that text; else as it is."""
    text = shallow(content)
    if isinstance(text, str) and text.lstrip()[:1] in ("{", "["):
        return json_text(text) or content
    return content


def json_text(text: str) -> Raw | None:
    """The text as JSON, verbatim; None if it is none that an event could hold."""
    data = text.strip().encode()
    if len(data) + _AROUND > MAX_BODY_BYTES or too_deep(data, around=1):
        return None
    try:
        _whole(data)
    except (ValueError, RecursionError):
        return None
    return Raw(data)


@lru_cache(maxsize=4_096)
def _reason(path: str) -> str:
    return _INDEX.sub("[]", f"{path}: kept in extra")


@cache
def decoder(kind: Any) -> Callable[[bytes | Raw], Any]:
    """What reads JSON that is of this type, or null."""
    return msgspec.json.Decoder(kind | None).decode


def joined(fields: dict[str, Raw]) -> MaybeRaw:
    """A JSON object of verbatim fields; UNSET if there are none."""
    if not fields:
        return UNSET
    return Raw(_encode(fields))
