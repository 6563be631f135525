"""Rows of a Langfuse export, read whichever way their fields are named and their values written."""

import re
from collections.abc import Callable, Set
from functools import lru_cache
from typing import ClassVar, NamedTuple, TypeVar, cast, get_type_hints

import msgspec
from msgspec import Raw

from core import times
from core.errors import BadEvent, BadRecord
from core.vocabulary.episode import Usage
from eventlog.interchange.mapping.messages import json_text, shallow

TEXT = msgspec.json.Decoder(str).decode
NUMBER = msgspec.json.Decoder(float).decode
COUNT = msgspec.json.Decoder(int).decode
VALUE = msgspec.json.Decoder(float | bool).decode
ANY = msgspec.json.Decoder().decode
"""What reads a field of a row."""

_id = msgspec.json.Decoder(str | int).decode
_fields = msgspec.json.Decoder(dict[str, Raw]).decode
_HUMP = re.compile(r"_([a-z])")


T = TypeVar("T")


class Plain(msgspec.Struct, rename="camel"):
    """What every observation may say."""

    type: str | None = None
    parent_observation_id: str | None = None
    name: str | None = None
    start_time: str | None = None
    end_time: str | None = None
    level: str | None = None
    status_message: str | None = None
    model: str | None = None
    id: str | int | None = None


class Row:
    """A row, whose fields may be named either way: `startTime` or `start_time`. Asked for are the former.

    Of an `observed` one, what every observation may say is read at once, where it can be."""

    observed: ClassVar[bool] = False

    def __init__(self, raw: Raw, where: str, path: str) -> None:
        self.where = where
        self.path = path
        self.given = given = _fields(raw)
        self._shape = shape = _shape(tuple(given))
        self._plain = _read_plain(shape, raw) if self.observed else None
        names = shape.names if self._plain is None else shape.others
        self._left = {name: value for name, written in names.items() if (value := given[written]) not in _ABSENT}
        id_ = self.peek("id", _id) if self._plain is None else self._plain.id
        self.id = None if id_ == "" else id_

    @property
    def names(self) -> Set[str]:
        """The names of what was not taken."""
        return self._left.keys()

    def take_plain(self) -> Plain:
        """What every observation may say, taken out; an empty text is as good as None."""
        return self._plain or Plain(*(self.take(name, TEXT) for name in _TEXTS))

    def has_any(self, names: frozenset[str]) -> bool:
        """Whether any of these fields was not taken."""
        return not names.isdisjoint(self._left)

    @property
    def whole(self) -> Raw:
        """The row as it was written."""
        return Raw(msgspec.json.encode(self.given))

    def peek(self, name: str, read: Callable[[Raw], T]) -> T | None:
        """A field's value; None if it is absent, null or, as exports write it, an empty text."""
        value = self._left.get(name)
        return None if value is None else self._read(name, value, read)

    def take(self, name: str, read: Callable[[Raw], T]) -> T | None:
        """A field's value, taken out."""
        value = self._left.pop(name, None)
        return None if value is None else self._read(name, value, read)

    def json(self, name: str) -> Raw | None:
        """A field's JSON, also where it was exported as a text; None if it is absent or empty."""
        value = self._left.get(name)
        return None if value is None else unquoted(value)

    def take_json(self, name: str) -> Raw | None:
        """A field's JSON, taken out."""
        value = self._left.pop(name, None)
        return None if value is None else unquoted(value)

    def drop(self, *names: str) -> None:
        """Take fields that repeat what is known."""
        left = self._left
        for name in names:
            left.pop(name, None)

    def rest(self, known: frozenset[str] = frozenset()) -> dict[str, Raw]:
        """What was not taken and is not `known`, without what is empty."""
        written = self._shape.names
        left = self._left.items()
        return {written[name]: value for name, value in left if name not in known and value not in EMPTY}

    def _read(self, name: str, value: Raw, read: Callable[[Raw], T]) -> T:
        try:
            return read(value)
        except ValueError as error:
            reason = str(error)
            what = f"{self.path}: {self._shape.names[name]}: {reason[:1].lower()}{reason[1:]}"
            raise BadRecord(what, where=self.where) from None


_ABSENT = (Raw(b"null"), Raw(b'""'))
EMPTY = (*_ABSENT, Raw(b"{}"), Raw(b"[]"))


_Reads = Callable[[Raw], Plain]
_TEXTS = tuple(name for name in Plain.__struct_encode_fields__ if name != "id")
_PLAIN = frozenset(Plain.__struct_encode_fields__)
_Snake = msgspec.defstruct("_Snake", [(name, type_, None) for name, type_ in get_type_hints(Plain).items()])
_camel: _Reads = msgspec.json.Decoder(Plain).decode
_snake = cast(_Reads, msgspec.json.Decoder(_Snake).decode)


class _Shape(NamedTuple):
    """How a row is read that has these names: each as asked for and as written, and `others` without those of
    `Plain`; and what reads that, None if the row mixes both ways."""

    names: dict[str, str]
    others: dict[str, str]
    read: _Reads | None


@lru_cache(maxsize=256)
def _shape(names: tuple[str, ...]) -> _Shape:
    """Rows of one kind have the same names."""
    camels = tuple(_HUMP.sub(lambda found: found[1].upper(), name) for name in names)
    named = dict(zip(camels, names, strict=True))  # written both ways, the last counts
    mixed = any(name in _PLAIN and name not in Plain.__struct_fields__ for name in names)
    read = _camel if camels == names else None if mixed else _snake
    return _Shape(named, {camel: name for camel, name in named.items() if camel not in _PLAIN}, read)


def _read_plain(shape: _Shape, raw: Raw) -> Plain | None:
    """What a row says; None if something there is not what it should be."""
    try:
        return shape.read(raw) if shape.read else None
    except msgspec.ValidationError:
        return None


_USAGE = frozenset({"usageDetails", "usage", "promptTokens", "completionTokens", "totalTokens", "unit"})
_COST = frozenset({"totalCost", "calculatedTotalCost", "costDetails"})


def usage_of(row: Row) -> Usage | None:
    """Tokens. Where the parts add up to the total they exclude each other, as Langfuse counts them."""
    if not row.has_any(_USAGE):
        return None
    name = "usageDetails"
    details = _numbers(row.json(name))
    if not details:
        name = "usage"
        details = _numbers(row.json(name))
    if not details:
        old = [row.take(each, COUNT) for each in ("promptTokens", "completionTokens")]
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
    if not row.has_any(_COST):
        return None
    costs = [row.take(name, NUMBER) for name in ("totalCost", "calculatedTotalCost")]
    details = _numbers(row.json("costDetails"))
    if details.keys() <= {"total"}:
        row.drop("costDetails")
    return next((cost for cost in (*costs, details.get("total")) if cost is not None), None)


def _numbers(value: Raw | None) -> dict[str, float]:
    if value is None:
        return {}
    fields = msgspec.json.decode(value) if bytes(value).startswith(b"{") else {}
    return {name: each for name, each in fields.items() if isinstance(each, int | float) and not isinstance(each, bool)}


def unquoted(value: Raw) -> Raw:
    """JSON that was exported as a text, as itself."""
    text = shallow(value)
    if isinstance(text, str) and text.lstrip()[:1] in ("{", "["):
        return json_text(text) or value
    return value


def time_of(text: str | None) -> int | None:
    """A time of an export; one without a zone is UTC, as Langfuse writes it."""
    if text is None:
        return None
    try:
        return times.from_text(text if text[-1:] in "Zz" or "+" in text else f"{text}Z")
    except BadEvent:
        return None
