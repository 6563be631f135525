"""Spans, their events and attributes, taken apart piece by piece: what is not taken is left as it was
written.
"""

from typing import Any

import msgspec
from msgspec import Raw, Struct

from core.errors import BadRecord
from core.event import MAX_TIME
from eventlog.interchange.otlp.json import AnyValue, KeyValue, as_json, id_bytes, value_of

_ERROR = 2
_MAPPED = frozenset({"attributes", "events", "status"})
_encode = msgspec.json.encode
_object = msgspec.json.Decoder(dict[str, Raw]).decode
_list = msgspec.json.Decoder(list[Raw]).decode
_pair = msgspec.json.Decoder(KeyValue).decode
_pairs = msgspec.json.Decoder(list[KeyValue] | None).decode


class Attributes:
    """A list of attributes, taken one by one. What is not taken is left as it was written."""

    def __init__(self, pairs: Raw) -> None:
        self._raw = pairs
        self._left: dict[str, tuple[int, AnyValue | None]] = {}
        self._taken: set[int] = set()
        given = _readable(pairs)
        self._count = len(given)
        for index, pair in enumerate(given):
            if pair is not None and pair.key not in self._left:
                self._left[pair.key] = index, pair.value

    def __contains__(self, key: str) -> bool:
        return key in self._left

    def left(self) -> list[str]:
        """The keys that are left."""
        return list(self._left)

    def peek(self, key: str) -> Any:
        """A value as Python has it; None if it is absent, or none that OTLP knows."""
        found = self._left.get(key)
        try:
            return None if found is None else value_of(found[1])
        except ValueError:
            return None

    def take(self, kind: type | tuple[type, ...], *keys: str) -> Any:
        """The value of the first of these keys that has one of this kind; others are left."""
        for key in keys:
            value = self.peek(key) if key in self._left else None
            if isinstance(value, kind) and not (isinstance(value, bool) and kind is not bool):
                self._take(key)
                return value
        return None

    def text(self, *keys: str) -> str | None:
        return self.take(str, *keys)  # type: ignore[no-any-return]

    def integer(self, *keys: str) -> int | None:
        return self.take(int, *keys)  # type: ignore[no-any-return]

    def number(self, *keys: str) -> float | None:
        value = self.take((int, float), *keys)
        return None if value is None else float(value)

    def json(self, *keys: str) -> Raw | None:
        """The JSON of the first of these keys: the text of a string that holds an object or a list,
        verbatim; any other value written as JSON."""
        for key in keys:
            if key in self._left:
                value = self.peek(key)
                self._take(key)
                return as_json(value)
        return None

    def indexed(self, prefix: str, *, take: bool = True) -> dict[str, Any]:
        """Keys such as `prefix.0.role`, as nested objects `{"0": {"role": …}}`."""
        tree: dict[str, Any] = {}
        for key in self.left():
            path = key.removeprefix(f"{prefix}.").split(".") if key.startswith(f"{prefix}.") else []
            value = self.peek(key) if path and path[0].isdigit() else None
            if value is None or not _put(tree, path, value):
                continue
            if take:
                self._take(key)
        return tree

    def drop(self, key: str, value: object) -> None:
        """Take an attribute that only repeats what is known."""
        if key in self._left and self.peek(key) == value:
            self._take(key)

    def rest(self) -> list[Raw]:
        """What was not taken, verbatim."""
        if len(self._taken) == self._count:
            return []
        return [raw for index, raw in enumerate(_list(self._raw)) if index not in self._taken]

    def _take(self, key: str) -> None:
        self._taken.add(self._left.pop(key)[0])


class _Status(Struct):
    code: int | str | None = None
    message: str | None = None


class _Span(Struct):
    trace: str | None = msgspec.field(default=None, name="traceId")
    id: str | None = msgspec.field(default=None, name="spanId")
    parent: str | None = msgspec.field(default=None, name="parentSpanId")
    name: str | None = None
    start: int | str | None = msgspec.field(default=None, name="startTimeUnixNano")
    end: int | str | None = msgspec.field(default=None, name="endTimeUnixNano")
    attributes: Raw = Raw(b"[]")
    events: Raw = Raw(b"[]")
    links: Raw = Raw(b"[]")
    status: _Status | None = None
    dropped: int | None = msgspec.field(default=None, name="droppedAttributesCount")


