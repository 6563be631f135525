"""Moves what is large out of payloads: a text over 64 KB, a long list of numbers, becomes the
reference to a blob, wherever the vocabulary lets a field be one or the JSON is verbatim anyway."""

from collections.abc import Callable
from functools import cache
from typing import Any, get_args, get_type_hints

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from core import vocabulary
from core.vocabulary import BlobRef, Payload

LARGE = 65_536
"""Bytes of UTF-8 that a text may have inside an event."""

LARGE_RAW = 524_288
"""Bytes of verbatim JSON that may stay in an event once its large texts are gone."""

Keep = Callable[[bytes], BlobRef]

_encode = msgspec.json.encode


def body(payload: Payload, keep: Keep) -> bytes:
    """The payload's JSON, its large parts stored with `keep`."""
    text = vocabulary.body(payload)
    return text if len(text) <= LARGE else vocabulary.body(_struct(payload, keep))


def _struct(value: Struct, keep: Keep) -> Any:
    changed = {}
    for name in value.__struct_fields__:
        old = getattr(value, name)
        new = _field(old, keep, _may_be_blob(type(value), name))
        if new is not old:
            changed[name] = new
    return replace(value, **changed) if changed else value


def _field(value: Any, keep: Keep, may_be_blob: bool) -> Any:
    if isinstance(value, Raw):
        return _raw(value, keep)
    if isinstance(value, Struct):
        return _struct(value, keep)
    if may_be_blob and isinstance(value, str):
        return _text(value, keep)
    if may_be_blob and isinstance(value, list):
        encoded = _encode(value)
        return keep(encoded) if len(encoded) > LARGE else value
    if isinstance(value, list) and value and isinstance(value[0], Struct):
        new = [_struct(item, keep) for item in value]
        return new if any(a is not b for a, b in zip(new, value, strict=True)) else value
    return value


def _raw(raw: Raw, keep: Keep) -> Raw:
    text = bytes(raw)
    if len(text) <= LARGE:
        return raw
    old = msgspec.json.decode(text)
    new = _plain(old, keep)
    if new is not old:
        text = _encode(new)
    return Raw(_encode(keep(text)) if len(text) > LARGE_RAW else text)


def _plain(value: Any, keep: Keep) -> Any:
    if isinstance(value, str):
        return _text(value, keep)
    if isinstance(value, list):
        items = [_plain(item, keep) for item in value]
        return items if any(a is not b for a, b in zip(items, value, strict=True)) else value
    if isinstance(value, dict):
        fields = {name: _plain(item, keep) for name, item in value.items()}
        return fields if any(fields[name] is not value[name] for name in value) else value
    return value


def _text(value: str, keep: Keep) -> Any:
    if len(value) * 4 <= LARGE:
        return value
    encoded = value.encode()
    return keep(encoded) if len(encoded) > LARGE else value


@cache
def _may_be_blob(type_: type[Struct], name: str) -> bool:
    return BlobRef in get_args(get_type_hints(type_)[name])
