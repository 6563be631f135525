"""Devices and their spools; the stream is `device/<serial>/<month>`."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from core.vocabulary.base import BlobRef, Open, Provisional


class _Device(Provisional, frozen=True):
    home: ClassVar[str] = "device/R58M12ABCDE/2026-01"


class DeviceHeartbeat(_Device, frozen=True):
    """The device's spool is alive."""

    backlog: Annotated[int, Open("events not yet persisted", 12)]
    oldest: Annotated[str | None, Open("time of the oldest of them, RFC 3339", "2026-01-02T03:04:05.000000Z")]
    clock_offset: Annotated[float, Open("seconds its clock is ahead of the log's", -0.4)]
    disk: Annotated[int, Open("bytes free", 4_000_000_000)]


class BlobStored(_Device, frozen=True):
    """A blob reached the blob store."""

    blob: Annotated[BlobRef, Open("which")]


class BlobDropped(_Device, frozen=True):
    """A blob was given up."""

    blob: Annotated[BlobRef, Open("which")]
    reason: Annotated[Literal["quota", "disk", "unreadable", "too_large"], Open("why")]
