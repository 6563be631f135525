"""Reads fields whose type may be wrong: what does not fit stays where it is, and so in `extra`."""

from typing import Any

from msgspec import Raw

from core.errors import BadRecord
from eventlog.interchange.messages import Fields


def soft(fields: Fields, name: str, kind: Any, *, peek: bool = False) -> Any:
    """A field's value; None if it is absent, null, or of another type, which leaves it where it is."""
    try:
        value = fields.peek(name, kind)
    except BadRecord:
        return None
    if value is None or not peek:
        fields.raw(name)
    return value


def is_object(fields: Fields, name: str) -> bool:
    return soft(fields, name, dict[str, Raw], peek=True) is not None


def is_list(fields: Fields, name: str) -> bool:
    """Whether a field is a list of objects."""
    return soft(fields, name, list[dict[str, Raw]], peek=True) is not None


def content_of(fields: Fields, name: str) -> Raw | None:
    """A text or a list of parts, verbatim; None if it is neither, which leaves it where it is."""
    raw = fields.raw(name)
    if raw is None or bytes(raw) == b"null":
        return None
    if bytes(raw)[:1] in (b'"', b"["):
        return raw
    fields.put(name, raw)
    return None
