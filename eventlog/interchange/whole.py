"""Puts large texts back into payloads: the reverse of `eventlog.large`, for what is exported.

A text that was moved to the blob store comes back where the vocabulary expects a text, a list of
numbers where it expects one. Inside verbatim JSON a reference stands for a string; one that is all of
a field stands for the field's JSON. Images and other bytes stay references.
"""

import re
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from core.vocabulary import BlobRef, Payload
from eventlog.large import LARGE

Fetch = Callable[[str], bytes | None]
"""The bytes of a blob by its address; None if it cannot be had."""

_ADDRESS = re.compile(r"sha256:[0-9a-f]{64}")
_HINT = b'"address"'

_encode = msgspec.json.encode


def whole(payload: Payload, fetch: Fetch) -> Payload:
    """The payload with its large parts in place, as far as `fetch` finds them."""
    made = _struct(payload, fetch)
    assert isinstance(made, Payload)
    return made


def reference(value: object) -> BlobRef | None:
    """The blob that a JSON value stands for; None if it is anything else."""
    if not isinstance(value, dict) or value.keys() != {"address", "size", "media_type"}:
        return None
    address, size, media_type = value["address"], value["size"], value["media_type"]
    if not (isinstance(address, str) and isinstance(size, int) and isinstance(media_type, str)):
        return None
    return BlobRef(address, size, media_type) if _ADDRESS.fullmatch(address) else None


def references(value: object) -> Iterator[BlobRef]:
    """Every blob that a JSON value refers to."""
    blob = reference(value)
    if blob is not None:
        yield blob
    elif isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from references(item)


def _struct(value: Struct, fetch: Fetch) -> Struct:
    changed = {}
    for name in value.__struct_fields__:
        old = getattr(value, name)
        new = _field(old, fetch, type(value), name)
        if new is not old:
            changed[name] = new
    return replace(value, **changed) if changed else value


def _field(value: Any, fetch: Fetch, owner: type[Struct], name: str) -> Any:
    if isinstance(value, Raw):
        return _raw(value, fetch, texts=name == "content")
    if isinstance(value, BlobRef):
        return _referred(value, fetch, _alternatives(owner, name))
    if isinstance(value, Struct):
        return _struct(value, fetch)
    if isinstance(value, list) and value and isinstance(value[0], Struct) and not isinstance(value[0], BlobRef):
        new = [_struct(item, fetch) for item in value]
        return new if any(a is not b for a, b in zip(new, value, strict=True)) else value
    return value


def _referred(value: BlobRef, fetch: Fetch, kinds: frozenset[type]) -> Any:
    if not kinds & {str, list}:
        return value
    data = fetch(value.address)
    if data is None:
        return value
    try:
        return data.decode() if str in kinds else msgspec.json.decode(data)
    except ValueError:
        return value


def _raw(raw: Raw, fetch: Fetch, *, texts: bool) -> Raw:
    """`texts`: the field holds a string or a list of parts, never another object."""
    text = bytes(raw)
    if _HINT not in text:
        return raw
    old = msgspec.json.decode(text)
    blob = reference(old)
    if blob is not None:
        return _field_of(blob, fetch, texts) or raw
    new = _plain(old, fetch)
    return raw if new is old else Raw(_encode(new))


def _field_of(blob: BlobRef, fetch: Fetch, texts: bool) -> Raw | None:
    data = fetch(blob.address) if _was_moved(blob) else None
    if data is None:
        return None
    try:
        value = msgspec.json.decode(data)
    except (ValueError, RecursionError):
        value = None
    if isinstance(value, list) or (isinstance(value, dict) and not texts):
        return Raw(data.strip())
    return Raw(_encode(data.decode()))


def _plain(value: Any, fetch: Fetch) -> Any:
    blob = reference(value)
    if blob is not None:
        data = fetch(blob.address) if _was_moved(blob) else None
        return value if data is None else data.decode()
    if isinstance(value, list):
        items = [_plain(item, fetch) for item in value]
        return items if any(a is not b for a, b in zip(items, value, strict=True)) else value
    if isinstance(value, dict):
        fields = {name: _plain(item, fetch) for name, item in value.items()}
        return fields if any(fields[name] is not value[name] for name in value) else value
    return value


def _was_moved(blob: BlobRef) -> bool:
    """Whether a blob is a text that was too large for its event. A smaller one was a blob before."""
    return blob.size > LARGE and is_text(blob)


def is_text(blob: BlobRef) -> bool:
    return blob.media_type.startswith("text/") or blob.media_type in (
        "application/json",
        "application/xml",
        "image/svg+xml",
    )


@cache
def _alternatives(owner: type[Struct], name: str) -> frozenset[type]:
    hint = get_type_hints(owner)[name]
    return frozenset(get_origin(member) or member for member in (get_args(hint) or (hint,)))
