"""Rows of a Langfuse export, read whichever way their fields are named and their values written."""

import re
from typing import Any

import msgspec
from msgspec import Raw

from core import times
from core.errors import BadEvent
from core.vocabulary.episode import Usage
from eventlog.interchange.extras import raw
from eventlog.interchange.messages import Fields, json_text
from eventlog.interchange.turns import NULL

_object = msgspec.json.Decoder(dict[str, Raw]).decode
_HUMP = re.compile(r"(?<=[a-z])(?=[A-Z])")


class Row:
    """A row, whose fields may be named either way: `startTime` or `start_time`."""

    def __init__(self, fields: Fields) -> None:
        self.fields = fields
        self.whole = raw(fields.rest()) or Raw(b"{}")
        self._json = _object(self.whole)
        self.id = self.peek("id", str | int)

    def peek(self, name: str, kind: Any) -> Any:
        """A field's value; None if it is absent, null or, as exports write it, an empty text."""
        values = (self.fields.peek(each, kind) for each in _names(name))
        return next((value for value in values if value is not None and value != ""), None)

    def take(self, name: str, kind: Any) -> Any:
        """A field's value, taken out."""
        value = self.peek(name, kind)
        if value is not None:
            self.drop(name)
        return value

    def json(self, name: str) -> Raw | None:
        """A field's JSON, also where it was exported as a text; None if it is absent or empty."""
        found = (self._json.get(each, NULL) for each in _names(name))
        return next((unquoted(value) for value in found if bytes(value) not in (b"null", b'""')), None)

    def take_json(self, name: str) -> Raw | None:
        """A field's JSON, taken out."""
        value = self.json(name)
        self.drop(name)
        return value

    def drop(self, *names: str) -> None:
        """Take fields that repeat what is known."""
        for name in names:
            for each in _names(name):
                self.fields.raw(each)

    def rest(self) -> Raw | None:
        """What was not taken, without what is empty."""
        left = self.fields.rest()
        for name, value in _object(left).items() if isinstance(left, Raw) else ():
            if bytes(value) in EMPTY:
                self.fields.raw(name)
        return raw(self.fields.rest())


EMPTY = (b"null", b'""', b"{}", b"[]")


def _names(name: str) -> tuple[str, str]:
    return name, _HUMP.sub("_", name).lower()


def usage_of(row: Row) -> Usage | None:
    """Tokens. Where the parts add up to the total they exclude each other, as Langfuse counts them."""
    name = "usageDetails" if _numbers(row.json("usageDetails")) else "usage"
    details = _numbers(row.json(name))
    if not details:
        old = [row.take(each, int) for each in ("promptTokens", "completionTokens")]
        row.drop("totalTokens", "unit")
        return Usage(*old) if any(old) else None
    row.drop("promptTokens", "completionTokens", "totalTokens", "unit")
    if name == "usageDetails":
        row.drop("usage")
    parts = {key: int(value) for key, value in details.items() if key != "total"}
    apart = len(parts) > 2 and sum(parts.values()) == details.get("total")
    sides = [[n for key, n in parts.items() if side in key] for side in ("input", "output")]
    prompt, completion = (sum(side) for side in sides) if apart else (parts.get("input"), parts.get("output"))
    thinking = next((key for key in parts if "reasoning" in key), "")
    cached = next((key for key in parts if "cache" in key and ("read" in key or "cached" in key)), "")
    if parts.keys() <= {"input", "output", thinking, cached}:
        row.drop(name)
    return Usage(prompt, completion, parts.get(thinking), parts.get(cached))


def cost_of(row: Row) -> float | None:
    costs = [row.take(name, float) for name in ("totalCost", "calculatedTotalCost")]
    details = _numbers(row.json("costDetails"))
    if details.keys() <= {"total"}:
        row.drop("costDetails")
    return next((cost for cost in (*costs, details.get("total")) if cost is not None), None)


def _numbers(value: Raw | None) -> dict[str, float]:
    fields = msgspec.json.decode(value) if value is not None and bytes(value).startswith(b"{") else {}
    return {name: each for name, each in fields.items() if isinstance(each, int | float) and not isinstance(each, bool)}


def unquoted(value: Raw) -> Raw:
    """JSON that was exported as a text, as itself."""
    if bytes(value).startswith(b'"'):
        text = msgspec.json.decode(value, type=str)
        if text.lstrip()[:1] in ("{", "["):
            return json_text(text) or value
    return value


def time_of(text: str | None) -> int | None:
    """A time of an export; one without a zone is UTC, as Langfuse writes it."""
    if text is None:
        return None
    for zoned in (text, f"{text}Z"):
        try:
            return times.from_text(zoned)
        except BadEvent:
            continue
    return None
