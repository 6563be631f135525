"""Images inside records: taken out of data URLs and stored as blobs, once they are known to be images."""

import re
from base64 import b64decode
from binascii import Error
from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import Raw

from core.errors import BadRecord
from core.vocabulary import BlobRef
from eventlog.blobs.media_type import sniff

_KNOWN = "PNG, JPEG, GIF, WebP or SVG"
_PARTS = frozenset({"image", "image_url", "input_image"})
_DATA_URL = re.compile(r"data:image/[^,;]*;base64,", re.IGNORECASE)
_PNG = b"\x89PNG\r\n\x1a\n"

Fault = Callable[[str], BadRecord]


def fault_of(data: bytes) -> str | None:
    """Why these bytes are no image; None if they are one."""
    kind = sniff(data)
    if not kind.startswith("image/"):
        return f"no image: it is {kind}, not {_KNOWN}"
    return "a PNG cut short" if data.startswith(_PNG) and size_of(data) is None else None


def size_of(data: bytes) -> tuple[int, int] | None:
    """A PNG's width and height in pixels; None for anything else."""
    if not data.startswith(_PNG) or data[12:16] != b"IHDR" or len(data) < 33:
        return None
    return int.from_bytes(data[16:20]), int.from_bytes(data[20:24])


def is_data_url(text: str) -> bool:
    return _DATA_URL.match(text) is not None


def of_data_url(text: str, fault: Fault) -> bytes:
    """The image that a data URL holds; `fault` is raised if it holds none."""
    return _decoded(text.partition(",")[2], fault)


def kept(content: Raw, keep: Callable[[bytes], BlobRef], fault: Fault) -> Raw:
    """A message's content with the images of its parts stored as blobs, by which they are replaced."""
    text = bytes(content)
    if not text.startswith(b"[") or b"base64" not in text:
        return content
    parts = msgspec.json.decode(text)
    new = [_part(part, keep, fault) for part in parts]
    return content if new == parts else Raw(msgspec.json.encode(new))


def _part(part: Any, keep: Callable[[bytes], BlobRef], fault: Fault) -> Any:
    if isinstance(part, dict) and part.get("type") in _PARTS:
        return {name: _image(value, keep, fault) for name, value in part.items()}
    return part


def _image(value: Any, keep: Callable[[bytes], BlobRef], fault: Fault) -> Any:
    if isinstance(value, str) and is_data_url(value):
        return keep(of_data_url(value, fault))
    if isinstance(value, dict):
        fields = {name: _image(item, keep, fault) for name, item in value.items()}
        if value.get("type") == "base64" and isinstance(value.get("data"), str):
            fields["data"] = keep(_decoded(value["data"], fault))
        return fields
    return value


def _decoded(text: str, fault: Fault) -> bytes:
    try:
        data = b64decode(text, validate=True)
    except (Error, ValueError):
        raise fault("holds an image whose base64 is malformed") from None
    why = fault_of(data)
    if why:
        raise fault(f"holds what is said to be an image and is {why}")
    return data