class Span:
    """A span: what every mapping needs of it. Times are ns; `data` is the span as it was written."""

    def __init__(self, data: bytes | Raw, where: str) -> None:
        self.data = data
        self.where = where
        try:
            span = _span(data)
            self.trace = id_bytes(span.trace or "", 16, "traceId")
            self.id = id_bytes(span.id or "", 8, "spanId")
            self.parent = id_bytes(span.parent, 8, "parentSpanId") if span.parent and span.parent.strip("0") else None
            self.start = nanos(span.start, "startTimeUnixNano")
            self.end = nanos(span.end, "endTimeUnixNano")
            self.attributes = Attributes(span.attributes)
            self.events = [Happened(event, where) for event in _list(span.events)]
        except ValueError as error:
            raise self.fault(str(error)) from None
        self.name = span.name or ""
        self.links = bytes(span.links) not in (b"[]", b"null")
        self.dropped = span.dropped or 0
        status = span.status or _Status()
        self.code, self.message = status.code, status.message
        self.failed = self.code in (_ERROR, str(_ERROR), "STATUS_CODE_ERROR")
        self.kind: str | None = None
        """Which part it plays in the episode, once that is known."""

    def fault(self, what: str) -> BadRecord:
        return BadRecord(f"span: {what[:1].lower()}{what[1:]}", where=self.where)

    @property
    def began_at(self) -> int | None:
        return None if self.start is None else self.start // 1000

    @property
    def ended_at(self) -> int | None:
        return None if self.end is None else self.end // 1000

    @property
    def latency_ms(self) -> float | None:
        if self.start is None or self.end is None or self.end < self.start:
            return None
        return (self.end - self.start) / 1e6

    def rest(self) -> Raw:
        """The span as it was written, without the attributes, events and error that were mapped."""
        left = {name: raw for name, raw in _object(self.data).items() if name not in _MAPPED}
        attributes = self.attributes.rest()
        if attributes:
            left["attributes"] = Raw(_encode(attributes))
        for name, is_log in (("events", False), ("logRecords", True)):
            kept = [event.data for event in self.events if event.is_log is is_log and not event.mapped]
            if kept:
                left[name] = Raw(_encode(kept))
        if self.code not in (None, 0) or self.message is not None:
            status = {"code": self.code} | ({"message": self.message} if self.message is not None else {})
            left["status"] = Raw(_encode(status))
        return Raw(_encode(left))


class _Happened(Struct):
    name: str | None = None
    event_name: str | None = msgspec.field(default=None, name="eventName")
    at: int | str | None = msgspec.field(default=None, name="timeUnixNano")
    seen_at: int | str | None = msgspec.field(default=None, name="observedTimeUnixNano")
    attributes: Raw = Raw(b"[]")
    body: AnyValue | None = None


class Happened:
    """An event of a span, or a log record that belongs to it. `ValueError` if it is neither."""

    def __init__(self, data: Raw, where: str, *, is_log: bool = False) -> None:
        self.data = data
        self.is_log = is_log
        happened = _happened(data)
        self.attributes = Attributes(happened.attributes)
        self.name = happened.event_name or happened.name or self.attributes.peek("event.name") or ""
        self.at = nanos(happened.at, "timeUnixNano") or nanos(happened.seen_at, "observedTimeUnixNano")
        self.body = value_of(happened.body)
        self.mapped = False
        """Whether all it says is told by the episode's events."""

    def said(self) -> dict[str, Any]:
        """What it says: its attributes, and its body's fields over them."""
        said = {key: self.attributes.peek(key) for key in self.attributes.left()}
        return said | (self.body if isinstance(self.body, dict) else {})


def nanos(value: int | str | None, name: str) -> int | None:
    """A time in ns since 1970; None if it is absent, 0 or beyond the year 9999."""
    if isinstance(value, str):
        if not value.isdecimal() or not value.isascii() or len(value) > 20:
            raise ValueError(f"{name}: {value[:40]!r} is no number of nanoseconds")
        value = int(value)
    return value if value and 0 < value // 1000 <= MAX_TIME else None


def _readable(pairs: Raw) -> list[KeyValue] | list[KeyValue | None]:
    """The attributes; None for each that is none, which then is left as it was written."""
    try:
        return _pairs(pairs) or []
    except msgspec.ValidationError:
        return [_or_none(pair) for pair in _list(pairs)]


def _or_none(pair: Raw) -> KeyValue | None:
    try:
        return _pair(pair)
    except msgspec.ValidationError:
        return None


def _put(tree: dict[str, Any], path: list[str], value: Any) -> bool:
    """Put a value at its place; False if the place is both a value and an object."""
    at = tree
    for name in path[:-1]:
        inner = at.setdefault(name, {})
        if not isinstance(inner, dict):
            return False
        at = inner
    if isinstance(at.get(path[-1]), dict):
        return False
    at[path[-1]] = value
    return True


_span = msgspec.json.Decoder(_Span).decode
_happened = msgspec.json.Decoder(_Happened).decode
