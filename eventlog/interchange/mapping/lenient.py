"""Reads fields whose type may be wrong: what does not fit stays where it is, and so in `extra`."""

from typing import Any

from msgspec import Raw

from core.errors import BadRecord
from eventlog.interchange.mapping.messages import Fields, decoder, shallow
from eventlog.interchange.mapping.turns import NULL


def soft(fields: Fields, name: str, kind: Any, *, peek: bool = False) -> Any:
    """A field's value; None if it is absent, null, or of another type, which leaves it where it is."""
    raw = fields.get(name)
    if raw is None:
        return None
    try:
        value = decoder(kind)(raw)
    except (ValueError, RecursionError):
        return None
    if value is None or not peek:
        fields.raw(name)
    return value


def inner(fields: Fields, name: str) -> Fields | None:
    """The object in a field, what is left in it being left here; None if it is no object, or null."""
    raw = fields.get(name)
    if raw is None:
        return None
    if raw == NULL:
        fields.raw(name)
    return fields.inner(name) if isinstance(shallow(raw), dict) else None


def objects(fields: Fields, name: str, *, apart: bool = False) -> list[Fields]:
    """The objects in a list, what is left in them being left here, or `apart` their own. None of them
    if it is no list of objects."""
    raw = fields.get(name)
    if raw is None:
        return []
    if raw == NULL:
        fields.raw(name)
        return []
    try:
        return list(fields.each(name)) if apart else fields.parts(name)
    except BadRecord:
        fields.put(name, raw)
        return []


def content_of(fields: Fields, name: str) -> Raw | None:
    """A text or a list of parts, verbatim; None if it is neither, which leaves it where it is."""
    raw = fields.raw(name)
    if raw is None or isinstance(shallow(raw), str | list):
        return raw
    if raw != NULL:
        fields.put(name, raw)
    return None
