"""Spans, their events and attributes, taken apart piece by piece: what is not taken is left as it was
written.
"""

from typing import Any

import msgspec
from msgspec import Raw

from core.event import MAX_TIME
from eventlog.interchange.messages import Fields
from eventlog.interchange.otlp_json import as_json, id_bytes, pair_of, plain

_encode = msgspec.json.encode


class Attributes:
    """A list of attributes, taken one by one. What is not taken is left as it was written."""

    def __init__(self, pairs: list[Raw]) -> None:
        self._raw = [(pair_of(pair), pair) for pair in pairs]
        self._left: dict[str, tuple[int, Raw]] = {}
        self._taken: set[int] = set()
        for index, (pair, _) in enumerate(self._raw):
            self._left.setdefault(pair.key, (index, pair.value))

    def __contains__(self, key: str) -> bool:
        return key in self._left

    def left(self) -> list[str]:
        """The keys that are left."""
        return list(self._left)

    def peek(self, key: str) -> Any:
        """A value as Python has it; None if it is absent, or none that OTLP knows."""
        found = self._left.get(key)
        try:
            return None if found is None else plain(found[1])
        except ValueError:
            return None

    def take(self, kind: type | tuple[type, ...], *keys: str) -> Any:
        """The value of the first of these keys that has one of this kind; others are left."""
        for key in keys:
            value = self.peek(key)
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
        return [raw for index, (_, raw) in enumerate(self._raw) if index not in self._taken]

    def _take(self, key: str) -> None:
        self._taken.add(self._left.pop(key)[0])


class Span:
    """A span: what every mapping needs of it, and its other fields, taken one by one."""

    def __init__(self, data: bytes | Raw, where: str) -> None:
        fields = Fields(data, where, "span")
        trace, span, parent = (fields.peek(name, str) or "" for name in ("traceId", "spanId", "parentSpanId"))
        try:
            self.trace = id_bytes(trace, 16, "traceId")
            self.id = id_bytes(span, 8, "spanId")
            self.parent = id_bytes(parent, 8, "parentSpanId") if parent.strip("0") else None
        except ValueError as error:
            raise fields.fault(str(error)) from None
        self.fields = fields
        self.name = fields.peek("name", str) or ""
        self.start = nanos(fields, "startTimeUnixNano")
        self.end = nanos(fields, "endTimeUnixNano")
        self.attributes = Attributes(fields.take("attributes", list[Raw]) or [])
        self.events = [Happened(raw, where) for raw in fields.take("events", list[Raw]) or []]
        status = Fields(fields.raw("status") or Raw(b"null"), where, "span.status")
        code = status.take("code", int | str)
        self.status = status
        self.failed = code in (2, "STATUS_CODE_ERROR", "2")
        self.message = status.take("message", str)
        self.code = code

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
        left: dict[str, Raw] = {}
        rest = self.fields.rest()
        if isinstance(rest, Raw):
            left |= msgspec.json.decode(rest, type=dict[str, Raw])
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


class Happened:
    """An event of a span, or a log record that belongs to it."""

    def __init__(self, data: Raw, where: str, *, is_log: bool = False) -> None:
        self.data = data
        self.is_log = is_log
        fields = Fields(data, where, "log record" if is_log else "span event")
        self.attributes = Attributes(fields.take("attributes", list[Raw]) or [])
        self.name = fields.peek("eventName" if is_log else "name", str) or self.attributes.peek("event.name") or ""
        self.at = nanos(fields, "timeUnixNano")
        if self.at is None and is_log:
            self.at = nanos(fields, "observedTimeUnixNano")
        body = fields.raw("body") if is_log else None
        self.body = None if body is None or bytes(body) == b"null" else plain(body)
        self.mapped = False
        """Whether all it says is told by the episode's events."""

    def said(self) -> dict[str, Any]:
        """What it says: its attributes, and its body's fields over them."""
        said = {key: self.attributes.peek(key) for key in self.attributes.left()}
        return said | (self.body if isinstance(self.body, dict) else {})


def nanos(fields: Fields, name: str) -> int | None:
    """A time in ns since 1970; None if it is absent, 0 or beyond the year 9999."""
    value = fields.peek(name, int | str)
    if isinstance(value, str):
        if not value.isdecimal() or not value.isascii() or len(value) > 20:
            raise fields.fault(f"{name}: {value[:40]!r} is no number of nanoseconds")
        value = int(value)
    return value if value and 0 < value // 1000 <= MAX_TIME else None


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
