"""Reads fields whose type may be wrong: what does not fit stays where it is, and so in `extra`."""

from typing import Any

from msgspec import Raw

from core.errors import BadRecord
from eventlog.interchange.mapping.messages import Fields


def soft(fields: Fields, name: str, kind: Any, *, peek: bool = False) -> Any:
    """A field's value; None if it is absent, null, or of another type, which leaves it where it is."""
    if name not in fields:
        return None
    try:
        value = fields.peek(name, kind)
    except BadRecord:
        return None
    if value is None or not peek:
        fields.raw(name)
    return value


def inner(fields: Fields, name: str) -> Fields | None:
    """The object in a field, what is left in it being left here; None if it is no object, or null."""
    opening = fields.opening(name)
    if opening == b"{":
        return fields.inner(name)
    if opening == b"n":
        fields.raw(name)
    return None


def objects(fields: Fields, name: str, *, apart: bool = False) -> list[Fields]:
    """The objects in a list, what is left in them being left here, or `apart` their own. None of them
    if it is no list of objects."""
    raw = fields.raw(name)
    if raw is None or bytes(raw) == b"null":
        return []
    fields.put(name, raw)
    try:
        return list(fields.each(name)) if apart else fields.parts(name)
    except BadRecord:
        fields.put(name, raw)
        return []


def content_of(fields: Fields, name: str) -> Raw | None:
    """A text or a list of parts, verbatim; None if it is neither, which leaves it where it is."""
    raw = fields.raw(name)
    opening = b"n" if raw is None else bytes(raw)[:1]
    if opening in (b'"', b"["):
        return raw
    if raw is not None and opening != b"n":
        fields.put(name, raw)
    return None
