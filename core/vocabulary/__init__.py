"""Every type of event: what it says, how it is read and written.

`TYPES` maps a type's name to its struct. Reading is tolerant: an event of an unknown type, of a newer
schema, or whose payload does not fit is `Unknown`, with its bytes; a field that a newer writer added
is not in the struct, but it is in `event.body`, which is what is shown raw, exported and digested.
Nothing is ever encoded again from a struct that was read.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from importlib import import_module
from types import ModuleType
from typing import Any

import msgspec

from core.errors import BadEvent
from core.event import Event
from core.upcast import lift
from core.vocabulary import episode
from core.vocabulary.base import BlobRef, Payload

__all__ = ["TYPES", "BlobRef", "Payload", "Unknown", "body", "catalogue", "payload"]

DOMAINS = (
    "episode",
    "task",
    "environment",
    "allocation",
    "replay",
    "memory",
    "recall",
    "intent",
    "skill",
    "diagnosis",
    "review",
    "curation",
    "proposal",
    "release",
    "rollout",
    "care",
    "training",
    "model",
    "device",
    "access",
    "erasure",
)
"""The modules of this package that hold types, in the order of the catalogue."""


class Unknown(msgspec.Struct, frozen=True):
    """What an event says that this version of trajlog cannot read: kept and shown raw."""

    type: str
    schema: int
    raw: bytes
    why: str = ""


class Types(Mapping[str, type[Payload]]):
    """Type names and their structs. Only `episode` is imported at once: the rest when first needed."""

    def __init__(self) -> None:
        self._known = _types(episode)
        self._whole = False

    def __getitem__(self, name: str) -> type[Payload]:
        return self._known[name] if name in self._known else self._all()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._all())

    def __len__(self) -> int:
        return len(self._all())

    def _all(self) -> dict[str, type[Payload]]:
        if not self._whole:
            self._known = {
                name: type_
                for domain in DOMAINS
                for name, type_ in _types(import_module(f"core.vocabulary.{domain}")).items()
            }
            self._whole = True
        return self._known


def payload(event: Event) -> Payload | Unknown:
    """What the event says, lifted to the current schema."""
    read = _reader(event.type, event.schema)
    if isinstance(read, str):
        return Unknown(event.type, event.schema, event.body, read)
    try:
        return read(event.body)
    except (msgspec.MsgspecError, ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        return Unknown(event.type, event.schema, event.body, str(error))


def body(payload: Payload) -> bytes:
    """The payload's JSON, as an event's body. BadEvent if it cannot be written."""
    try:
        return _encode(payload)
    except (msgspec.MsgspecError, ValueError, TypeError, OverflowError, RecursionError) as error:
        raise BadEvent(f"payload cannot be written as JSON: {error}", where=type(payload).__name__) from error


def catalogue() -> list[dict[str, Any]]:
    """Every type as `{type, status, fields, example}`, from the code itself."""
    from core.vocabulary.describe import describe

    return [describe(name, type_) for name, type_ in TYPES.items()]


def _types(domain: ModuleType) -> dict[str, type[Payload]]:
    return {
        name: member
        for name, member in vars(domain).items()
        if isinstance(member, type)
        and issubclass(member, Payload)
        and member.__module__ == domain.__name__
        and not name.startswith("_")
    }


@lru_cache(maxsize=4_096)
def _reader(name: str, schema: int) -> Callable[[bytes], Payload] | str:
    """How to read a body of this type and schema, or why it cannot be read."""
    type_ = TYPES.get(name)
    if type_ is None:
        return "no such type in this version"
    if schema > type_.schema_number:
        return f"schema {schema} is newer than this version's {type_.schema_number}"
    read = msgspec.json.Decoder(type_).decode
    if schema == type_.schema_number:
        return read
    steps = type_.lifts
    return lambda data: read(_encode(lift(_fields(data), schema, steps)))


_encode = msgspec.json.Encoder().encode
_fields = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode

TYPES: Mapping[str, type[Payload]] = Types()
