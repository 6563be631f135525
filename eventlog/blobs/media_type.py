"""What kind of bytes a blob holds: judged by the bytes; a caller may only refine the judgement."""

import codecs
import re
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from json import JSONDecoder

HEAD_BYTES = 65_536

_MAGIC = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"%PDF-", "application/pdf"),
    (b"PK\x03\x04", "application/zip"),
    (b"PK\x05\x06", "application/zip"),
    (b"\x1f\x8b", "application/gzip"),
    (b"\x28\xb5\x2f\xfd", "application/zstd"),
)
_KNOWN = frozenset(kind for _, kind in _MAGIC) | {"image/webp"}
_CONTAINERS = frozenset({"application/zip", "application/gzip", "application/zstd"})
_WELL_FORMED = re.compile(r"[a-z]+/[a-z0-9][a-z0-9!#$&^_.+-]{0,100}(?:; ?[a-z0-9_-]+=[^\s;]+)?", re.IGNORECASE)
_TEXTUAL = re.compile(r"text/.*|.*\+(?:json|xml|yaml)|application/(?:json|xml|.*javascript|.*yaml|.*ndjson|toml|sql)")
_NOT_TEXT = bytes(set(range(32)) - set(b"\t\n\r\f\b\x1b")) + b"\x7f"
_JSON_START = re.compile(rb'\s*(?:\{\s*["}]|\[\s*[]\[{"\-0-9tfn])')
_MARKUP = (
    (re.compile(rb"\s*(?:<!doctype html|<html)[\s>]", re.IGNORECASE), "text/html"),
    (re.compile(rb"\s*<svg[\s>]"), "image/svg+xml"),
    (re.compile(rb"\s*<\?xml\s"), "application/xml"),
)


class Sniffer:
    """Sees a blob's chunks go by, in constant memory, and says in the end what they are."""

    def __init__(self) -> None:
        self._head = b""
        self._tail = b""
        self._size = 0
        self._is_text = True
        self._decoder = codecs.getincrementaldecoder("utf-8")()

    def feed(self, chunk: bytes) -> None:
        """Take the next chunk."""
        self._size += len(chunk)
        if len(self._head) < HEAD_BYTES:
            self._head += chunk[: HEAD_BYTES - len(self._head)]
        if self._is_text:
            self._tail = (self._tail + chunk[-64:])[-64:]
            self._is_text = len(chunk.translate(None, _NOT_TEXT)) == len(chunk) and self._decodes(chunk)

    def media_type(self, claimed: str | None = None) -> str:
        """The type; `claimed`, by a caller, where the bytes do not contradict it."""
        found = self._found()
        return claimed.lower() if claimed and _refines(claimed.lower(), found) else found

    def _found(self) -> str:
        for magic, kind in _MAGIC:
            if self._head.startswith(magic):
                return kind
        if self._head[:4] == b"RIFF" and self._head[8:12] == b"WEBP":
            return "image/webp"
        if not (self._is_text and self._decodes(b"", final=True)):
            return "application/octet-stream"
        head = self._head.removeprefix(codecs.BOM_UTF8)
        for pattern, kind in _MARKUP:
            if pattern.match(head):
                return kind
        return "application/json" if self._is_json(head) else "text/plain"

    def _decodes(self, chunk: bytes, final: bool = False) -> bool:
        try:
            self._decoder.decode(chunk, final)
        except UnicodeDecodeError:
            return False
        return True

    def _is_json(self, head: bytes) -> bool:
        """One JSON object or array. Past `HEAD_BYTES` it is judged by its two ends."""
        if not _JSON_START.match(head) or not self._tail.rstrip().endswith((b"}", b"]")):
            return False
        try:
            _, end = _json().raw_decode(head.decode(errors="replace").lstrip())
        except RecursionError:
            return True
        except ValueError:
            return self._size > HEAD_BYTES
        return self._size <= HEAD_BYTES and not head.decode().lstrip()[end:].strip()


@cache
def _json() -> "JSONDecoder":
    """Imported when first needed: most commands store nothing."""
    from json import JSONDecoder

    return JSONDecoder()


def sniff(data: bytes, claimed: str | None = None) -> str:
    """The media type of `data`."""
    sniffer = Sniffer()
    sniffer.feed(data)
    return sniffer.media_type(claimed)


def _refines(claimed: str, found: str) -> bool:
    """Whether bytes found to be `found` may be what the caller says."""
    if not _WELL_FORMED.fullmatch(claimed):
        return False
    bare = claimed.partition(";")[0]
    if bare == found:
        return True
    if bare in _KNOWN:
        return False
    textual = _TEXTUAL.fullmatch(bare) is not None
    if found in _CONTAINERS:
        return bare.startswith("application/") and not textual
    if found in _KNOWN:
        return False
    if found == "application/octet-stream":
        return not textual
    json_like = bare == "application/json" or bare.endswith("+json")
    return textual and (found == "application/json" or not json_like)
