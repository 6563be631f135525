"""Pictures as far as they must be known to be shown: raster kinds that are safe to show, and their size.

Judged by the bytes alone, never by what a record says. SVG is no raster: it can hold script. Pure.
"""

from typing import Final, NamedTuple

from eventlog.blobs.media_type import sniff

RASTER: Final = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
"""The only media types that are ever shown as pictures."""

HEAD_BYTES: Final = 262_144
"""Bytes that tell a picture's kind and size, however much metadata stands before them."""

_LARGEST = 100_000
"""Pixels of a side over which a header is not believed."""


class Size(NamedTuple):
    """Pixels."""

    width: int
    height: int


def raster(head: bytes) -> tuple[str, Size] | None:
    """The media type and size of a picture, given its first bytes; None for anything else."""
    kind = sniff(head[:4096])
    found = _SIZES[kind](head) if kind in _SIZES else None
    if found is None or not (0 < found.width <= _LARGEST and 0 < found.height <= _LARGEST):
        return None
    return kind, found


def _png(head: bytes) -> Size | None:
    if head[12:16] != b"IHDR" or len(head) < 33:
        return None
    return Size(int.from_bytes(head[16:20]), int.from_bytes(head[20:24]))


def _gif(head: bytes) -> Size | None:
    return Size(int.from_bytes(head[6:8], "little"), int.from_bytes(head[8:10], "little")) if len(head) >= 10 else None


def _jpeg(head: bytes) -> Size | None:
    """From the first frame header (ITU-T T.81, B.2.2)."""
    at = 2
    while at + 9 <= len(head):
        if head[at] != 0xFF:
            return None
        marker = head[at + 1]
        if marker == 0xFF or 0xD0 <= marker <= 0xD8 or marker == 0x01:
            at += 1 if marker == 0xFF else 2
            continue
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            return Size(int.from_bytes(head[at + 7 : at + 9]), int.from_bytes(head[at + 5 : at + 7]))
        at += 2 + int.from_bytes(head[at + 2 : at + 4])
    return None


def _webp(head: bytes) -> Size | None:
    """From the first chunk: lossy (RFC 6386, 9.1), lossless, or extended."""
    kind, data = head[12:16], head[20:]
    if len(data) < 10:
        return None
    if kind == b"VP8 ":
        return Size(int.from_bytes(data[6:8], "little") & 0x3FFF, int.from_bytes(data[8:10], "little") & 0x3FFF)
    if kind == b"VP8L":
        bits = int.from_bytes(data[1:5], "little")
        return Size((bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1)
    if kind == b"VP8X":
        return Size(int.from_bytes(data[4:7], "little") + 1, int.from_bytes(data[7:10], "little") + 1)
    return None


_SIZES = {"image/png": _png, "image/jpeg": _jpeg, "image/gif": _gif, "image/webp": _webp}
