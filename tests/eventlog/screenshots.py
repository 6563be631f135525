"""Screenshots made for tests, and an episode that touches them."""

import struct
import zlib
from collections.abc import Callable

from core.vocabulary import Payload
from core.vocabulary.base import BlobRef
from core.vocabulary.contract import Check, Finished, Observation, Point, Ui, Verification, Viewport
from core.vocabulary.episode import (
    ActionSubmitted,
    EpisodeEnded,
    EpisodeStarted,
    FeedbackRecorded,
    MessageRecorded,
    ModelResponded,
    NoteAdded,
    Usage,
    VerificationRecorded,
)
from tests.eventlog.samples import failed, raw

WIDTH, HEIGHT = 108, 228

Keep = Callable[[bytes], BlobRef]

TREE = (
    b'<?xml version="1.0"?><hierarchy rotation="0"><node class="android.widget.FrameLayout" bounds="[0,0][108,228]">'
    b'<node text="7:00" resource-id="clock:id/time" class="android.widget.TextView" bounds="[4,8][40,16]"/>'
    b'<node text="" content-desc="Add alarm" class="android.widget.Button" bounds="[44,200][64,220]" clickable="true"/>'
    b"</node></hierarchy>"
)


def png(colour: tuple[int, int, int], width: int = WIDTH, height: int = HEIGHT, extra: bytes = b"") -> bytes:
    """A picture of one colour; `extra` is carried in a chunk that nothing shows."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = (b"\0" + bytes(colour) * width) * height
    parts = [chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))]
    parts += [chunk(b"teSt", extra)] if extra else []
    return b"\x89PNG\r\n\x1a\n" + b"".join([*parts, chunk(b"IDAT", zlib.compress(rows)), chunk(b"IEND", b"")])


def seen(step: int, *blobs: BlobRef, action: int | None = None, flags: list[str] | None = None) -> Payload:
    """A screen, with its screenshot and UI tree."""
    viewport = Viewport(WIDTH, HEIGHT)
    observation = Observation(blobs=list(blobs), viewport=viewport, app="clock", flags=flags or [])
    return FeedbackRecorded(step=step, feedback=observation, action=action, latency_ms=800.0)


def touched(step: int, op: str, x: float, y: float, to: tuple[float, float] | None = None, **point: object) -> Payload:
    """A touch at a place."""
    target = Point(x=x, y=y, **point)  # type: ignore[arg-type]
    end = None if to is None else Point(x=to[0], y=to[1])
    return ActionSubmitted(step=step, action=Ui(op=op, target=target, to=end))  # type: ignore[arg-type]


def episode(keep: Keep, *, message: str = "Set an alarm for 7:00") -> list[Payload]:
    """An episode on a phone: a tap, a swipe, a tap outside the screen, a call that fails, and its verdicts."""
    home, clock, list_ = (keep(png(colour)) for colour in ((20, 60, 120), (30, 30, 30), (200, 200, 210)))
    gone = BlobRef(address=f"sha256:{'a' * 64}", size=1234, media_type="image/png")
    return [
        EpisodeStarted(task="alarm", goal=message, policy="planner-1", environment="phone", backend="device"),
        MessageRecorded(role="user", content=raw(message)),
        seen(1, home, keep(TREE)),
        ModelResponded(
            step=1,
            thought="The clock is at the bottom. " * 30,
            content="I will open the clock.",
            usage=Usage(prompt_tokens=900, completion_tokens=40),
            latency_ms=1200.0,
        ),
        touched(1, "tap", 54, 210),
        seen(1, clock, action=5),
        ModelResponded(step=2, content="Now to seven.", latency_ms=900.0),
        touched(2, "swipe", 54, 180, (54, 60)),
        seen(2, list_, action=8),
        ModelResponded(step=3, content="And confirm."),
        touched(3, "tap", 200, 20),
        seen(3, gone, action=11, flags=["stale"]),
        touched(3, "long_press", 0, 500, space="0-1000"),
        failed(3, "timeout", action=13),
        EpisodeEnded(end=Finished()),
        VerificationRecorded(
            verification=Verification(
                verdict="fail",
                reward=0.0,
                checks=[
                    Check(id="alarm_set", policy="state", verdict="fail", detail=raw({"expected": "07:00"})),
                    Check(id="nothing_else", policy="no_collateral", verdict="pass"),
                ],
            ),
            source="machine",
        ),
        VerificationRecorded(
            verification=Verification(verdict="fail"), source="human", why="It never confirmed.", supersedes=16
        ),
        NoteAdded(text="It tapped beside the screen.", target=11),
    ]
