"""The pictures and texts of a report that lie in the blob store.

Each picture is in the page once: where it is shown first, it stands; everywhere else it is referred to.
Only raster pictures are ever shown, and what they are is judged by their bytes. When a report is laid
out a blob's first bytes are read, the rest when its place on the page is written.
"""

from base64 import b64encode
from typing import Any, BinaryIO, Final, Protocol

import msgspec

from core.errors import TrajlogError
from eventlog.picture import HEAD_BYTES, Size, raster
from eventlog.report.drawing import Shape, shapes
from eventlog.screens import Screen

TEXT_BYTES: Final = 131_072
"""Bytes of a text from the blob store that are put into the page."""

_BLANK: Final = Size(1080, 1920)
"""The screen that is drawn where its size is unknown."""


class Blobs(Protocol):
    """Where blobs are read; raises `TrajlogError` for what is missing or corrupt."""

    def open(self, address: str) -> BinaryIO: ...
    def get(self, address: str) -> bytes: ...


class Shot(msgspec.Struct, frozen=True):
    """A screen as it is shown: its picture, or why there is none (`absent`), and what was touched.

    `embeds`: the picture stands here; else only its `name` is referred to. `version` is the event that
    shows it, `bytes` how large the picture is."""

    name: str
    embeds: bool
    address: str | None
    media_type: str | None
    bytes: int
    width: int
    height: int
    version: int
    caption: str
    absent: str | None
    shapes: list[Shape]
    remark: str | None


class Text(msgspec.Struct, frozen=True):
    """A text in the blob store, such as a UI tree."""

    address: str
    media_type: str
    size: int


class _Known(msgspec.Struct):
    name: str
    media_type: str | None = None
    size: Size | None = None
    absent: str | None = None
    embedded: bool = False


class Shots:
    """Finds the pictures of a report. `images=False` leaves them out, not what was touched.

    `pictures` counts those in the page, `missing` the blobs that are not to be had, `size` the bytes of
    the pictures."""

    def __init__(self, blobs: Blobs, *, images: bool = True) -> None:
        self._blobs = blobs
        self._images = images
        self._known: dict[str, _Known] = {}
        self.pictures = 0
        self.size = 0
        self.missing: set[str] = set()

    def shot(self, screen: Screen, caption: str, action: Any = None) -> Shot:
        """A screen's first picture, and over it what an action did to it."""
        return self._shot(screen, screen.picture, caption, action)

    def all(self, screen: Screen, caption: str) -> list[Shot]:
        """Every picture of a screen; the blank one if it has none."""
        pictures: list[dict[str, Any] | None] = [*screen.pictures] or [None]
        return [self._shot(screen, picture, caption, None) for picture in pictures]

    def _shot(self, screen: Screen, picture: dict[str, Any] | None, caption: str, action: Any) -> Shot:
        known = _Known("", absent="no picture was kept") if picture is None else self._find(picture)
        size = known.size or screen.size
        marks, notes = screen.drawn(action, size or _BLANK)
        embeds = known.absent is None and not known.embedded
        if embeds:
            known.embedded = True
            self.pictures += 1
        return Shot(
            name=known.name,
            embeds=embeds,
            address=None if picture is None else str(picture["address"]),
            media_type=known.media_type,
            bytes=0 if picture is None else _count(picture.get("size")),
            width=(size or _BLANK).width,
            height=(size or _BLANK).height,
            version=screen.version,
            caption=caption,
            absent=known.absent,
            shapes=[] if size is None else list(shapes(marks, size)),
            remark="; ".join(notes) or None,
        )

    def _find(self, picture: dict[str, Any]) -> _Known:
        address = str(picture["address"])
        known = self._known.get(address)
        if known is None:
            known = self._known[address] = self._look(address, len(self._known))
        return known

    def _look(self, address: str, number: int) -> _Known:
        try:
            with self._blobs.open(address) as file:
                found = raster(file.read(HEAD_BYTES))
        except (TrajlogError, OSError):
            self.missing.add(address)
            return _Known("", absent="the picture is missing")
        if found is None:
            return _Known("", absent="not a picture that is shown here")
        absent = None if self._images else "the picture was left out"
        return _Known(f"s{number}", found[0], found[1], absent)

    def uri(self, shot: Shot) -> str:
        """The data URI of a picture; "" if its bytes cannot be had."""
        if shot.address is None or shot.media_type is None:
            return ""
        try:
            data = self._blobs.get(shot.address)
        except (TrajlogError, OSError):
            self.missing.add(shot.address)
            return ""
        self.size += len(data)
        return f"data:{shot.media_type};base64,{b64encode(data).decode('ascii')}"

    def text(self, text: Text) -> tuple[str, str | None]:
        """A text's beginning, and what is to be said about it."""
        try:
            with self._blobs.open(text.address) as file:
                data = file.read(TEXT_BYTES + 1)
        except (TrajlogError, OSError):
            self.missing.add(text.address)
            return "", "missing"
        found = data[:TEXT_BYTES].decode(errors="replace")
        return found, f"the first {TEXT_BYTES:,} bytes" if len(data) > TEXT_BYTES else None


def _count(size: Any) -> int:
    return size if isinstance(size, int) and size >= 0 else 0
